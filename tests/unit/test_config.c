/* test_config.c - settings from every source, and every mistake found.
 * SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <stdio.h>
#include <unistd.h>

#include "base/config.h"
#include "base/json_place.h"
#include "origin/origin.h"
#include "peers/members.h"

static char path[] = "/tmp/penstock-config-XXXXXX";

static void write_file(const char *to, const char *text)
{
    FILE *file = fopen(to, "w");
    check(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
}

static struct config *load(const char *text, const char *const *env, const char *const *argv)
{
    write_file(path, text);
    struct config_sources from = {
        .argv = argv, .env = env, .path = path, .kinds = origin_url_kind,
        .judge_peers = members_may_be,
    };
    while (argv && argv[from.argc])
        from.argc++;
    return config_load(&from);
}

static size_t count_mistakes(const struct config *config)
{
    size_t count = 0;
    for (const struct config_mistake *m = config->mistakes; m; m = m->next)
        count++;
    return count;
}

/* A value of the row's type that is not its default. */
static const char *sample(const struct setting *setting, char ret[64])
{
    switch (setting->type) {
    case TYPE_SIZE: snprintf(ret, 64, "%juB", (uintmax_t)setting->max); break;
    case TYPE_COUNT: snprintf(ret, 64, "%ju", (uintmax_t)setting->max); break;
    case TYPE_DURATION: snprintf(ret, 64, "%jums", (uintmax_t)setting->max); break;
    case TYPE_BOOL: return "false";
    case TYPE_CHOICE: snprintf(ret, 64, "%s", strrchr(setting->unit, '|') + 1); break;
    case TYPE_ADDRESS: return "127.0.0.1:7";
    case TYPE_URL: return "http://example.com:81";
    case TYPE_PATH: return "/somewhere/else";
    default: return "some-text";
    }
    return ret;
}

static void expect(struct config *config, const void *group, const struct setting_where *where,
                   const struct setting *setting, const char *wanted, enum setting_source from)
{
    struct arena arena = { 0 };
    union { uint64_t number; const char *text; bool truth; } want;
    struct setting at_zero = *setting;
    at_zero.offset = 0;
    const char *why;
    ok(setting_read(&at_zero, slice_of(wanted), &arena, &want, &why));
    const char *at = (const char *)group + setting->offset;
    if (setting_is_number(setting))
        ok(*(const uint64_t *)(const void *)at == want.number);
    else if (setting_is_text(setting))
        assert_string_equal(*(const char *const *)(const void *)at, want.text);
    else
        ok(*(const bool *)(const void *)at == want.truth);
    ok(where[setting - settings].from == from);
    arena_free(&arena);
    config_free(&config);
}

static void flag_of(const struct setting *setting, char ret[160], const char *value)
{
    int len = snprintf(ret, 160, "--%s", setting->name);
    for (int i = 0; i < len; i++)
        ret[i] = ret[i] == '_' ? '-' : ret[i];
    snprintf(ret + len, 160 - (size_t)len, "=%s", value);
}

static void env_of(const struct setting *setting, const char *value, char ret[160])
{
    int len = snprintf(ret, 160, "PENSTOCK_%s", setting->name);
    for (int i = 0; i < len; i++)
        ret[i] = (char)(ret[i] >= 'a' && ret[i] <= 'z' ? ret[i] - 32 : ret[i]);
    snprintf(ret + len, 160 - (size_t)len, "=%s", value);
}

/* A row takes a value from flag, variable and file, and has its default without them. */
static void expect_three_ways(const struct setting *setting, const char *value)
{
    char flag[160], env[160], text[256];
    flag_of(setting, flag, value);
    struct config *config = load("{}", NULL, (const char *[]){ flag, NULL });
    expect(config, config, config->where, setting, value, FROM_FLAG);
    env_of(setting, value, env);
    config = load("{}", (const char *[]){ env, NULL }, NULL);
    expect(config, config, config->where, setting, value, FROM_ENV);
    snprintf(text, sizeof(text), "{\"%s\": \"%s\"}", setting->name, value);
    config = load(text, NULL, NULL);
    expect(config, config, config->where, setting, value, FROM_FILE);
    config = load("{}", NULL, NULL);
    expect(config, config, config->where, setting, setting->standard, FROM_DEFAULT);
}

TEST(every_global_row_is_reached_by_flag_variable_and_file)
{
    for (size_t i = 0; i < setting_count; i++) {
        const struct setting *setting = &settings[i];
        char room[64];
        if (setting->scope == SCOPE_GLOBAL && strcmp(setting->name, "config") != 0)
            expect_three_ways(setting, sample(setting, room));
    }
}

TEST(every_constant_is_reached_by_flag_variable_and_file)
{
    size_t count = 0;
    for (size_t i = 0; i < setting_count; i++) {
        const struct setting *setting = &settings[i];
        char room[64];
        if (setting->scope != SCOPE_CONSTANT)
            continue;
        count++;
        expect_three_ways(setting, sample(setting, room));
    }
    ok(count >= BUDGET_COUNT);
}

TEST(a_setting_of_a_group_that_is_gone_is_remembered_and_no_mistake)
{
    struct config *config = load("{\"origins\": {\"w\": {\"url\": \"http://a\",\n"
                                 " \"tries\": 2, \"wait_time\": 7}}}", NULL, NULL);
    size_t at = setting_at(SCOPE_ORIGIN, S("tries"));
    ok(!config->mistakes && settings[at].scope == SCOPE_GONE);
    ok(config->origins[0].where[at].from == FROM_FILE && config->origins[0].where[at].line == 2);
    config_free(&config);
}

TEST(every_row_of_a_group_is_reached_by_file)
{
    static const char *const forms[] = {
        NULL, "{\"origins\": {\"west\": {\"%s\": \"%s\"}}}",
        "{\"buckets\": {\"data\": {\"%s\": \"%s\"}}}", "{\"keys\": [{\"%s\": \"%s\"}]}",
    };
    for (size_t i = 0; i < setting_count; i++) {
        const struct setting *setting = &settings[i];
        char room[64], text[256];
        if (setting->scope == SCOPE_GLOBAL || setting->scope >= SCOPE_CONSTANT)
            continue;
        const char *value = sample(setting, room);
        snprintf(text, sizeof(text), forms[setting->scope], setting->name, value);
        struct config *config = load(text, NULL, NULL);
        if (setting->scope == SCOPE_ORIGIN)
            expect(config, &config->origins[0], config->origins[0].where, setting, value,
                   FROM_FILE);
        else if (setting->scope == SCOPE_BUCKET)
            expect(config, &config->buckets[0], config->buckets[0].where, setting, value,
                   FROM_FILE);
        else
            expect(config, &config->keys[0], config->keys[0].where, setting, value, FROM_FILE);
    }
}

TEST(a_row_that_inherits_names_a_global_row_of_its_kind)
{
    for (size_t i = 0; i < setting_count; i++) {
        ok(settings[i].help[0] && settings[i].name[0]);
        if (settings[i].standard[0] != '=')
            continue;
        const struct setting *from = setting_find(SCOPE_GLOBAL, slice_of(settings[i].standard + 1));
        ok(from != NULL && from->type == settings[i].type);
        assert_string_equal(from->unit, settings[i].unit);
    }
}

static void expect_ttl(const char *const *env, const char *const *argv, const char *file,
                       uint64_t seconds, const char *where)
{
    struct arena arena = { 0 };
    struct config *config = load(file, env, argv);
    ok(config->ttl_ms == seconds * 1000);
    slice said = config_where(&config->where[setting_at(SCOPE_GLOBAL, S("ttl"))], &arena);
    if (slice_starts(said, S("/tmp/")))
        said = slice_from(said, sizeof(path) - 1);
    same(said, slice_of(where));
    arena_free(&arena);
    config_free(&config);
}

TEST(flags_beat_variables_beat_the_file_beats_defaults)
{
    const char *env[] = { "HOME=/", "PENSTOCK_TTL=2s", NULL };
    const char *argv[] = { "--ttl=1s", NULL }, *file = "{\"loops\": 1,\n \"ttl\": \"3s\"}";
    expect_ttl(env, argv, file, 1, "flag --ttl");
    expect_ttl(env, NULL, file, 2, "env PENSTOCK_TTL");
    expect_ttl(NULL, NULL, file, 3, ":2");
    expect_ttl(NULL, NULL, "{}", 60, "default");
    expect_ttl((const char *[]){ "PENSTOCK_TTL=", NULL }, NULL, file, 3, ":2");
}

