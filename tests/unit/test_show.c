/* test_show.c - names, sizes and times for people, and s3:// URLs. SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "cli/show.c"

static slice shown(struct arena *keep, slice name)
{
    struct text text = text_in(keep);
    show_name(&text, name);
    return text_slice(&text);
}

TEST(a_url_has_a_bucket_and_the_bytes_after_it)
{
    static const struct {
        const char *text, *bucket, *key;
    } rows[] = {
        { "s3://b", "b", "" }, { "s3://b/", "b", "" }, { "s3://b/a/c", "b", "a/c" },
        { "S3://b/a", "b", "a" }, { "s3://b//a", "b", "/a" }, { "s3://b/a%20b?c#d", "b", "a%20b?c#d" },
        { "s3://b/ a\n\xff", "b", " a\n\xff" }, { "s3://b/a/", "b", "a/" },
    };
    for (size_t i = 0; i < countof(rows); i++) {
        struct s3_url url;
        const char *why;
        ok(s3_url_read(rows[i].text, &url, &why) && !why);
        same(url.bucket, slice_of(rows[i].bucket));
        same(url.key, slice_of(rows[i].key));
    }
}

TEST(other_texts_are_refused_with_a_reason)
{
    char lengthy[5 + 2 + 1025 + 1] = "s3://b/";
    memset(lengthy + 7, 'x', 1025);
    const char *const texts[] = { "", "b", "s3:", "s3:/b", "http://b/c", "s3://", "s3:///c", "s3://b c/d",
                                  "s3://b\n/d", lengthy };
    for (size_t i = 0; i < countof(texts); i++) {
        struct s3_url url;
        const char *why = NULL;
        ok(!s3_url_read(texts[i], &url, &why) && why);
    }
    struct s3_url url;
    const char *why;
    lengthy[sizeof(lengthy) - 2] = 0;
    ok(s3_url_read(lengthy, &url, &why) && url.key.len == 1024);
}

TEST(a_name_can_not_command_a_terminal)
{
    struct arena keep = { 0 };
    same(shown(&keep, S("a/b c.é.日")), S("a/b c.é.日"));
    same(shown(&keep, S("")), S(""));
    same(shown(&keep, S("\x1b[31m\n\r\t\x7f")), S("\\x1b[31m\\x0a\\x0d\\x09\\x7f"));
    same(shown(&keep, S("a\\n")), S("a\\\\n"));
    same(shown(&keep, S("\xff\xc3")), S("\\xff\\xc3"));
    same(shown(&keep, S("\xc2\x9b")), S("\\xc2\\x9b"));                    /* CSI as one character */
    same(shown(&keep, S("\xe2\x80\xaegpj")), S("\\xe2\\x80\\xaegpj"));     /* right to left */
    arena_free(&keep);
}

TEST(every_byte_that_is_not_shown_as_it_is_can_be_told_apart)
{
    struct arena keep = { 0 };
    slice all[256];
    for (unsigned c = 0; c < 256; c++) {
        char byte = (char)c;
        all[c] = shown(&keep, (slice){ &byte, 1 });
        ok(!slice_has_control(all[c]) && all[c].len);
        for (unsigned other = 0; other < c; other++)
            ok(!slice_eq(all[other], all[c]));
    }
    arena_free(&keep);
}

TEST(a_share_is_whole_only_if_nothing_is_missing)
{
    struct arena keep = { 0 };
    same(show_share(&keep, 0, 10), S("0 %"));
    same(show_share(&keep, 1, UINT64_MAX), S("<1 %"));
    same(show_share(&keep, 5, 10), S("50 %"));
    same(show_share(&keep, 9999999, 10000000), S("99 %"));
    same(show_share(&keep, UINT64_MAX - 1, UINT64_MAX), S("99 %"));
    same(show_share(&keep, 10, 10), S("100 %"));
    same(show_share(&keep, 0, 0), S("100 %"));
    arena_free(&keep);
}

TEST(sizes_and_times_have_a_fitting_unit)
{
    struct arena keep = { 0 };
    same(show_bytes(&keep, 0), S("0 B"));
    same(show_bytes(&keep, 1023), S("1023 B"));
    same(show_bytes(&keep, 1536), S("1.5 KiB"));
    same(show_bytes(&keep, UINT64_MAX), S("16384.0 PiB"));
    same(show_seconds(&keep, 0), S("0s"));
    same(show_seconds(&keep, 119), S("119s"));
    same(show_seconds(&keep, 120), S("2m"));
    same(show_seconds(&keep, 7199), S("119m"));
    same(show_seconds(&keep, 7200), S("2h"));
    same(show_seconds(&keep, 2 * 86400), S("2d"));
    arena_free(&keep);
}

RUN(cmocka_unit_test(a_url_has_a_bucket_and_the_bytes_after_it),
    cmocka_unit_test(other_texts_are_refused_with_a_reason),
    cmocka_unit_test(a_name_can_not_command_a_terminal),
    cmocka_unit_test(every_byte_that_is_not_shown_as_it_is_can_be_told_apart),
    cmocka_unit_test(a_share_is_whole_only_if_nothing_is_missing),
    cmocka_unit_test(sizes_and_times_have_a_fitting_unit))
