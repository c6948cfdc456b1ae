/* test_origin_credentials.c - whose name an origin is asked in.
 * SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <stdio.h>
#include <unistd.h>

#include "origin/credentials.h"

static char credentials_path[] = "/tmp/penstock-cred-XXXXXX";
static char config_path[] = "/tmp/penstock-conf-XXXXXX";
static const char *const *variables;    /* name, value, ..., NULL */

static const char *env(const char *name)
{
    if (!strcmp(name, "AWS_SHARED_CREDENTIALS_FILE"))
        return credentials_path;
    if (!strcmp(name, "AWS_CONFIG_FILE"))
        return config_path;
    for (size_t i = 0; variables && variables[i]; i += 2)
        if (!strcmp(variables[i], name))
            return variables[i + 1];
    return NULL;
}

static void put(char *path, const char *text)
{
    int fd = mkstemp(path);
    ok(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

static int setup(void **state)
{
    put(credentials_path,
        "# a comment\n[default]\naws_access_key_id = DEF\r\naws_secret_access_key=def/+=x\n\n"
        "[ work ]\naws_access_key_id=WORK\n  aws_access_key_id=indented\n"
        "aws_secret_access_key = work\naws_session_token = tok\n"
        "[half]\naws_access_key_id = HALF\n");
    put(config_path,
        "[default]\nregion = eu-north-1\n[profile work]\nregion=ap-south-1\n[work]\nregion=wrong\n"
        "[profile only]\naws_access_key_id = ONLY\naws_secret_access_key = only");
    return 0;
}

static int teardown(void **state)
{
    unlink(credentials_path);
    unlink(config_path);
    return 0;
}

static bool finds(struct credentials_ask ask, const char *key, const char *secret,
                  const char *token, const char *region)
{
    struct arena keep = { 0 };
    struct credentials found;
    slice why = S("");
    ask.env = env;
    enum err e = credentials_find(&keep, &ask, &found, &why);
    bool right = key ? e == OK && slice_eq(found.access_key, slice_of(key)) &&
                       slice_eq(found.secret_key, slice_of(secret)) &&
                       slice_eq(found.session_token, slice_of(token)) &&
                       slice_eq(found.region, slice_of(region))
                     : e != OK && why.len > 0;
    arena_free(&keep);
    return right;
}

TEST(settings_go_first_then_the_environment_then_the_files)
{
    static const char *const set[] = {
        "AWS_ACCESS_KEY_ID", "ENV", "AWS_SECRET_ACCESS_KEY", "env",
        "AWS_SESSION_TOKEN", "envtok", "AWS_REGION", "us-west-2", NULL,
    };
    struct credentials_ask none = { 0 }, some = { .access_key = S("SET"), .secret_key = S("set") };
    variables = set;
    ok(finds(some, "SET", "set", "", "us-west-2"));
    ok(finds(none, "ENV", "env", "envtok", "us-west-2"));
    some.region = S("sa-east-1");
    ok(finds(some, "SET", "set", "", "sa-east-1"));
    variables = NULL;
    ok(finds(none, "DEF", "def/+=x", "", "eu-north-1"));
}

TEST(a_profile_is_found_in_either_file)
{
    static const char *const set[] = { "AWS_PROFILE", "work", NULL };
    struct credentials_ask none = { 0 };
    variables = set;
    ok(finds(none, "WORK", "work", "tok", "ap-south-1"));
    none.profile = S("only");
    ok(finds(none, "ONLY", "only", "", ""));
    none.profile = S("nobody");
    ok(finds(none, NULL, NULL, NULL, NULL));
}

TEST(what_was_found_says_where_and_half_a_pair_what_is_missing)
{
    static const char *const pair[] = {
        "AWS_ACCESS_KEY_ID", "ENV", "AWS_SECRET_ACCESS_KEY", "env", NULL,
    };
    static const char *const half[] = { "AWS_ACCESS_KEY_ID", "ENV", NULL };
    struct arena keep = { 0 };
    struct credentials found;
    struct credentials_ask ask = { .env = env };
    slice why;
    variables = pair;
    ok(credentials_find(&keep, &ask, &found, &why) == OK);
    same(found.from, S("env AWS_ACCESS_KEY_ID"));
    variables = half;
    ok(credentials_find(&keep, &ask, &found, &why) == ERR_BAD_ARGUMENT);
    same(why, S("AWS_ACCESS_KEY_ID is set and AWS_SECRET_ACCESS_KEY is not: set both"));
    ask.profile = S("half");
    ok(credentials_find(&keep, &ask, &found, &why) == ERR_BAD_ARGUMENT);
    same(why, S("aws_access_key_id is set and aws_secret_access_key is not: set both "
                "in profile half"));
    arena_free(&keep);
}

TEST(half_a_pair_is_a_mistake)
{
    static const char *const set[] = { "AWS_ACCESS_KEY_ID", "ENV", NULL };
    variables = NULL;
    ok(finds((struct credentials_ask){ .profile = S("half") }, NULL, NULL, NULL, NULL));
    ok(finds((struct credentials_ask){ .secret_key = S("x") }, NULL, NULL, NULL, NULL));
    variables = set;
    ok(finds((struct credentials_ask){ 0 }, NULL, NULL, NULL, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_go_first_then_the_environment_then_the_files),
        cmocka_unit_test(a_profile_is_found_in_either_file),
        cmocka_unit_test(what_was_found_says_where_and_half_a_pair_what_is_missing),
        cmocka_unit_test(half_a_pair_is_a_mistake),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
