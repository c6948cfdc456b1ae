/* test_admin.c - the admin pages and who may read them. SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "admin/admin.c"
#include "admin/status_document.c"

static bool is_ready;

static bool ready_now(void *arg)
{
    return is_ready;
}

static void tell_some(void *arg, struct status_document *to)
{
    document_item(to, "origins");
    document_text(to, "origins.name", S("default"));
    document_number(to, "origins.calls", 3);
    document_item(to, "origins");
    document_text(to, "origins.name", S("second \"quoted\"\n"));
    struct store_status status = { .serving = true, .why = "", .anew = "", .used_bytes = 1234,
                                   .extents = 7 };
    document_store(to, "cache.folder", &status);
    document_number(to, "huge", UINT64_MAX);
    document_text(to, "bad", (slice){ "\xff\xfe", 2 });
}

#define OPTIONS .version = "1.2", .instance = "i", .tell = tell_some, .ready = ready_now

static struct admin *house(void)
{
    struct admin_options options = { OPTIONS };
    return admin_new(&options);
}

static int asks(struct admin *admin, const char *text)
{
    struct arena keep = { 0 };
    struct request_head head;
    struct http_answer ret = { 0 };
    const char *why = NULL;
    assert_int_equal(request_head_scan(slice_of(text), &head, &why), OK);
    if (judge(admin, NULL, &keep, S("127.0.0.1:1"), &head, &ret))
        respond(admin, head.path, &keep, &ret);
    int status = ret.status;
    arena_free(&keep);
    return status;
}

#define ASK(method, path, host, more) method " " path " HTTP/1.1\r\nHost: " host "\r\n" more "\r\n"

TEST(pages_are_read_with_get_and_head_only)
{
    struct admin *admin = house();
    is_ready = true;
    assert_int_equal(asks(admin, ASK("GET", "/metrics", "127.0.0.1:9001", "")), 200);
    assert_int_equal(asks(admin, ASK("HEAD", "/status?x=y", "127.0.0.1:9001", "")), 200);
    assert_int_equal(asks(admin, ASK("GET", "/_/health/live", "127.0.0.1", "")), 200);
    assert_int_equal(asks(admin, ASK("GET", "/bucket/key", "127.0.0.1", "")), 404);
    assert_int_equal(asks(admin, ASK("GET", "/metrics/", "127.0.0.1", "")), 404);
    assert_int_equal(asks(admin, ASK("PUT", "/metrics", "127.0.0.1", "Content-Length: 0\r\n")),
                     405);
    assert_int_equal(asks(admin, ASK("GET", "/metrics", "127.0.0.1", "Content-Length: 1\r\n")),
                     413);
    assert_int_equal(
        asks(admin, ASK("GET", "/metrics", "127.0.0.1", "Transfer-Encoding: chunked\r\n")), 413);
    admin_free(&admin);
    ok(admin == NULL);
}

TEST(readiness_is_checked_at_each_request)
{
    struct admin *admin = house();
    is_ready = false;
    assert_int_equal(asks(admin, ASK("GET", "/_/health/ready", "127.0.0.1", "")), 503);
    is_ready = true;
    assert_int_equal(asks(admin, ASK("GET", "/_/health/ready", "127.0.0.1", "")), 200);
    admin_free(&admin);
}

TEST(a_request_for_a_foreign_host_name_is_refused)
{
    struct admin *admin = house();
    static const char *const good[] = {
        ASK("GET", "/status", "localhost", ""),
        ASK("GET", "/status", "LocalHost:9001", ""),
        ASK("GET", "/status", "[::1]:9001", ""),
        ASK("GET", "/status", "[fe80::1]", ""),
        ASK("GET", "/status", "10.1.2.3:80", ""),
    };
    static const char *const bad[] = {
        ASK("GET", "/status", "evil.example", ""),
        ASK("GET", "/status", "127.0.0.1.evil.example", ""),
        ASK("GET", "/status", "localhost.evil", ""),
        ASK("GET", "/status", "10.1.2", ""),
        ASK("GET", "/status", "0x7f.1", ""),
        ASK("GET", "/status", "xnode7.example", ""),
    };
    for (size_t i = 0; i < countof(good); i++)
        assert_int_equal(asks(admin, good[i]), 200);
    for (size_t i = 0; i < countof(bad); i++)
        assert_int_equal(asks(admin, bad[i]), 421);
    admin_free(&admin);
}

static int asks_of(const struct admin_options *options, const char *text)
{
    struct admin *admin = admin_new(options);
    int status = asks(admin, text);
    admin_free(&admin);
    return status;
}

#define WITH(path, more) ASK("GET", path, "127.0.0.1", more)
#define BEARER "Authorization: Bearer open-sesame\r\n"

TEST(a_token_opens_what_it_covers)
{
    is_ready = true;
    struct admin_options asked = { OPTIONS, .token = S("open-sesame") };
    static const char *const wrong[] = {
        WITH("/status", ""), WITH("/status", "Authorization: Bearer open-sesam\r\n"),
        WITH("/status", "Authorization: Bearer open-sesame2\r\n"),
        WITH("/status", "Authorization: Bearer \r\n"), WITH("/status", "Authorization: open-sesame\r\n"),
        WITH("/status", "Authorization: Basic b3Blbi1zZXNhbWU=\r\n"),      /* without a name */
        WITH("/status", "Authorization: Basic b3Blbi1zZXNhbWU6\r\n"),      /* as the name */
        WITH("/status", "Authorization: Basic OnNlc2FtZQ==\r\n"),
        WITH("/status", "Authorization: Basic !!!!\r\n"), WITH("/nothing", ""),
    };
    static const char *const right[] = {
        WITH("/status", BEARER), WITH("/status", "Authorization: bearer   open-sesame\r\n"),
        WITH("/status", "Authorization: Basic Om9wZW4tc2VzYW1l\r\n"),              /* :open-sesame */
        WITH("/status", "Authorization: basic YW5uYTpvcGVuLXNlc2FtZQ==\r\n"),      /* anna: */
        WITH("/metrics", ""), WITH("/_/health/live", ""), WITH("/_/health/ready", ""),
    };
    for (size_t i = 0; i < countof(wrong); i++)
        assert_int_equal(asks_of(&asked, wrong[i]), 401);
    for (size_t i = 0; i < countof(right); i++)
        assert_int_equal(asks_of(&asked, right[i]), 200);
    asked.metrics_token = true;
    assert_int_equal(asks_of(&asked, WITH("/metrics", "")), 401);
    assert_int_equal(asks_of(&asked, WITH("/metrics", BEARER)), 200);
    assert_int_equal(asks_of(&asked, WITH("/_/health/ready", "")), 200);
}

