/* tar.c - writes an archive of small texts, in the format ustar.
 * SPDX-License-Identifier: Apache-2.0
 *
 * POSIX 1003.1-1988: a header of 512 bytes with numbers in octal, then the bytes, filled up to a
 * multiple of 512; at the end two blocks of zeroes. */
#include "cli/tar.h"

#include <assert.h>
#include <string.h>

#define BLOCK 512u

struct header {
    char name[100], mode[8], uid[8], gid[8], size[12], modified[12], sum[8], kind, link[100];
    char magic[6], version[2], user[32], group[32], major[8], minor[8], prefix[155], rest[12];
};
static_assert(sizeof(struct header) == BLOCK, "a header is a block");

static void octal(char *field, size_t bytes, uint64_t value)
{
    field[bytes - 1] = '\0';
    for (size_t at = bytes - 1; at > 0; at--, value /= 8)
        field[at - 1] = (char)('0' + value % 8);
}

/* The sum of all bytes, where those of the sum itself count as spaces. */
static void set_sum(struct header *header)
{
    unsigned sum = 0;
    memset(header->sum, ' ', sizeof(header->sum));
    for (size_t i = 0; i < sizeof(*header); i++)
        sum += ((const unsigned char *)header)[i];
    octal(header->sum, 7, sum);
}

static void fill_up(struct text *to, size_t bytes)
{
    static const char zeroes[BLOCK];
    text_add(to, (slice){ zeroes, bytes });
}

void tar_add(struct text *to, slice name, slice bytes, int64_t modified_s)
{
    struct header header = { .kind = '0', .magic = "ustar", .version = { '0', '0' } };
    check(name.len < sizeof(header.name) && to->len % BLOCK == 0);
    memcpy(header.name, name.ptr, name.len);
    octal(header.mode, sizeof(header.mode), 0600);
    octal(header.uid, sizeof(header.uid), 0);
    octal(header.gid, sizeof(header.gid), 0);
    octal(header.size, sizeof(header.size), bytes.len);
    octal(header.modified, sizeof(header.modified), (uint64_t)MAX(modified_s, 0));
    set_sum(&header);
    text_add(to, (slice){ (const char *)&header, sizeof(header) });
    text_add(to, bytes);
    fill_up(to, (BLOCK - bytes.len % BLOCK) % BLOCK);
}

void tar_end(struct text *to)
{
    fill_up(to, BLOCK);
    fill_up(to, BLOCK);
}