TEST(cache_folders_come_from_one_setting_or_the_other)
{
    struct config *config = load("{\"origin\": \"http://h\",\n \"cache_dir\": \"/a\", \"cache_size\": \"1GiB\"}", NULL, NULL);
    ok(!config->mistakes && config->folder_count == 1 && config->folders[0].size_bytes == GIB);
    assert_string_equal(config->folders[0].path, "/a");
    config_free(&config);
    config = load("{\"origin\": \"http://h\",\n \"cache_dirs\": ["
                  "{\"path\": \"/a\", \"size\": \"2GiB\"}, {\"path\": \"/ab/\"}]}",
                  NULL, NULL);
    ok(!config->mistakes && config->folder_count == 2);
    assert_string_equal(config->folders[0].path, "/a");
    assert_string_equal(config->folders[1].path, "/ab");
    ok(config->folders[0].size_bytes == 2 * GIB && config->folders[1].size_bytes == 0);
    config_free(&config);
    config = load("{\"origin\": \"http://h\"}", (const char *[]){
        "PENSTOCK_CACHE_DIRS=[{\"path\": \"/c\", \"size\": 1073741824}]", NULL }, NULL);
    ok(!config->mistakes && config->folder_count == 1 && config->folders[0].size_bytes == GIB);
    assert_string_equal(config->folders[0].path, "/c");
    config_free(&config);
}

TEST(flags_have_the_usual_forms)
{
    struct config *config = load("{}", NULL, (const char *[]){
        "--no-access-log", "--cache-dir", "/a", "--admin_listen=off", "--origin", "dir:/b", NULL });
    ok(!config->mistakes && !config->access_log);
    assert_string_equal(config->cache_dir, "/a");
    assert_string_equal(config->admin_listen, "off");
    config_free(&config);
    config = load("{\"access_log\": false}", NULL, (const char *[]){ "--access-log", NULL });
    ok(config->access_log);
    config_free(&config);
}

TEST(a_secret_may_lie_in_a_file_and_is_never_shown)
{
    struct arena arena = { 0 };
    char secret[] = "/tmp/penstock-secret-XXXXXX", env[128], text[256];
    close(mkstemp(secret));
    write_file(secret, "s3cr3t\n");
    snprintf(env, sizeof(env), "PENSTOCK_SECRET_KEY_FILE=%s", secret);
    snprintf(text, sizeof(text), "{\"origin\": \"dir:/d\", \"access_key\": \"A\", "
             "\"keys\": [{\"access_key\": \"B\", \"secret_key_file\": \"%s\", "
             "\"policy\": \"all\"}]}", secret);
    struct config *config = load(text, (const char *[]){ env, NULL }, NULL);
    ok(!config->mistakes && config->key_count == 2);
    assert_string_equal(config->keys[0].secret_key, "s3cr3t");
    assert_string_equal(config->keys[1].secret_key, "s3cr3t");
    const struct setting *setting = setting_find(SCOPE_GLOBAL, S("secret_key"));
    same(setting_show(setting, config, &arena), S("********"));
    config_free(&config);
    unlink(secret);
    arena_free(&arena);
}

TEST(groups_inherit_what_they_leave_out)
{
    struct config *config = load(
        "{\"origin\": \"http://a\", \"ttl\": \"5s\", \"origin_connections\": 2,"
        " \"origins\": {\"b\": {\"url\": \"http://b\", \"progress_time\": \"3s\"},"
        "               \"c\": {\"url\": \"http://c\", \"connections\": 3}},"
        " \"# note\": 1,"
        " \"buckets\": {\"data/train\": {\"freshness\": \"immutable\"},"
        "               \"logs\": {\"origin\": \"b\", \"ttl\": \"6s\"},"
        "               \"logs/old\": {\"ttl\": \"7s\"}}}", NULL, NULL);
    ok(!config->mistakes && config->origin_count == 3 && config->bucket_count == 3);
    ok(config->origin_default == &config->origins[0] && config->origins[0].connections == 2);
    ok(config->origins[1].progress_time_ms == 3000 && config->origins[1].connections == 2);
    ok(config->origins[2].connections == 3 && config->origins[2].progress_time_ms == 20000);
    ok(config->buckets[0].from == &config->origins[0] && config->buckets[0].ttl_ms == 5000);
    same(config->buckets[0].bucket, S("data"));
    same(config->buckets[0].prefix, S("train"));
    ok(config->buckets[1].from == &config->origins[1] && config->buckets[1].ttl_ms == 6000);
    assert_string_equal(config->buckets[1].freshness, "ttl");
    ok(config->buckets[2].from == &config->origins[1] && config->buckets[2].ttl_ms == 7000);
    config_free(&config);
}

TEST(a_quantity_is_shown_as_it_could_be_written)
{
    struct arena arena = { 0 };
    struct config *config =
        load("{\"cache_size\": \"10GB\", \"ttl\": \"90s\", \"drain_time\": \"1500ms\","
             " \"bodies_disk\": 2147483648, \"fill_ring\": \"30 MiB\"}", NULL, NULL);
    const char *const shown[][2] = {
        { "cache_size", "9765625KiB" }, { "ttl", "90s" }, { "drain_time", "1500ms" },
        { "bodies_disk", "2GiB" }, { "fill_ring", "30MiB" }, { "cache_reserve", "0" },
        { "permission_time", "1h" }, { "access_log", "true" }, { "loops", "0" },
    };
    for (size_t i = 0; i < countof(shown); i++)
        same(setting_show(setting_find(SCOPE_GLOBAL, slice_of(shown[i][0])), config, &arena),
             slice_of(shown[i][1]));
    config_free(&config);
    arena_free(&arena);
}

