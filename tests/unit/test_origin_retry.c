/* test_origin_retry.c - when a try is repeated, and where an endpoint lives.
 * SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <stdio.h>

#include "origin/endpoint.h"
#include "origin/region.h"
#include "origin/retry.h"

TEST(what_may_be_repeated_is_a_table)
{
    static const struct {
        struct retry_case what;
        enum retry want;
    } rows[] = {
        { { .status = 503, .sent = true, .effect = EFFECT_NONE,
            .tries = 1, .tries_max = 3 }, RETRY_PAID },
        { { .status = 503, .sent = true, .effect = EFFECT_NONE,
            .tries = 3, .tries_max = 3 }, RETRY_NO },
        { { .status = 503, .sent = true,
            .tries = 1, .tries_max = 3 }, RETRY_PAID },
        { { .status = 503, .no_retry = true, .effect = EFFECT_NONE,
            .tries = 1, .tries_max = 3 }, RETRY_NO },
        { { .status = 429, .effect = EFFECT_NONE, .tries = 1, .tries_max = 3 }, RETRY_PAID },
        { { .status = 500, .effect = EFFECT_NONE, .tries = 1, .tries_max = 3 }, RETRY_PAID },
        { { .status = 500, .tries = 1, .tries_max = 3 }, RETRY_NO },
        { { .status = 502, .effect = EFFECT_NONE, .tries = 1, .tries_max = 3 }, RETRY_PAID },
        { { .status = 504, .effect = EFFECT_NONE, .tries = 1, .tries_max = 3 }, RETRY_PAID },
        { { .status = 501, .effect = EFFECT_NONE, .tries = 1, .tries_max = 3 }, RETRY_NO },
        { { .status = 200, .effect = EFFECT_NONE, .tries = 1, .tries_max = 3 }, RETRY_NO },
        { { .status = 404, .effect = EFFECT_NONE, .tries = 1, .tries_max = 3 }, RETRY_NO },
        { { .err = ERR_ORIGIN_CONNECT, .tries = 1, .tries_max = 3 }, RETRY_PAID },
        { { .err = ERR_ORIGIN_CONNECT, .tries = 1, .tries_max = 1 }, RETRY_NO },
        { { .err = ERR_ORIGIN_CUT, .sent = true, .effect = EFFECT_NONE,
            .tries = 1, .tries_max = 3 }, RETRY_PAID },
        { { .err = ERR_ORIGIN_CUT, .sent = true, .tries = 1, .tries_max = 3 }, RETRY_NO },
        { { .err = ERR_ORIGIN_CUT, .sent = true, .effect = EFFECT_NONE, .reused = true,
            .tries = 1, .tries_max = 1 }, RETRY_FREE },
        { { .err = ERR_ORIGIN_CUT, .sent = true, .effect = EFFECT_NONE, .reused = true,
            .free_tries = 1, .tries = 1, .tries_max = 1 }, RETRY_NO },
        { { .err = ERR_ORIGIN_CUT, .sent = true, .reused = true,
            .tries = 1, .tries_max = 3 }, RETRY_NO },
        { { .err = ERR_ORIGIN_TIMEOUT, .sent = true, .effect = EFFECT_NONE,
            .tries = 1, .tries_max = 3 }, RETRY_PAID },
        { { .err = ERR_ORIGIN_TIMEOUT, .sent = true, .effect = EFFECT_NONE,
            .tries = 2, .tries_max = 3 }, RETRY_NO },
        { { .err = ERR_ORIGIN_TIMEOUT, .sent = true, .tries = 1, .tries_max = 3 }, RETRY_NO },
        { { .status = 503, .sent = true, .effect = EFFECT_WRITES,
            .tries = 1, .tries_max = 3 }, RETRY_PAID },
        { { .status = 500, .sent = true, .effect = EFFECT_WRITES,
            .tries = 1, .tries_max = 3 }, RETRY_PAID },
        { { .status = 502, .sent = true, .effect = EFFECT_WRITES,
            .tries = 1, .tries_max = 3 }, RETRY_NO },
        { { .status = 504, .sent = true, .effect = EFFECT_WRITES,
            .tries = 1, .tries_max = 3 }, RETRY_NO },
        { { .err = ERR_ORIGIN_CONNECT, .effect = EFFECT_WRITES,
            .tries = 1, .tries_max = 3 }, RETRY_PAID },
        { { .err = ERR_ORIGIN_CUT, .sent = true, .effect = EFFECT_WRITES,
            .tries = 1, .tries_max = 3 }, RETRY_NO },
        { { .err = ERR_ORIGIN_CUT, .sent = true, .effect = EFFECT_WRITES, .reused = true,
            .tries = 1, .tries_max = 3 }, RETRY_NO },
        { { .err = ERR_ORIGIN_CUT, .effect = EFFECT_WRITES, .reused = true,
            .tries = 1, .tries_max = 3 }, RETRY_FREE },
        { { .err = ERR_ORIGIN_CUT, .effect = EFFECT_ONCE,
            .tries = 1, .tries_max = 3 }, RETRY_PAID },
        { { .err = ERR_ORIGIN_TIMEOUT, .sent = true, .effect = EFFECT_WRITES,
            .tries = 1, .tries_max = 3 }, RETRY_NO },
        { { .err = ERR_ORIGIN_TIMEOUT, .effect = EFFECT_WRITES,
            .tries = 1, .tries_max = 3 }, RETRY_PAID },
        { { .err = ERR_ORIGIN_CERT, .effect = EFFECT_NONE, .tries = 1, .tries_max = 3 }, RETRY_NO },
        { { .err = ERR_ORIGIN_REPLY, .sent = true, .effect = EFFECT_NONE,
            .tries = 1, .tries_max = 3 }, RETRY_NO },
    };
    for (size_t i = 0; i < countof(rows); i++)
        if (retry_judge(&rows[i].what) != rows[i].want)
            fail_msg("row %zu: %d", i, (int)retry_judge(&rows[i].what));
}

TEST(a_budget_is_a_tenth_and_a_few)
{
    struct retry_budget budget;
    retry_budget_init(&budget);
    int spent = 0;
    for (int i = 0; i < 100; i++)
        spent += retry_spend(&budget);
    ok(spent == RETRY_BUDGET_MAX);
    for (int i = 0; i < 1000; i++) {
        retry_earn(&budget);
        spent += retry_spend(&budget);
    }
    ok(spent == RETRY_BUDGET_MAX + 100);
    for (int i = 0; i < 100000; i++)
        retry_earn(&budget);
    for (spent = 0; retry_spend(&budget); spent++)
        ;
    ok(spent == RETRY_BUDGET_MAX);    /* a quiet day saves up no storm */
}

