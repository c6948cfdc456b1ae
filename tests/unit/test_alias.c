/* test_alias.c - other names of one object. SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "cache/alias.h"

TEST(a_path_is_read_as_a_file_system_reads_it)
{
    static const char *const keys[][2] = {
        { "a//b", "a/b" }, { "/a/b", "a/b" }, { "./a/b", "a/b" }, { "x/../a/b", "a/b" },
        { "a/./b", "a/b" }, { "a/b/.", "a/b" }, { "a//", "a/" }, { "//", "" }, { ".", "" },
        { "..", "" }, { "../../a", "a" }, { "a/..", "" }, { "a/b/../..//c/", "c/" },
        { "a/b//../c", "a/c" },
    };
    struct arena arena = { 0 };
    for (size_t i = 0; i < countof(keys); i++)
        same(alias_key(&arena, slice_of(keys[i][0])), slice_of(keys[i][1]));
    arena_free(&arena);
}

TEST(a_plain_key_is_its_own)
{
    static const char *const keys[] = { "", "a", "a/b", "a/", "a/b/", "...", ".a/b.", "a /b", "a\n" };
    for (size_t i = 0; i < countof(keys); i++) {
        slice key = slice_of(keys[i]), plain = alias_key(NULL, key);
        ok(plain.ptr == key.ptr && plain.len == key.len);
    }
}

TEST(a_tenant_and_blanks_are_no_part_of_a_name)
{
    same(alias_bucket(S("tenant:bucket")), S("bucket"));
    same(alias_bucket(S(":bucket")), S("bucket"));
    same(alias_bucket(S("bucket")), S("bucket"));
    same(alias_bucket(S("")), S(""));
    same(alias_trimmed(S(" \t in k\r\n")), S("in k"));
    same(alias_trimmed(S("  ")), S(""));
    same(alias_trimmed(S("k")), S("k"));
}

RUN(cmocka_unit_test(a_path_is_read_as_a_file_system_reads_it),
    cmocka_unit_test(a_plain_key_is_its_own),
    cmocka_unit_test(a_tenant_and_blanks_are_no_part_of_a_name))
