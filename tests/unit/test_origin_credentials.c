/* test_origin_credentials.c - whose name an origin is asked in.
 * SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <stdio.h>
#include <unistd.h>

#include "origin/source.h"

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
        "[profile only]\naws_access_key_id = ONLY\naws_secret_access_key = only\n"
        "[profile role]\nrole_arn = arn\nsource_profile = work\n"
        "[profile process]\ncredential_process = give\n"
        "[profile slow]\ncredential_process = sleep 9\n");
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
    variables = (const char *const[]){ "AWS_ACCESS_KEY_ID", "ENV", "AWS_SECRET_ACCESS_KEY", "env ",
                                       NULL };
    ok(credentials_find(&keep, &ask, &found, &why) == ERR_BAD_ARGUMENT);
    same(why, S("AWS_SECRET_ACCESS_KEY begins or ends with a space: remove the space"));
    ask.profile = S("half");
    ok(credentials_find(&keep, &ask, &found, &why) == ERR_BAD_ARGUMENT);
    same(why, S("aws_access_key_id is set and aws_secret_access_key is not: set both "
                "in profile half"));
    ask.profile = S("nobody");
    ok(credentials_find(&keep, &ask, &found, &why) == ERR_NOT_FOUND);
    ok(strstr(why.ptr, "profile 'nobody' has no credentials: give it"));
    ask.profile = S("");
    variables = (const char *const[]){ "AWS_ACCESS_KEY_ID", "ENV", "AWS_SECRET_ACCESS_KEY_FILE",
                                       "/none", NULL };
    ok(credentials_find(&keep, &ask, &found, &why) == ERR_IO);
    same(why, S("AWS_SECRET_ACCESS_KEY_FILE: the file /none does not exist: make this file, or "
                "name another"));
    arena_free(&keep);
}

/* Nobody is asked: only whose turn it would be. */
static bool chooses(const char *const *set, slice profile, const char *from)
{
    struct arena keep = { 0 };
    struct credentials found;
    struct credentials_ask ask = { .env = env, .profile = profile };
    slice why = S("");
    variables = set;
    enum err e = credentials_find(&keep, &ask, &found, &why);
    bool right = e == OK && slice_eq(found.from, slice_of(from)) &&
                 (found.kind == CREDENTIALS_LENT) == (found.access_key.len == 0);
    arena_free(&keep);
    return right;
}

#define CONTAINER "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/x"
#define WEB "AWS_WEB_IDENTITY_TOKEN_FILE", "/t", "AWS_ROLE_ARN", "r"

TEST(what_lends_comes_in_the_order_of_the_sdks)
{
    static const char *const all[] = { "AWS_PROFILE", "role", WEB, CONTAINER, "AWS_ACCESS_KEY_ID",
                                       "A", "AWS_SECRET_ACCESS_KEY", "s", NULL };
    static const char *const role[] = { "AWS_PROFILE", "role", WEB, CONTAINER, NULL };
    static const char *const web[] = { "AWS_PROFILE", "process", WEB, CONTAINER, NULL };
    static const char *const process[] = { "AWS_PROFILE", "process", CONTAINER, NULL };
    static const char *const container[] = { "AWS_PROFILE", "nobody", CONTAINER, NULL };
    ok(chooses(all, S(""), "env AWS_ACCESS_KEY_ID"));
    ok(chooses(all, S("work"), "profile work"));
    ok(chooses(role, S(""), "role arn of profile role"));
    ok(chooses(web, S(""), "role r by the token in /t"));
    ok(chooses(web, S("process"), "credential_process of profile process"));
    ok(chooses(process, S(""), "credential_process of profile process"));
    ok(chooses(container, S(""), "container endpoint http://169.254.170.2/v2/x"));
}

TEST(a_program_that_ends_because_penstock_stops_is_not_called_slow)
{
    struct arena keep = { 0 };
    struct credentials found;
    const atomic_bool stop = true;
    struct credentials_ask ask = { .env = env, .profile = S("slow"), .may_lend = true,
                                   .stop = &stop };
    slice why = S("");
    ok(credentials_find(&keep, &ask, &found, &why) == ERR_STOPPING);
    same(why, S("credential_process of profile slow was ended, because Penstock is stopping"));
    arena_free(&keep);
}

TEST(keys_over_plain_http_come_from_near_by_alone)
{
    static const struct {
        const char *url;
        bool good;
    } rows[] = {
        { "http://127.0.0.1:80/x", true }, { "http://127.9.0.1/", true },
        { "http://localhost:1/x", true }, { "http://[::1]:8/x", true },
        { "http://169.254.170.23/v1", true }, { "https://example.com/x", true },
        { "http://example.com/x", false }, { "http://127.0.0.1.example.com/", false },
        { "http://169.254.170.2.example.com", false }, { "http://[::2]/", false },
        { "ftp://localhost/", false }, { "http://localhost@example.com/", false },
    };
    for (size_t i = 0; i < countof(rows); i++) {
        const char *const set[] = { "AWS_PROFILE", "nobody", "AWS_CONTAINER_CREDENTIALS_FULL_URI",
                                    rows[i].url, NULL };
        char from[200];
        snprintf(from, sizeof(from), "container endpoint %s", rows[i].url);
        if (chooses(set, S(""), from) != rows[i].good)
            fail_msg("%s", rows[i].url);
    }
}