/* Each line of `file` below is one line of the file, so the wanted line is easy to see. */
static const struct seeded {
    const char *file;
    unsigned line, column;
    const char *key, *nearest;
} seeded[] = {
    { "{\n \"listn\": \"127.0.0.1:1\"\n}", 2, 2, "listn", "listen" },
    { "{\n\n \"cache-size\": \"1GiB\"\n}", 3, 2, "cache-size", "cache_size" },
    { "{\"cahce_dir\": \"/x\"}", 1, 2, "cahce_dir", "cache_dir" },
    { "{\"ttl\": 60}", 1, 9, "ttl", NULL },
    { "{\"domains\": \"https://node1\"}", 1, 13, "domains", NULL },
    { "{\"domains\": \"localhost,Node1\"}", 1, 13, "domains", NULL },
    { "{\"domains\": \".node1\"}", 1, 13, "domains", NULL },
    { "{\"domains\": \"node1:9000\"}", 1, 13, "domains", NULL },
    { "{\"tls_cert_file\": \"/c\"}", 1, 19, "tls_cert_file", NULL },
    { "{\"ttl\": \"60\"}", 1, 9, "ttl", NULL },
    { "{\"ttl\": \"60x\"}", 1, 9, "ttl", NULL },
    { "{\"ttl\": \"\"}", 1, 9, "ttl", NULL },
    { "{\"ttl\": -1}", 1, 9, "ttl", NULL },
    { "{\"ttl\": null}", 1, 9, "ttl", NULL },
    { "{\"ttl\": [1, 2]}", 1, 9, "ttl", NULL },
    { "{\"TTL\": \"1s\"}", 1, 2, "TTL", NULL },
    { "{\"loops\": 257}", 1, 11, "loops", NULL },
    { "{\"loops\": 1.5}", 1, 11, "loops", NULL },
    { "{\"loops\": \"two\"}", 1, 11, "loops", NULL },
    { "{\"loops\":\n  true}", 2, 3, "loops", NULL },
    { "{\"cache_size\": \"1PB\"}", 1, 16, "cache_size", NULL },
    { "{\"cache_size\": \"63MiB\"}", 1, 16, "cache_size", NULL },
    { "{\"cache_size\": \"99999999999999999999TiB\"}", 1, 16, "cache_size", NULL },
    { "{\"cache_size\": \"16777216TiB\"}", 1, 16, "cache_size", NULL },
    { "{\"cache_size\": \"1.5GiB\"}", 1, 16, "cache_size", NULL },
    { "{\"memory\": \"63MiB\"}", 1, 12, "memory", NULL },
    { "{\"memry\": 0}", 1, 2, "memry", "memory" },
    { "{\"memory_slots\": 1}", 1, 18, "memory_slots", NULL },
    { "{\"test\": {\"fill_gets\": 9}}", 1, 2, "test", NULL },
    { "{\"fill_gets\": 9000}", 1, 15, "fill_gets", NULL },
    { "{\"io\": \"aio\"}", 1, 8, "io", NULL },
    { "{\"freshness\": \"imutable\"}", 1, 15, "freshness", NULL },
    { "{\"revalidate\": \"\"}", 1, 16, "revalidate", NULL },
    { "{\"access_log\": 1}", 1, 16, "access_log", NULL },
    { "{\"access_log\": \"yes\"}", 1, 16, "access_log", NULL },
    { "{\"acces_log\": true}", 1, 2, "acces_log", "access_log" },
    { "{\"listen\": \"9000\"}", 1, 12, "listen", NULL },
    { "{\"listen\": \"127.0.0.1:0\"}", 1, 12, "listen", NULL },
    { "{\"listen\": \"127.0.0.1:65536\"}", 1, 12, "listen", NULL },
    { "{\"listen\": \"::1:9000\"}", 1, 12, "listen", NULL },
    { "{\"listen\": \"off\"}", 1, 12, "listen", NULL },
    { "{\"listen\": \"0.0.0.0:9000\"}", 1, 12, "listen", NULL },
    { "{\"admin_listen\": \"127.0.0.1:9000\"}", 1, 18, "admin_listen", NULL },
    { "{\"origin\": \"s3.example.com\"}", 1, 12, "origin", NULL },
    { "{\"origin\": \"http://u@h\"}", 1, 12, "origin", NULL },
    { "{\"origin\": \"https://h/bucket\"}", 1, 12, "origin", NULL },
    { "{\"origin\": \"dir:relative\"}", 1, 12, "origin", NULL },
    { "{\"origin\": \"https://h\",\n \"origin_ca_file\": \"/does/not/exist\"}", 2, 20,
      "origin_ca_file", NULL },
    { "{\"origin\": \"https://h\",\n \"origin_ca_file\": \"/dev/null\"}", 2, 20, "origin_ca_file",
      NULL },
    { "{\"origin\": \"https://h\", \"origin_ca_file\": \"/\"}", 1, 43, "origin_ca_file", NULL },
    { "{\"origins\": {\"w\": {\"url\": \"https://a\",\n \"ca_file\": \"/dev/null\"}}}", 2, 13,
      "origins.w.ca_file", NULL },
    { "{\"orgin\": \"dir:/x\"}", 1, 2, "orgin", "origin" },
    { "{\"cache_dir\": \"cache\"}", 1, 15, "cache_dir", NULL },
    { "{\"cache_dir\": \"\"}", 1, 15, "cache_dir", NULL },
    { "{\"cache_dirs\": [{\"path\": \"/a\"}],\n \"cache_dir\": \"/b\"}", 2, 15, "cache_dir", NULL },
    { "{\"cache_dirs\": [{\"path\": \"/a\"}],\n \"cache_size\": \"1GiB\"}", 2, 16, "cache_size",
      NULL },
    { "{\"cache_dirs\": []}", 1, 16, "cache_dirs", NULL },
    { "{\"cache_dirs\": \"/a\"}", 1, 16, "cache_dirs", NULL },
    { "{\"cache_dirs\": [\"/a\"]}", 1, 16, "cache_dirs", NULL },
    { "{\"cache_dirs\": [{\"path\": \"a\"}]}", 1, 16, "cache_dirs", NULL },
    { "{\"cache_dirs\": [{\"size\": \"1GiB\"}]}", 1, 16, "cache_dirs", NULL },
    { "{\"cache_dirs\": [{\"path\": \"/a\", \"weight\": 2}]}", 1, 16, "cache_dirs", NULL },
    { "{\"cache_dirs\": [{\"path\": \"/a\", \"size\": \"1KiB\"}]}", 1, 16, "cache_dirs", NULL },
    { "{\"cache_dirs\": [{\"path\": \"/a\", \"size\": 1.5}]}", 1, 16, "cache_dirs", NULL },
    { "{\"cache_dirs\": [{\"path\": \"/a\"}, {\"path\": \"/a/\"}]}", 1, 16, "cache_dirs", NULL },
    { "{\"cache_dirs\": [{\"path\": \"/a/b\"}, {\"path\": \"/a\"}]}", 1, 16, "cache_dirs", NULL },
    { "{\"cache_dirs\": [{\"path\": \"/a/x\"}, {\"path\": \"/a/../a/x\"}]}", 1, 16, "cache_dirs", NULL },
    { "{\"cache_dirs\": [{\"path\": \"/tmp/../x\"}, {\"path\": \"/x/./y/../z\"}]}", 1, 16, "cache_dirs",
      NULL },
    { "{\"origin\": \"dir:/mnt/data/\",\n \"cache_dirs\": [{\"path\": \"/a\"}, "
      "{\"path\": \"/mnt/data/cache\"}]}", 2, 16, "cache_dirs", NULL },
    { "{\"config\": \"/x\"}", 1, 2, "config", NULL },
    { "{\"access_key\": \"A\"}", 1, 16, "access_key", NULL },
    { "{\"access_key\": 17}", 1, 16, "access_key", NULL },
    { "{\"access_key\": \"A\\u0001\"}", 1, 16, "access_key", NULL },
    { "{\"origin_secret_key\": \"S\"}", 1, 23, "origin_secret_key", NULL },
    { "{\"secret_key_file\": \"/does/not/exist\"}", 1, 21, "secret_key_file", NULL },
    { "{\"cache_size\": \"1GiB\",\n \"extent_size\": \"512MiB\"}", 2, 17, "extent_size", NULL },
    { "{\"origin\": []}", 1, 12, "origin", NULL },
    { "{\"origns\": {}}", 1, 2, "origns", "origins" },
    { "{\"origins\": []}", 1, 13, "origins", NULL },
    { "{\"origins\": {\"w\": \"http://a\"}}", 1, 19, "origins.w", NULL },
    { "{\"origins\": {\n \"w\": {\"ur\": \"http://a\"}}}", 2, 8, "origins.w.ur", "url" },
    { "{\"origins\": {\n \"w\": {\"style\": \"path\"}}}", 2, 7, "origins.w.url", NULL },
    { "{\"origins\": {\n \"w\": {\"url\": \"http://a\", \"connections\": 0}}}", 2, 42, "origins.w.connections",
      NULL },
    { "{\"origins\": {\"default\": {\"url\": \"http://a\"}}, \"origin\": \"http://b\"}", 1, 33,
      "origins.default", NULL },
    { "{\"origins\": {\"w\": {\"url\": \"http://a\",\n"
      " \"access_key\": \"B\", \"secret_key\": \"C\"}},\"origin\": \"http://a:80/\"}",
      2, 16, "origins.w.access_key", NULL },
    { "{\"buckets\": {\"data\": {\n\"origin\": \"wst\"}},"
      "\"origins\":{\"west\":{\"url\":\"http://a\"}}}", 2, 11, "buckets.data.origin", "west" },
    { "{\"buckets\": {\"data\": {\"origin\": \"w\"},\n\"data/x\": {\"origin\": \"e\"}},"
      "\"origins\":{\"w\":{\"url\":\"http://a\"},\"e\":{\"url\":\"http://b\"}}}", 2, 22,
      "buckets.data/x.origin", NULL },
    { "{\"buckets\": {\"Data\": {}}}", 1, 22, "buckets.Data", NULL },
    { "{\"buckets\": {\"ab\": {}}}", 1, 20, "buckets.ab", NULL },
    { "{\"buckets\": {\"data\": {\"tll\": \"1s\"}}}", 1, 23, "buckets.data.tll", "ttl" },
    { "{\"buckets\": {\"\xc3\xa9t\xc3\xa9\": {\"ttl\": \"1\"}}}", 1, 29,
      "buckets.\xc3\xa9t\xc3\xa9.ttl", NULL },
    { "{\"ttl\": \"1500ms\"}", 1, 9, "ttl", NULL },
    { "{\"grace\": \"250ms\"}", 1, 11, "grace", NULL },
    { "{\"buckets\": {\"data\": {\"ttl\": \"1ms\"}}}", 1, 30, "buckets.data.ttl", NULL },
    { "{\"buckets\": {\"data\": {\"fresh\": \"ttl\"}}}", 1, 23, "buckets.data.fresh", "freshness" },
    { "{\"origins\": {\"w\": {\"url\": \"http://a\", \"origin_connections\": 2}}}", 1, 39,
      "origins.w.origin_connections", "connections" },
    { "{\"cache_size\": \"65TiB\"}", 1, 16, "cache_size", NULL },
    { "{\"listen\": \":9000\"}", 1, 12, "listen", NULL },
    { "{\"origin\": \"http://h:99999\"}", 1, 12, "origin", NULL },
    { "{\"origin\": \"http://127.0.0.1:9000\"}", 1, 12, "origin", NULL },
    { "{\"origin\": \"http://localhost:9001/\"}", 1, 12, "origin", NULL },
    { "{\"listen\": \"[::1]:80\", \"origin\": \"http://[::1]\"}", 1, 34, "origin", NULL },
    { "{\"origin\": \"dir:/mnt/data/\",\n \"cache_dir\": \"/mnt/data/cache\"}", 2, 15, "cache_dir",
      NULL },
    { "{\"keys\": {}}", 1, 10, "keys", NULL },
    { "{\"keys\": [{\"access_key\": \"A\", \"secret_key\": \"B\"},\n 5]}", 2, 2, "keys[1]", NULL },
    { "{\"keys\": [{\"access_key\": \"A\"}]}", 1, 26, "keys[0].access_key", NULL },
    { "{\"keys\": [{\"access_key\": \"A\", \"secret_key\": \"B\"},\n"
      " {\"access_key\": \"A\", \"secret_key\": \"B\"}]}", 2, 17, "keys[1].access_key", NULL },
    { "{\"keys\": [{\"acess_key\": \"A\"}]}", 1, 12, "keys[0].acess_key", "access_key" },
    { "{\"keys\": [{\"access_key\": \"A\", \"secret_key\": \"B\"}]}", 1, 11, "keys[0].policy", NULL },
    { "{\"keys\": [{\"policy\": \"read\"}]}", 1, 22, "keys[0].policy", NULL },
    { "{\"keys\": [{\"policy\": []}]}", 1, 22, "keys[0].policy", NULL },
    { "{\"keys\": [{\"policy\": [{\"allow\": [\"reed\"], \"on\": [\"data\"]}]}]}", 1, 34,
      "keys[0].policy", NULL },
    { "{\"keys\": [{\"policy\": [{\"allow\": [\"read\"], \"on\": []}]}]}", 1, 49, "keys[0].policy",
      NULL },
    { "{\"keys\": [{\"policy\": [{\"allow\": [\"read\"], \"on\": [\"a/b\"]}]}]}", 1, 50,
      "keys[0].policy", NULL },
    { "{\"keys\": [{\"policy\": \"all\", \"origin_access_key\": \"O\"}]}", 1, 22, "keys[0].policy",
      NULL },
    { "{\"access_key\": \" A\", \"secret_key\": \"B\"}", 1, 16, "access_key", NULL },
    { "{\"access_key\": \"A\", \"secret_key\": \"B \"}", 1, 35, "secret_key", NULL },
    { "{\"keys\": [{\"access_key\": \"A\\t\"}]}", 1, 26, "keys[0].access_key", NULL },
    { "{\"origins\": {\"w\": {\"url\": \"http://a\", \"access_key\": \"A \"}}}", 1, 53,
      "origins.w.access_key", NULL },
    { "{\"origins\": {\"w\": {\"url\": \"http://a\", \"secret_key\": 7}}}", 1, 53,
      "origins.w.secret_key", NULL },
    { "{\"access_key\": \"A\", \"secret_key\": \"B\",\n \"secret_key_file\": \"/dev/null\"}", 2, 21,
      "secret_key_file", NULL },
    { "{\"keys\": [{\"secret_key_file\": \"/dev/null\",\n \"secret_key\": \"B\"}]}", 2, 16,
      "keys[0].secret_key", NULL },
    { "{\"admin_listen\": \"0.0.0.0:9000\"}", 1, 18, "admin_listen", NULL },
    { "{\"admin_listen\": \"localhost:9000\"}", 1, 18, "admin_listen", NULL },
    { "{\"tls_listen\": \"0.0.0.0:9001\", \"tls_cert_file\": \"/c\"}", 1, 16, "tls_listen", NULL },
    { "{\"tls_listen\": \"[::]:9000\", \"tls_cert_file\": \"/c\"}", 1, 16, "tls_listen", NULL },
    { "{\"peer_listen\": \"[::]:9002\", \"peer_tls_ca_file\": \"/c\", \"peer_name\": \"p\"}", 1, 17,
      "peer_listen", NULL },
    { "{\"peer_listen\": \"[::]:9002\", \"peer_tls_cert_file\": \"/c\", \"peer_name\": \"p\"}", 1, 17,
      "peer_listen", NULL },
    { "{\"peer_listen\": \"[::]:9002\", \"peer_tls_cert_file\": \"/c\", \"peer_tls_ca_file\": \"/c\"}",
      1, 17, "peer_listen", NULL },
    { "{\"peer_listen\": \"[::]:9000\", \"peer_tls_cert_file\": \"/c\", \"peer_tls_ca_file\": \"/c\","
      " \"peer_name\": \"p\"}", 1, 17, "peer_listen", NULL },
    { "{\"peer_tls_key_file\": \"/c\"}", 1, 23, "peer_tls_key_file", NULL },
    { "{\"peer_name\": \"*.p\"}", 1, 15, "peer_name", NULL },
    { "{\"lend_token\": \"w\"}", 1, 16, "lend_token", NULL },
    { "{\"lend\": true}", 1, 10, "lend", NULL },
    { "{\"keys\": [{\"policy\": [\n{\"allow\": [\"read\",\n\"reed\"]}]}]}", 3, 1, "keys[0].policy",
      NULL },
    { "{\"keys\": [{\"policy\": [\n{\"allow\": [\"read\"], \"on\": [\"data\",\n \"d*\"]}]}]}", 3, 2,
      "keys[0].policy", NULL },
    { "{\"keys\": [{\"policy\": [{\"allow\": [\"read\"]},\n {\"allow\": \"read\"}]}]}", 2, 2,
      "keys[0].policy", NULL },
    { "{\"keys\": [{\"origin_secret_key\": \"O\"}]}", 1, 33, "keys[0].origin_secret_key", NULL },
    { "{\"keys\": [{\"access_key\": \"A\", \"secret_key\": \"B\", \"anonymous\": true}]}", 1, 63,
      "keys[0].anonymous", NULL },
    { "{\"keys\": [{\"anonymous\": true}, {\"anonymous\": true}]}", 1, 46, "keys[1].anonymous", NULL },
    { "{\"grant_scope\": \"prefix\"}", 1, 17, "grant_scope", NULL },
    { "{\"buckets\": {\"data\": {\"grant_scope\": \"prefix\"}}}", 1, 38,
      "buckets.data.grant_scope", NULL },
    { "{\"ttl\": \"1s\",\n \"ttl\": \"2s\"}", 2, 2, "ttl", NULL },
    { "{\"origin_connections\": 4,\n  \"ttl\": \"1s\", \"origin_connections\": 5}", 2, 16,
      "origin_connections", NULL },
    { "{\"#\": {\"a\": {\"a\": {\"a\": {\"a\": {\"a\": {\"b\": 1, \"b\": 2}}}}}}}", 1, 48, "", NULL },
    { "{\"t\\u0074l\": 60}", 1, 14, "ttl", NULL },
    { "{\n \"li\\u0073tn\": 1}", 2, 2, "listn", "listen" },
    { "{\"buckets\": {\"d\\/a\": {\n\"ttl\": \"1\"}}}", 2, 8, "buckets.d/a.ttl", NULL },
    { "\xef\xbb\xbf{\"ttl\": 60}", 1, 1, "", NULL },
    { "\xef\xbb\xbf{\"ttl\": 60}", 1, 9, "ttl", NULL },
    { "{\"ttl\": \"1s\",\n}", 2, 1, "", NULL },
    { "[]", 1, 1, "", NULL },
    { "", 1, 1, "", NULL },
};