TEST(delays_double_and_are_spread)
{
    ok(retry_delay_ms(1, 0, 0) == 0 && retry_delay_ms(1, 100, 0) == 100 &&
       retry_delay_ms(1, 101, 0) == 0);
    ok(retry_delay_ms(2, 200, 0) == 200 && retry_delay_ms(3, 400, 0) == 400);
    ok(retry_delay_ms(60, 5000, 0) == 5000 && retry_delay_ms(60, 5001, 0) == 0);
    ok(retry_delay_ms(1, 7, 3000) == 3007);
    ok(retry_after_ms(S(" 3 "), 0) == 3000 && retry_after_ms(S(""), 0) == 0);
    ok(retry_after_ms(S("soon"), 0) == 0 && retry_after_ms(S("-1"), 0) == 0);
    ok(retry_after_ms(S("18446744073709551615"), 0) == 86400000);
    ok(retry_after_ms(S("Sun, 06 Nov 1994 08:49:37 GMT"), 784111775) == 2000);
    ok(retry_after_ms(S("Sun, 06 Nov 1994 08:49:37 GMT"), 784111779) == 0);
}

static const char *url_of(struct arena *keep, const char *url)
{
    struct endpoint endpoint;
    slice why = S("");
    if (endpoint_read(keep, slice_of(url), S("auto"), &endpoint, &why))
        return why.len ? NULL : "no reason given";
    return arena_copy(keep, endpoint_url(keep, &endpoint)).ptr;
}

TEST(an_endpoint_has_one_name)
{
    static const struct {
        const char *url, *want;
    } rows[] = {
        { "HTTP://Example.COM:80/", "http://example.com" },
        { "https://example.com:443", "https://example.com" },
        { "https://example.com:80", "https://example.com:80" },
        { "http://[::1]:9000/", "http://[::1]:9000" }, { "http://[::1]", "http://[::1]" },
        { "http://127.0.0.1:7070", "http://127.0.0.1:7070" },
        { "ftp://example.com", NULL }, { "http:example.com", NULL }, { "http://", NULL },
        { "http://user@example.com", NULL }, { "http://example.com/path", NULL },
        { "http://example.com:0", NULL }, { "http://example.com:65536", NULL },
        { "http://example.com:", NULL }, { "http://exa mple.com", NULL }, { "http://[::1", NULL },
        { "http://[::1]x:9", NULL }, { "http://a?b", NULL }, { "http://a#b", NULL }, { "", NULL },
    };
    struct arena keep = { 0 };
    for (size_t i = 0; i < countof(rows); i++) {
        const char *got = url_of(&keep, rows[i].url);
        if (!got != !rows[i].want || (got && strcmp(got, rows[i].want)))
            fail_msg("%s: %s", rows[i].url, got ? got : "refused");
    }
    arena_free(&keep);
}