TEST(off_loopback_without_a_token_only_health_and_metrics_answer)
{
    is_ready = true;
    struct admin_options open = { OPTIONS, .exposed = true };
    assert_int_equal(asks_of(&open, WITH("/status", "")), 401);
    assert_int_equal(asks_of(&open, WITH("/status", BEARER)), 401);
    assert_int_equal(asks_of(&open, WITH("/status", "Authorization: Bearer \r\n")), 401);
    assert_int_equal(asks_of(&open, WITH("/metrics", "")), 200);
    assert_int_equal(asks_of(&open, WITH("/_/health/ready", "")), 200);
    /* others reach it by names that nobody told us */
    assert_int_equal(asks_of(&open, ASK("GET", "/metrics", "penstock:9001", "")), 200);
}

/* The answer to a request, in keep. */
static struct http_answer answer_of(const struct admin_options *options, struct arena *keep,
                                    const char *text)
{
    struct admin *admin = admin_new(options);
    struct request_head head;
    struct http_answer ret = { 0 };
    const char *why = NULL;
    assert_int_equal(request_head_scan(slice_of(text), &head, &why), OK);
    if (judge(admin, NULL, keep, S("127.0.0.1:1"), &head, &ret))
        respond(admin, head.path, keep, &ret);
    ret.fields = http_fields_copy(keep, ret.fields, ret.field_count);
    admin_free(&admin);
    return ret;
}

static slice field_of(const struct http_answer *answer, slice name)
{
    return http_field_get(answer->fields, answer->field_count, name);
}

static bool has(slice text, slice part)
{
    return slice_find(text, part) < text.len;
}