TEST(a_secret_whose_file_can_t_be_read_is_one_mistake_not_two)
{
    static const char *const files[] = {
        "{\"origin\": \"http://h\", \"access_key\": \"A\", \"secret_key_file\": \"/no\"}",
        "{\"origin\": \"http://h\", \"origin_access_key\": \"A\",\n"
        " \"origin_secret_key_file\": \"/no\"}",
        "{\"origins\": {\"w\": {\"url\": \"http://h\", \"access_key\": \"A\",\n"
        " \"secret_key_file\": \"/no\"}}}",
        "{\"origin\": \"http://h\", \"keys\": [{\"access_key\": \"A\",\n"
        " \"secret_key_file\": \"/no\"}]}",
        "{\"origin\": \"http://h\", \"keys\": [{\"access_key\": \"A\", \"secret_key\": \"B\",\n"
        " \"origin_access_key\": \"O\", \"origin_secret_key_file\": \"/no\"}]}",
    };
    for (size_t i = 0; i < countof(files); i++) {
        struct config *config = load(files[i], NULL, NULL);
        if (count_mistakes(config) != 1 || !strstr(config->mistakes->text, "can't read /no"))
            fail_msg("%s: %zu mistakes", files[i], count_mistakes(config));
        config_free(&config);
    }
}