TEST(a_bucket_stands_in_the_host_where_it_can)
{
    static const struct {
        const char *endpoint, *style, *bucket, *region, *host, *path;
    } rows[] = {
        { "http://127.0.0.1:7", "auto", "buck", "", "127.0.0.1:7", "/buck/a/b%20" },
        { "http://[::1]:7", "auto", "buck", "", "[::1]:7", "/buck/a/b%20" },
        { "http://localhost:7", "auto", "buck", "", "localhost:7", "/buck/a/b%20" },
        { "https://s3.amazonaws.com", "auto", "buck", "", "buck.s3.amazonaws.com", "/a/b%20" },
        { "https://s3.amazonaws.com", "auto", "bu.ck", "", "s3.amazonaws.com", "/bu.ck/a/b%20" },
        { "https://s3.amazonaws.com", "auto", "buck", "eu-west-1",
          "buck.s3.eu-west-1.amazonaws.com", "/a/b%20" },
        { "https://s3.us-east-1.amazonaws.com", "path", "buck", "eu-west-1",
          "s3.eu-west-1.amazonaws.com", "/buck/a/b%20" },
        { "https://s3.example.com", "auto", "buck", "eu-west-1", "buck.s3.example.com", "/a/b%20" },
        { "http://s3.example.com", "auto", "bu.ck", "", "bu.ck.s3.example.com", "/a/b%20" },
        { "http://s3.example.com", "auto", "Buck_1", "", "s3.example.com", "/Buck_1/a/b%20" },
        { "http://localhost:7", "host", "buck", "", "buck.localhost:7", "/a/b%20" },
        { "http://s3.example.com", "path", "buck", "", "s3.example.com", "/buck/a/b%20" },
    };
    struct arena keep = { 0 };
    for (size_t i = 0; i < countof(rows); i++) {
        struct endpoint endpoint;
        struct target target;
        slice why;
        ok(endpoint_read(&keep, slice_of(rows[i].endpoint), slice_of(rows[i].style), &endpoint,
                         &why) == OK);
        endpoint_target(&keep, &endpoint, slice_of(rows[i].bucket), S("a/b "), S("x=#\n\xff&y=%20"),
                       slice_of(rows[i].region), &target);
        same(target.host, slice_of(rows[i].host));
        same(target.path, slice_of(rows[i].path));
        same(target.query, S("x=%23%0A%FF&y=%20"));
    }
    arena_free(&keep);
}

TEST(regions_are_remembered_up_to_a_limit)
{
    struct regions regions;
    char region[REGION_BYTES_MAX], bucket[32];
    regions_init(&regions);
    ok(!region_get(&regions, S("first"), S("us-east-1"), region) && !strcmp(region, "us-east-1"));
    region_learn(&regions, S("first"), S("eu-west-1"));
    region_learn(&regions, S("first"), S("eu-west-2"));
    ok(region_get(&regions, S("first"), S("us-east-1"), region) && !strcmp(region, "eu-west-2"));
    for (int i = 0; i < 1024; i++) {
        snprintf(bucket, sizeof(bucket), "bucket-%d", i);
        region_learn(&regions, slice_of(bucket), S("ap-south-1"));
    }
    ok(regions.count == 1024);
    ok(!region_get(&regions, S("first"), S("us-east-1"), region));
    ok(region_get(&regions, S("bucket-0"), S(""), region) && !strcmp(region, "ap-south-1"));
    ok(region_valid(S("eu-west-1")) && !region_valid(S("")) && !region_valid(S("evil.example/")));
    regions_end(&regions);
}

RUN(cmocka_unit_test(regions_are_remembered_up_to_a_limit),
    cmocka_unit_test(what_may_be_repeated_is_a_table),
    cmocka_unit_test(a_budget_is_a_tenth_and_a_few),
    cmocka_unit_test(delays_double_and_are_spread),
    cmocka_unit_test(an_endpoint_has_one_name),
    cmocka_unit_test(a_bucket_stands_in_the_host_where_it_can))