TEST(the_page_is_for_anybody_and_has_a_strict_policy)
{
    struct arena keep = { 0 };
    struct admin_options options[] = { { OPTIONS }, { OPTIONS, .token = S("open-sesame") },
                                       { OPTIONS, .exposed = true } };
    for (size_t i = 0; i < countof(options); i++) {
        struct http_answer page = answer_of(&options[i], &keep, WITH("/", ""));
        slice policy = field_of(&page, S("Content-Security-Policy"));
        assert_int_equal(page.status, 200);
        same(field_of(&page, S("Content-Type")), S("text/html; charset=utf-8"));
        ok(has(policy, S("default-src 'none'")) && has(policy, S("frame-ancestors 'none'")));
        ok(has(policy, S("script-src 'sha256-")) && !has(policy, S("unsafe")));
        ok(slice_starts(page.body, S("<!doctype html>")) && slice_ends(page.body, S("</html>\n")));
    }
    arena_free(&keep);
}

TEST(no_answer_can_be_part_of_another_sites_page)
{
    static const char *const asked[] = { WITH("/", ""), WITH("/status", ""), WITH("/metrics", ""),
                                         WITH("/_/health/live", ""), WITH("/nothing", ""),
                                         ASK("PUT", "/", "127.0.0.1", "") };
    struct admin_options options[] = { { OPTIONS }, { OPTIONS, .token = S("open-sesame") } };
    struct arena keep = { 0 };
    for (size_t i = 0; i < countof(asked) * countof(options); i++) {
        struct http_answer answer = answer_of(&options[i % 2], &keep, asked[i / 2]);
        same(field_of(&answer, S("X-Frame-Options")), S("DENY"));
        same(field_of(&answer, S("Cross-Origin-Resource-Policy")), S("same-origin"));
        same(field_of(&answer, S("X-Content-Type-Options")), S("nosniff"));
        ok(!field_of(&answer, S("Access-Control-Allow-Origin")).ptr);
    }
    arena_free(&keep);
}

TEST(a_browser_asks_for_a_password_only_if_one_helps)
{
    struct arena keep = { 0 };
    struct admin_options asked = { OPTIONS, .token = S("open-sesame") };
    struct admin_options closed = { OPTIONS, .exposed = true };
    size_t basic[2] = { 0 };
    for (size_t i = 0; i < 2; i++) {
        struct http_answer answer = answer_of(i ? &closed : &asked, &keep, WITH("/status", ""));
        assert_int_equal(answer.status, 401);
        same(field_of(&answer, S("WWW-Authenticate")), S("Bearer realm=\"penstock\""));
        for (size_t k = 0; k < answer.field_count; k++)
            basic[i] += slice_starts(answer.fields[k].value, S("Basic "));
    }
    ok(basic[0] == 1 && basic[1] == 0);
    arena_free(&keep);
}

TEST(status_is_json_with_all_facts)
{
    struct admin *admin = house();
    struct arena keep = { 0 };
    struct http_answer ret = { 0 };
    respond(admin, S("/status"), &keep, &ret);
    json_t *root = json_loadb(ret.body.ptr, ret.body.len, 0, NULL);
    ok(root != NULL);
    assert_string_equal(json_string_value(json_object_get(root, "version")), "1.2");
    ok(json_integer_value(json_object_get(root, "pid")) == getpid());
    ok(json_integer_value(json_object_get(root, "huge")) == INT64_MAX);
    json_t *origins = json_object_get(root, "origins");
    assert_int_equal(json_array_size(origins), 2);
    ok(json_integer_value(json_object_get(json_array_get(origins, 0), "calls")) == 3);
    assert_string_equal(json_string_value(json_object_get(json_array_get(origins, 1), "name")),
                        "second \"quoted\"\n");
    json_t *folder = json_object_get(json_object_get(root, "cache"), "folder");
    ok(json_is_true(json_object_get(folder, "serving")));
    ok(json_integer_value(json_object_get(folder, "used_bytes")) == 1234);
    ok(json_integer_value(json_object_get(folder, "extents")) == 7);
    json_decref(root);
    arena_free(&keep);
    admin_free(&admin);
}

RUN(cmocka_unit_test(pages_are_read_with_get_and_head_only),
    cmocka_unit_test(readiness_is_checked_at_each_request),
    cmocka_unit_test(a_request_for_a_foreign_host_name_is_refused),
    cmocka_unit_test(a_token_opens_what_it_covers),
    cmocka_unit_test(off_loopback_without_a_token_only_health_and_metrics_answer),
    cmocka_unit_test(the_page_is_for_anybody_and_has_a_strict_policy),
    cmocka_unit_test(no_answer_can_be_part_of_another_sites_page),
    cmocka_unit_test(a_browser_asks_for_a_password_only_if_one_helps),
    cmocka_unit_test(status_is_json_with_all_facts))