TEST(each_seeded_mistake_is_found_with_its_place_key_and_nearest_key)
{
    ok(countof(seeded) >= 50);
    for (size_t i = 0; i < countof(seeded); i++) {
        const struct seeded *want = &seeded[i];
        const char *env[] = { "PENSTOCK_ORIGIN=dir:/tmp", NULL };
        struct config *config = load(want->file, strstr(want->file, "origi") ? NULL : env, NULL);
        const struct config_mistake *found = config->mistakes;
        while (found && strcmp(found->key, want->key) != 0)
            found = found->next;
        if (!found)
            fail_msg("%s: no mistake at \"%s\"", want->file, want->key);
        if (found->line != want->line || found->column != want->column)
            fail_msg("%s: found at %u:%u, not %u:%u", want->file, found->line, found->column,
                     want->line, want->column);
        assert_string_equal(found->file, path);
        ok((found->nearest == NULL) == (want->nearest == NULL));
        if (want->nearest)
            assert_string_equal(found->nearest, want->nearest);
        config_free(&config);
    }
}

TEST(all_mistakes_of_all_sources_come_at_once)
{
    struct arena arena = { 0 };
    struct config *config = load("{\"ttl\": 1,\n \"ttl\": \"1s\",\n \"lops\": 2, \"io\": \"x\"}",
        (const char *[]){ "PENSTOCK_GRACE=5", "PENSTOCK_TLL=5s", "PENSTOCK_SERVICE_HOST=1.2.3.4",
                          "PENSTOCK_PORT=tcp://1.2.3.4:80", NULL },
        (const char *[]){ "--loop", "4", "stray", "--io", "aio", "--ttl", NULL });
    static const char *const wanted[] = {
        "2:2: ttl: is given again", "lops: no such setting (did you mean \"loops\"?)",
        "io: must be one of auto|uring|threads", "environment: PENSTOCK_GRACE: needs a unit",
        "environment: PENSTOCK_TLL: no such setting (did you mean \"ttl\"?)",
        "command line: --loop: no such setting (did you mean \"loops\"?)",
        "command line: stray: not a flag", "command line: --io: must be one of",
        "command line: --ttl: needs a value", "origin: no origin is set",
    };
    ok(count_mistakes(config) == countof(wanted));
    const struct config_mistake *mistake = config->mistakes;
    for (size_t i = 0; i < countof(wanted); i++, mistake = mistake->next) {
        slice line = config_mistake_line(mistake, &arena);
        if (!memmem(line.ptr, line.len, wanted[i], strlen(wanted[i])))
            fail_msg("\"%.*s\" does not say \"%s\"", SLICE_ARG(line), wanted[i]);
    }
    config_free(&config);
    arena_free(&arena);
}

TEST(all_mistakes_of_the_cache_folders_come_at_once)
{
    struct arena arena = { 0 };
    struct config *config = load(
        "{\"origin\": \"dir:/d\", \"cache_dirs\": [\n"
        "{\"path\": \"/a\", \"size\": \"1.5GiB\", \"weight\": 2}, {\"size\": \"1TiB\"}, 7, {\"path\": \"/b\"},\n"
        "{\"path\": \"/c\", \"size\": 1.5}, {\"path\": \"d\"}, {\"path\": \"/b/\"}, {\"path\": \"/a/x\"},\n"
        "{\"path\": \"/d/e\"}]}", NULL, NULL);
    static const char *const wanted[] = {
        "folder 1 must be written as", "folder 1 has the size \"1.5GiB\": the size must be a whole",
        "folder 2 must be written as", "folder 3 must be written as",
        "folder 5 has a size that is neither", "d is not an absolute path",
        "lists one folder twice, as /b and as /b: ", "lists /a/x, which lies inside /a: ",
        "/d/e lies inside the folder of the origin dir:/d",
    };
    ok(count_mistakes(config) == countof(wanted));
    const struct config_mistake *mistake = config->mistakes;
    for (size_t i = 0; i < countof(wanted); i++, mistake = mistake->next) {
        slice line = config_mistake_line(mistake, &arena);
        if (!memmem(line.ptr, line.len, wanted[i], strlen(wanted[i])))
            fail_msg("\"%.*s\" does not say \"%s\"", SLICE_ARG(line), wanted[i]);
        ok(mistake->line == 1 && mistake->column == 36);
    }
    ok(config->folder_count == 7);    /* fsck looks at these folders */
    config_free(&config);
    arena_free(&arena);
}