/* An instance's, in an outage of what renews them. */
TEST(what_has_expired_is_none_but_where_its_source_lets_it_live_on)
{
    struct arena keep = { 0 };
    const struct credentials_ask ask = { .env = env, .now_s = 1440938160 };
    struct seek seek = { .keep = &keep, .ask = &ask };
    for (int outlasts = 0; outlasts < 2; outlasts++) {
        struct credentials lent = { .from = S("there"), .outlasts = outlasts };
        slice document = S("{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"s\",\"Token\":\"t\","
                           "\"Expiration\":\"2015-08-30T12:35:00Z\"}");
        enum err e = seek_read_json(&seek, document, "Token", &lent);
        ok(e == (outlasts ? OK : ERR_EXPIRED) && lent.expires_s == ask.now_s - 60);
        slice never = S("{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"s\",\"Token\":\"t\","
                        "\"Expiration\":\"soon\"}");
        ok(seek_read_json(&seek, never, "Token", &lent) == ERR_FORMAT);
    }
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

TEST(a_secret_in_a_file_goes_with_a_key_in_the_environment_and_before_one_there)
{
    char path[] = "/tmp/penstock-secret-XXXXXX";
    put(path, "mounted\n");
    const char *const mixed[] = { "AWS_ACCESS_KEY_ID", "ENV", "AWS_SECRET_ACCESS_KEY_FILE", path,
                                  NULL };
    const char *const both[] = { "AWS_ACCESS_KEY_ID", "ENV", "AWS_SECRET_ACCESS_KEY", "env",
                                 "AWS_SECRET_ACCESS_KEY_FILE", path, NULL };
    variables = mixed;
    ok(finds((struct credentials_ask){ 0 }, "ENV", "mounted", "", "eu-north-1"));
    variables = both;
    ok(finds((struct credentials_ask){ 0 }, "ENV", "mounted", "", "eu-north-1"));
    unlink(path);
}

TEST(what_is_empty_after_trimming_is_a_mistake)
{
    char blank[] = "/tmp/penstock-secret-XXXXXX", full[] = "/tmp/penstock-secret-XXXXXX";
    put(blank, " \n\t\n");
    put(full, "secret\n");
    const char *const secret[] = { "AWS_ACCESS_KEY_ID", "ENV", "AWS_SECRET_ACCESS_KEY_FILE", blank,
                                   NULL };
    const char *const key[] = { "AWS_ACCESS_KEY_ID_FILE", blank, "AWS_SECRET_ACCESS_KEY_FILE", full,
                                NULL };
    const char *const token[] = { "AWS_ACCESS_KEY_ID", "ENV", "AWS_SECRET_ACCESS_KEY_FILE", full,
                                  "AWS_SESSION_TOKEN_FILE", blank, NULL };
    const char *const spaces[] = { "AWS_ACCESS_KEY_ID", "ENV", "AWS_SECRET_ACCESS_KEY", " ", NULL };
    const char *const blanks[] = { "AWS_ACCESS_KEY_ID", "ENV", "AWS_SECRET_ACCESS_KEY", "env",
                                   "AWS_SESSION_TOKEN", " ", NULL };
    const char *const *const all[] = { secret, key, token, spaces, blanks };
    const struct credentials_ask named[] = {
        { .access_key = S("SET"), .secret_key = S("set"), .secret_key_file = slice_of(blank) },
        { .access_key = S("SET"), .secret_key = S("set"), .session_token = S("token"),
          .session_token_file = slice_of(blank) },
        { .access_key = S("SET"), .secret_key = S(" \t") },
        { .access_key = S("SET"), .secret_key = S("set"), .session_token = S(" ") },
    };
    for (size_t i = 0; i < countof(all); i++) {
        variables = all[i];
        ok(finds((struct credentials_ask){ 0 }, NULL, NULL, NULL, NULL));
    }
    variables = NULL;
    for (size_t i = 0; i < countof(named); i++)
        ok(finds(named[i], NULL, NULL, NULL, NULL));
    unlink(blank);
    unlink(full);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_go_first_then_the_environment_then_the_files),
        cmocka_unit_test(a_profile_is_found_in_either_file),
        cmocka_unit_test(what_was_found_says_where_and_half_a_pair_what_is_missing),
        cmocka_unit_test(what_lends_comes_in_the_order_of_the_sdks),
        cmocka_unit_test(a_program_that_ends_because_penstock_stops_is_not_called_slow),
        cmocka_unit_test(keys_over_plain_http_come_from_near_by_alone),
        cmocka_unit_test(what_has_expired_is_none_but_where_its_source_lets_it_live_on),
        cmocka_unit_test(half_a_pair_is_a_mistake),
        cmocka_unit_test(
            a_secret_in_a_file_goes_with_a_key_in_the_environment_and_before_one_there),
        cmocka_unit_test(what_is_empty_after_trimming_is_a_mistake),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
