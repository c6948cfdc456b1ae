/* test_copy.c - copies past the caches bring each byte, and nothing beside it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/copy.h"

#define ROOM (200 * KIB)
#define MARK 0x5a

static uint8_t from[ROOM], to[ROOM];

static void prepare(void)
{
    for (size_t i = 0; i < ROOM; i++)
        from[i] = (uint8_t)(i * 31 + i / 251);
    memset(to, MARK, ROOM);
}

static bool is_marked(size_t first, size_t end)
{
    while (first < end && to[first] == MARK)
        first++;
    return first == end;
}

TEST(a_copy_is_whole_at_each_place_of_a_line_and_with_each_end)
{
    static const size_t lengths[] = { 0, 1, 63, 64, 64 * KIB - 1, 64 * KIB, 64 * KIB + 1,
                                      64 * KIB + 63, 128 * KIB, 150 * KIB + 17 };
    for (size_t i = 0; i < countof(lengths); i++)
        for (size_t at = 0; at < 130; at += 1 + at % 7) {
            size_t len = lengths[i], source = at * 37 % 129;
            prepare();
            copy_for_use(to + at, (slice){ (char *)from + source, len }, COPY_READ_LATER);
            ok(memcmp(to + at, from + source, len) == 0);
            ok(is_marked(0, at) && is_marked(at + len, ROOM));
        }
}

TEST(a_copy_reads_nothing_beyond_its_bytes)
{
    size_t bytes = 128 * KIB, page = 4 * KIB;
    char *map = mmap(NULL, bytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ok(map != MAP_FAILED && mprotect(map + bytes, page, PROT_NONE) == 0);
    memset(map, 7, bytes);
    copy_for_use(to, (slice){ map, bytes }, COPY_READ_LATER);
    ok(memcmp(to, map, bytes) == 0);
    copy_for_use(map, (slice){ (char *)from, bytes }, COPY_READ_LATER);
    ok(memcmp(map, from, bytes) == 0);
    munmap(map, bytes + page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_is_whole_at_each_place_of_a_line_and_with_each_end),
        cmocka_unit_test(a_copy_reads_nothing_beyond_its_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