TEST(a_mistake_shows_the_value_and_the_rule_it_breaks)
{
    static const char *const told[][2] = {
        { "{\"listen\": \"127.0.0.1:99999\"}",
          "listen: the port must be between 1 and 65535 (given: \"127.0.0.1:99999\")" },
        { "{\"peers\": \"10.0.0.1,,10.0.0.2\"}", "peers: has an empty entry: remove the extra comma" },
        { "{\"peers\": \"dns:a b\"}", "peers: has a space or a comma after dns:" },
        { "{\"peers\": \"etcd:etcd.example/fleet\"}", "peers: must have an http or https URL after etcd:" },
        { "{\"peers\": \"etcd:http://h/p\", \"etcd_user\": \"u\"}", "etcd_user: needs a password" },
        { "{\"peers\": \"etcd:http://h/p\", \"etcd_password\": \"p\"}",
          "etcd_password: belongs to a user" },
        { "{\"peers\": \"10.0.0.1\", \"etcd_ca_file\": \"/x\"}",
          "etcd_ca_file: has no effect, since peers does not begin with etcd:" },
        { "{\"peers\": \"etcd:https://h/p\", \"etcd_ca_file\": \"/x\"}",
          "etcd_ca_file: can't read /x: No such file or directory" },
        { "{\"listen\": \":9000\"}", "has no host: write HOST:PORT, with 0.0.0.0" },
        { "{\"listen\": \"::1:9000\"}", "has a colon in its host: leave out http://, "
          "and write an IPv6 address in brackets, as in [::1]:PORT" },
        { "{\"loops\": 1000}", "must be between 1 and 256 (given: \"1000\")" },
        { "{\"io\": \"aio\"}", "must be one of auto|uring|threads (given: \"aio\")" },
        { "{\"ttl\": \"1500ms\"}",
          "must be a whole number of seconds, as in 1s, 90s or 5m (given: \"1500ms\")" },
        { "{\"origin\": \"https://h/mybucket\"}",
          "origin: must end after the host or port: remove /mybucket, since each request" },
        { "{\"origin\": \"https://A:B@h\"}", "a URL must not have credentials (the part before '@')" },
        { "{\"origin\": \"dir:d\"}", "origin: must be http://HOST[:PORT], https://HOST[:PORT]" },
        { "{\"origin\": \"dir:/d\", \"buckets\": {\"ab\": {}}}",
          "a bucket name must have 3 to 63 characters" },
        { "{\"origin\": \"dir:/d\", \"buckets\": {\"Data\": {}}}",
          "in the settings, a bucket name may have only a-z, 0-9, '-' and '.'" },
        { "{\"origin\": \"dir:/d\", \"buckets\": {\"-data\": {}}}",
          "a bucket name must begin and end with a letter or digit" },
        { "{\"ttl\": \"1s\",\n \"ttl\": \"2s\"}",
          ":2:2: ttl: is given again (the first time at 1:2): keep one" },
        { "\xef\xbb\xbf{}", ":1:1: the file begins with a byte order mark: save it as UTF-8 without" },
        { "{\"ttl\": \"\\u0000\"}", ":1:16: not valid JSON: a text must not have \\u0000" },
        { "{\"ttl\": \"1s\",\n}", ":2:1: not valid JSON: there is a comma too many before this }" },
        { "{\"ttl\": \"1s\"\n \"io\": \"auto\"}", ":2:5: not valid JSON: a comma or a } must come" },
        { "{\"ttl\": \"1s\", \"ttl\": \"2s\" \"io\": 1}", "not valid JSON: a comma or a } must come" },
        { "{\"cache_dirs\": [1,]}", "there is a comma too many before this ]" },
        { "{\"ttl\": 1s}", "not valid JSON: a comma or a } must come before this" },
        { "{\"ttl\": True}", "not valid JSON: this is no JSON value: write a text in double quotes" },
        { "{ttl: 60}", "not valid JSON: a name in double quotes must come here" },
        { "{\"ttl\": }", "not valid JSON: a value is missing before this" },
        { "{\"ttl\" 60}", "not valid JSON: a colon must come between a name and its value" },
        { "{\"ttl\": \"C:\\data\"}", "not valid JSON: this backslash begins no escape: write it twice" },
        { "{\"ttl\": \"\\ud800\"}", "not valid JSON: this \\u escape stands for no character" },
        { "{\"ttl\": \"1s", "not valid JSON: the text ends too early" },
        { "{\"ttl\": \"1s\n\"}", "not valid JSON: this text has no closing double quote in its line" },
        { "{\"ttl\": 99999999999999999999}", "not valid JSON: this number is too large" },
        { "{\"ttl\": \"\xff\"}", "not valid JSON: this byte is not UTF-8" },
        { "{} {}", "not valid JSON: the object ends before this" },
        { "{// my settings\n}", "not valid JSON: JSON has no comments" },
        { " \n", ":1:1: the file is empty: write" },
        { "x", ":1:1: not valid JSON: the text must begin with { and end with }" },
        { "[]", ":1:1: not a JSON object: the text must begin with { and end with }" },
        { "{\"cache_dirs\": [{\"path\": \"/a\\u001b\"}]}", "folder 1 has a control character" },
        { "{\"cache_size\": \"1.5GiB\"}", "must be a whole number of bytes, or a whole number with "
          "KiB, MiB, GiB, TiB, KB, MB, GB or TB: write 1536MiB (given: \"1.5GiB\")" },
        { "{\"cache_size\": \"64MIB\"}", ": write 64MiB (given" },
        { "{\"cache_size\": \"64mb\"}", ": write 64MB (given" },
        { "{\"cache_size\": \"64G\"}", ": write 64GiB (given" },
        { "{\"cache_size\": \"2.0 TB\"}", ": write 2TB (given" },
        { "{\"cache_size\": \"2.5TB\"}", ": write 2500GB (given" },
        { "{\"cache_size\": \"0.1TiB\"}", ": write 102GiB (given" },
        { "{\"cache_size\": \"1.5B\"}", "GB or TB, as in 64MiB (given" },
        { "{\"cache_size\": \"1.2.3GiB\"}", "GB or TB, as in 64MiB (given" },
        { "{\"cache_size\": \"16777216TiB\"}", "GB or TB, as in 64MiB (given" },
        { "{\"cache_dirs\": [{\"path\": \"/a\", \"size\": \"1.5GiB\"}]}", "write 1536MiB" },
        { "{\"origin\": \"dir:/d\", \"traces_url\": \"localhost:4318\"}",
          "traces_url: must begin with http:// or https://" },
        { "{\"origin\": \"dir:/d\", \"traces_ratio\": \"1.1\"}", "must be a number from 0 to 1" },
        { "{\"origin\": \"dir:/d\", \"traces_ratio\": \"-0\"}", "must be a number from 0 to 1" },
        { "{\"origin\": \"dir:/d\", \"traces_headers\": \"a=b\"}",
          "traces_headers: has no effect, since traces_url is not set" },
        { "{\"origin\": \"dir:/d\", \"traces_url\": \"http://h\", \"traces_headers\": \"a=b,=c\"}",
          "traces_headers: has a mistake in its pair number 2" },
    };
    struct arena arena = { 0 };
    for (size_t i = 0; i < countof(told); i++) {
        struct config *config = load(told[i][0], NULL, NULL);
        ok(config->mistakes != NULL);
        slice line = config_mistake_line(config->mistakes, &arena);
        if (!memmem(line.ptr, line.len, told[i][1], strlen(told[i][1])))
            fail_msg("\"%.*s\" does not say \"%s\"", SLICE_ARG(line), told[i][1]);
        config_free(&config);
    }
    arena_free(&arena);
}

TEST(a_secret_that_is_wrong_is_not_shown)
{
    struct arena arena = { 0 };
    struct config *config = load("{\"secret_key\": \"abc\\u0001\"}", NULL, NULL);
    slice line = config_mistake_line(config->mistakes, &arena);
    ok(!memmem(line.ptr, line.len, "abc", 3));
    config_free(&config);
    arena_free(&arena);
}

static void expect_one(const char *row)
{
    char text[256];
    snprintf(text, sizeof(text), "{\"origin\": \"dir:/tmp\", \"keys\": [{\"access_key\": \"A\", "
             "\"secret_key\": \"B\", %s}]}", row);
    struct config *config = load(text, NULL, NULL);
    if (count_mistakes(config) != 1)
        fail_msg("%s: %zu mistakes", row, count_mistakes(config));
    config_free(&config);
}

TEST(what_is_wrong_with_a_policy_is_said_once)
{
    expect_one("\"policy\": []");
    expect_one("\"policy\": 7");
    expect_one("\"policy\": \"read\"");
    expect_one("\"policy\": \"[]\"");
    expect_one("\"policy\": [{\"allow\": [\"reed\"], \"on\": [\"data\", \"logs\"]}]");
    expect_one("\"policy\": [{\"allow\": [\"read\"], \"on\": [\"a*\"]}]");
    expect_one("\"policy\": [{\"allow\": [\"read\"], \"on\": []}]");
    expect_one("\"policy\": [{\"allow\": [], \"on\": [\"data\"]}]");
    expect_one("\"policy\": [\"read\"]");
}

/* Each SECRET, however it is named, in every group. */
static void expect_empty(const struct setting *setting, const char *text, const char *const *env,
                         const char *const *argv)
{
    struct config *config = load(text, env, argv);
    const struct config_mistake *m = config->mistakes;
    while (m && !strstr(m->text, "is empty"))
        m = m->next;
    if (!m)
        fail_msg("%s: an empty secret is taken: %s %s %s", setting->name, text, env ? env[0] : "",
                 argv ? argv[0] : "");
    config_free(&config);
}

static void expect_empty_everywhere(const struct setting *setting, const char *file)
{
    static const char *const groups[] = {
        "{\"%s%s\": \"%s\"}", "{\"origins\": {\"w\": {\"%s%s\": \"%s\"}}}", "",
        "{\"keys\": [{\"access_key\": \"A\", \"%s%s\": \"%s\"}]}",
    };
    const char *name = setting->name;
    char text[256], flag[128], variable[128];
    for (int by_file = 0; by_file < 2; by_file++) {
        const char *suffix = by_file ? "_file" : "";
        for (int filled = 0; filled <= by_file; filled++) {    /* no path, or one of blank text */
            const char *value = filled ? file : "";
            snprintf(text, sizeof(text), groups[setting->scope], name, suffix, value);
            expect_empty(setting, text, NULL, NULL);
            if (setting->scope != SCOPE_GLOBAL)
                continue;
            snprintf(flag, sizeof(flag), "--%s%s=%s", name, suffix, value);
            expect_empty(setting, "{}", NULL, (const char *[]){ flag, NULL });
            int len = snprintf(variable, sizeof(variable), "PENSTOCK_%s%s=%s", name, suffix, value);
            for (int i = 0; i < len && variable[i] != '='; i++)
                if (variable[i] >= 'a' && variable[i] <= 'z')
                    variable[i] -= 'a' - 'A';
            expect_empty(setting, "{}", (const char *[]){ variable, NULL }, NULL);
        }
    }
}

TEST(a_secret_that_is_empty_after_trimming_is_a_mistake_wherever_it_stands)
{
    static const char *const blanks[] = { "", "\n", " \r\n", "\n \t\n \v\f" };
    char file[] = "/tmp/penstock-secret-XXXXXX";
    size_t count = 0;
    close(mkstemp(file));
    for (size_t i = 0; i < countof(blanks); i++) {
        write_file(file, blanks[i]);
        for (size_t j = 0; j < setting_count; j++) {
            if (settings[j].type != TYPE_SECRET)
                continue;
            expect_empty_everywhere(&settings[j], file);
            count++;
        }
    }
    ok(count >= countof(blanks) * 9);
    unlink(file);
}

TEST(an_empty_part_of_a_list_or_name_is_a_mistake)
{
    static const char *const files[] = {
        "{\"origin\": \"dir:/tmp\", \"regions\": \",\"}",
        "{\"origin\": \"dir:/tmp\", \"regions\": \"a, ,b\"}",
        "{\"origin\": \"dir:/tmp\", \"regions\": \"a,\"}",
        "{\"origin\": \"dir:/tmp\", \"fill_users\": \",\"}",
        "{\"origin\": \"dir:/tmp\", \"fill_users\": \"root,,daemon\"}",
        "{\"origin\": \"dir:/tmp\", \"domains\": \",\"}",
        "{\"origin\": \"dir:/tmp\", \"domains\": \"a.b,\"}",
        "{\"origin\": \"dir:/tmp\", \"forward_headers\": \"x-a,,x-b\"}",
        "{\"origin\": \"dir:/tmp\", \"keys\": []}",
        "{\"origin\": \"dir:/tmp\", \"fill_socket\": \"  \"}",
        "{\"origin\": \"dir:/tmp\", \"origin_ca_file\": \" \"}",
        "{\"origins\": {\"\": {\"url\": \"dir:/tmp\"}}}",
        "{\"origins\": {\" \": {\"url\": \"dir:/tmp\"}}}",
    };
    for (size_t i = 0; i < countof(files); i++) {
        struct config *config = load(files[i], NULL, NULL);
        if (!count_mistakes(config))
            fail_msg("%s: no mistake", files[i]);
        config_free(&config);
    }
}

/* The settings have `count` origins. `form` makes a URL from a number. */
static struct config *load_origins(const char *form, unsigned count)
{
    struct arena keep = { 0 };
    struct text text = text_in(&keep);
    text_add(&text, S("{\"origins\": {"));
    for (unsigned i = 0; i < count; i++)
        text_add(&text, arena_printf(&keep, "%s\"o%u\": {\"url\": \"%s%u\"}", i ? ", " : "", i, form,
                                     i));
    text_add(&text, S("}}"));
    text_char(&text, '\0');
    struct config *config = load(text_slice(&text).ptr, NULL, NULL);
    arena_free(&keep);
    return config;
}

static void check_origins(const char *form, unsigned count, size_t mistakes)
{
    struct config *config = load_origins(form, count);
    ok(config->origin_count == count && count_mistakes(config) == mistakes);
    config_free(&config);
}

TEST(there_are_at_most_256_s3_endpoints)
{
    check_origins("http://h", CONFIG_ORIGINS_MAX, 0);
    check_origins("http://h", CONFIG_ORIGINS_MAX + 1, 1);
    check_origins("dir:/tmp/", 2 * CONFIG_ORIGINS_MAX, 0);
    check_origins("http://h:8333/\", \"region\": \"r", 2 * CONFIG_ORIGINS_MAX, 0);    /* one URL */
}

TEST(a_value_and_its_file_stand_beside_each_other_only_where_one_beats_the_other)
{
    char secret[] = "/tmp/penstock-secret-XXXXXX", file[128], env[128];
    close(mkstemp(secret));
    write_file(secret, " s3cr3t \n");
    snprintf(file, sizeof(file), "--secret-key-file=%s", secret);
    snprintf(env, sizeof(env), "PENSTOCK_SECRET_KEY_FILE=%s", secret);
    const char *text = "{\"origin\": \"dir:/tmp\", \"access_key\": \"A\", \"secret_key\": \"B\"}";
    struct config *config = load(text, (const char *[]){ env, NULL }, NULL);
    ok(!config->mistakes);
    assert_string_equal(config->secret_key, "s3cr3t");    /* space around it is none of it */
    config_free(&config);
    config = load(text, NULL, (const char *[]){ file, "--secret-key=C", NULL });
    ok(count_mistakes(config) == 1);
    config_free(&config);
    config = load(text, (const char *[]){ env, "PENSTOCK_SECRET_KEY=C", NULL }, NULL);
    ok(count_mistakes(config) == 1);
    config_free(&config);
    unlink(secret);
}

TEST(listeners_may_share_a_port_at_addresses_of_their_own)
{
    struct config *config = load("{\"origin\": \"dir:/tmp\", \"listen\": \"127.0.0.1:9000\", "
                                 "\"admin_listen\": \"127.0.0.2:9000\"}", NULL, NULL);
    ok(!config->mistakes);
    config_free(&config);
}

TEST(a_file_that_is_no_json_is_one_mistake)
{
    struct config *config = load("{\"origin\": \"http://a\",\n}", NULL, NULL);
    ok(count_mistakes(config) == 1);
    config_free(&config);
}

TEST(a_url_that_is_wrong_is_one_mistake)
{
    struct config *config = load("{}", NULL, (const char *[]){ "--origin", "ftp://x", NULL });
    ok(count_mistakes(config) == 1);
    config_free(&config);
    config = load("{\"origin\": \"ftp://x\"}", NULL, NULL);
    ok(count_mistakes(config) == 1);
    config_free(&config);
    config = load("{\"origin\": \"\"}", NULL, NULL);
    ok(count_mistakes(config) == 1);
    config_free(&config);
}

/* A kind of origin that only this test knows: its URL is an even number of letters. */
static bool judge_even(slice rest, struct arena *keep, const char **ret_why)
{
    if (rest.len % 2)
        *ret_why = arena_printf(keep, "has %zu letters: take one away", rest.len).ptr;
    return rest.len % 2 == 0;
}

static const struct url_kind *even_kinds(size_t i)
{
    static const struct url_kind even = {
        .schemes = { { "even:", "even:LETTERS", 0 } }, .judge = judge_even,
    };
    return i == 0 ? &even : NULL;
}

static struct config *load_even(const char *flag)
{
    write_file(path, "{}");
    return config_load(&(struct config_sources){
        .argc = 1, .argv = &flag, .path = path, .kinds = even_kinds,
    });
}

TEST(a_url_is_judged_by_the_kinds_that_the_program_handed_in)
{
    struct config *config = load_even("--origin=even:ab");
    ok(!config->mistakes && config->origin_default->kind == even_kinds(0));
    config_free(&config);
    config = load_even("--origin=even:abc");
    ok(count_mistakes(config) == 1 && config->origin_count == 0);
    ok(strstr(config->mistakes->text, "has 3 letters: take one away"));
    config_free(&config);
    config = load_even("--origin=dir:/tmp");
    ok(strstr(config->mistakes->text, "must be even:LETTERS (given: \"dir:/tmp\")"));
    config_free(&config);
}

TEST(a_file_that_is_named_must_be_there_and_the_usual_one_may_be_missing)
{
    const char *argv[] = { "--config", "/does/not/exist.json", "--origin=dir:/x" };
    struct config_sources from = { .argc = 3, .argv = argv, .kinds = origin_url_kind };
    struct config *config = config_load(&from);
    ok(count_mistakes(config) == 1 && strcmp(config->mistakes->file, argv[1]) == 0);
    config_free(&config);
    from = (struct config_sources){ .argc = 1, .argv = argv + 2, .kinds = origin_url_kind };
    config = config_load(&from);
    ok(access(SYSCONFDIR "/penstock/penstock.json", F_OK) == 0 || !config->mistakes);
    config_free(&config);
}

TEST(strangers_are_let_in_only_where_there_are_keys)
{
    const char *argv[] = { "--listen=0.0.0.0:9000", "--origin=dir:/x", NULL };
    const char *env[][2] = { { "AWS_ACCESS_KEY_ID=AKIA" }, { "AWS_ACCESS_KEY_ID_FILE=/k" },
                             { "AWS_PROFILE=p" } };
    struct config *config = load("{}", NULL, argv);
    ok(count_mistakes(config) == 1);
    config_free(&config);
    for (size_t i = 0; i < countof(env); i++) {
        config = load("{}", env[i], argv);
        ok(!config->mistakes && config->aws_in_env);
        config_free(&config);
    }
    config = load("{\"keys\": [{\"access_key\": \"A\", \"secret_key\": \"B\","
                  " \"policy\": \"all\"}]}", NULL, argv);
    ok(!config->mistakes);
    config_free(&config);
}

TEST(a_key_has_a_name_of_its_own_or_a_policy)
{
    struct config *config = load(
        "{\"origin\": \"http://a\", \"access_key\": \"A\", \"secret_key\": \"a\", \"keys\": ["
        "{\"access_key\": \"B\", \"secret_key\": \"b\", \"session_token\": \"t\"},"
        "{\"access_key\": \"B\", \"secret_key\": \"b\", \"policy\": ["
        " {\"allow\": [\"read\", \"list\", \"cache\"], \"on\": [\"data\", \"logs/mine/\"]},"
        " {\"allow\": [\"list\"]}]},"
        "{\"anonymous\": true, \"policy\": \"all\"}]}", NULL, NULL);
    ok(!config->mistakes && config->key_count == 4);
    ok(config->keys[0].row_count == 1 && config->keys[0].rows[0].rights == RIGHT_ALL);
    ok(config->keys[1].row_count == 0);
    const struct config_key *key = &config->keys[2];
    ok(key->row_count == 3 && key->rows[1].rights == (RIGHT_READ | RIGHT_LIST | RIGHT_CACHE));
    same(key->rows[0].bucket, S("data"));
    same(key->rows[1].bucket, S("logs"));
    same(key->rows[1].prefix, S("mine/"));
    ok(key->rows[2].rights == RIGHT_LIST && !key->rows[2].bucket.len);
    ok(config->keys[3].anonymous && config->keys[3].rows[0].rights == RIGHT_ALL);
    config_free(&config);
}

TEST(a_ca_bundle_of_aws_speaks_where_no_setting_does)
{
    struct arena arena = { 0 };
    const char *env[] = { "AWS_CA_BUNDLE=/dev/null", NULL };
    size_t at = setting_at(SCOPE_GLOBAL, S("origin_ca_file"));
    struct config *config = load("{\"origin\": \"https://a\", \"origins\": {"
                                 "\"b\": {\"url\": \"https://b\"},"
                                 "\"c\": {\"url\": \"https://c\", \"ca_file\": \"\"}}}", env, NULL);
    assert_string_equal(config->origins[1].ca_file, "/dev/null");
    assert_string_equal(config->origins[2].ca_file, "");    /* the system's store, in spite of it */
    same(config_where(&config->where[at], &arena), S("env AWS_CA_BUNDLE"));
    ok(count_mistakes(config) == 1);    /* one file, one mistake, however many origins use it */
    same(config_mistake_line(config->mistakes, &arena),
         S("environment: AWS_CA_BUNDLE: /dev/null holds no certificate: name a PEM file of CA "
           "certificates, each of which begins with -----BEGIN CERTIFICATE-----"));
    config_free(&config);
    config = load("{\"origin\": \"http://a\", \"origin_ca_file\": \"/mine\"}", env, NULL);
    assert_string_equal(config->origins[0].ca_file, "/mine");
    ok(!config->mistakes);    /* no origin asks it */
    config_free(&config);
    arena_free(&arena);
}

TEST(garbage_gives_a_place_and_nothing_worse)
{
    static const char *const texts[] = { "", "{", "{\"a", "{\"a\\", "{\"a\":", "[[[", "}",
                                         "{\"a\":{\"b\":" };
    struct json_step steps[] = { { S("a"), 0 }, { S("b"), 0 }, { { NULL, 0 }, 3 } };
    for (size_t i = 0; i < countof(texts); i++) {
        struct arena arena = { 0 };
        struct json_places places;
        struct text_place key, value;
        json_places_read(&places, slice_of(texts[i]), &arena);
        bool found = json_place(&places, steps, 3, &key, &value);
        ok(!found && key.line == 1 && key.column >= 1);
        arena_free(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_global_row_is_reached_by_flag_variable_and_file),
        cmocka_unit_test(every_constant_is_reached_by_flag_variable_and_file),
        cmocka_unit_test(a_setting_of_a_group_that_is_gone_is_remembered_and_no_mistake),
        cmocka_unit_test(every_row_of_a_group_is_reached_by_file),
        cmocka_unit_test(a_row_that_inherits_names_a_global_row_of_its_kind),
        cmocka_unit_test(flags_beat_variables_beat_the_file_beats_defaults),
        cmocka_unit_test(cache_folders_come_from_one_setting_or_the_other),
    cmocka_unit_test(flags_have_the_usual_forms),
        cmocka_unit_test(a_key_has_a_name_of_its_own_or_a_policy),
        cmocka_unit_test(a_secret_may_lie_in_a_file_and_is_never_shown),
        cmocka_unit_test(groups_inherit_what_they_leave_out),
        cmocka_unit_test(a_quantity_is_shown_as_it_could_be_written),
        cmocka_unit_test(a_secret_whose_file_can_t_be_read_is_one_mistake_not_two),
        cmocka_unit_test(each_seeded_mistake_is_found_with_its_place_key_and_nearest_key),
        cmocka_unit_test(all_mistakes_of_all_sources_come_at_once),
        cmocka_unit_test(a_url_that_is_wrong_is_one_mistake),
        cmocka_unit_test(a_url_is_judged_by_the_kinds_that_the_program_handed_in),
        cmocka_unit_test(all_mistakes_of_the_cache_folders_come_at_once),
        cmocka_unit_test(a_mistake_shows_the_value_and_the_rule_it_breaks),
        cmocka_unit_test(a_secret_that_is_wrong_is_not_shown),
        cmocka_unit_test(what_is_wrong_with_a_policy_is_said_once),
        cmocka_unit_test(there_are_at_most_256_s3_endpoints),
        cmocka_unit_test(
            a_value_and_its_file_stand_beside_each_other_only_where_one_beats_the_other),
        cmocka_unit_test(
            a_secret_that_is_empty_after_trimming_is_a_mistake_wherever_it_stands),
        cmocka_unit_test(an_empty_part_of_a_list_or_name_is_a_mistake),
        cmocka_unit_test(listeners_may_share_a_port_at_addresses_of_their_own),
        cmocka_unit_test(a_file_that_is_no_json_is_one_mistake),
        cmocka_unit_test(a_file_that_is_named_must_be_there_and_the_usual_one_may_be_missing),
        cmocka_unit_test(strangers_are_let_in_only_where_there_are_keys),
        cmocka_unit_test(a_ca_bundle_of_aws_speaks_where_no_setting_does),
        cmocka_unit_test(garbage_gives_a_place_and_nothing_worse),
    };
    close(mkstemp(path));
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
