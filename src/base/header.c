/* header.c - what is known of a request's headers. SPDX-License-Identifier: Apache-2.0
 *
 * A request asks for each of its headers, so exact names are found by a table of hashes, made at
 * the first question; the few prefixes are compared one by one, for names with a '-' alone. */
#include "base/header.h"

#include <pthread.h>
#include <string.h>

#define NAME_BYTES_MAX 64    /* of a row; a longer name fits prefixes alone */
#define SLOTS 512u           /* a power of two, several times the rows */

enum times { TIMES_ANY, TIMES_ONCE };
enum right { RIGHT_OF_PLAIN, RIGHT_OF_ADMIN };

static const struct row {
    slice name;
    struct header_known known;
} rows[] = {
#define HEADER(name, fate, times, right) \
    { { name, sizeof(name) - 1 }, { HEADER_##fate, TIMES_##times, RIGHT_OF_##right } },
#define VENDOR(prefix)
#include "base/header.def"
#undef HEADER
#undef VENDOR
};

static const slice vendors[] = {
#define HEADER(name, fate, times, right)
#define VENDOR(prefix) { prefix, sizeof(prefix) - 1 },
#include "base/header.def"
#undef HEADER
#undef VENDOR
};

static const struct row *slots[SLOTS];
static pthread_once_t filled = PTHREAD_ONCE_INIT;

static uint32_t hash_of(slice name)
{
    uint32_t hash = 2166136261u;    /* FNV-1a */
    for (size_t i = 0; i < name.len; i++)
        hash = (hash ^ (uint8_t)name.ptr[i]) * 16777619u;
    return (hash ^ hash >> 15) % SLOTS;
}

static bool is_prefix(const struct row *row)
{
    return row->name.ptr[row->name.len - 1] == '*';
}

static void fill(void)
{
    for (size_t i = 0; i < countof(rows); i++) {
        uint32_t at = hash_of(rows[i].name);
        check(rows[i].name.len <= NAME_BYTES_MAX);
        while (slots[at])
            at = (at + 1) % SLOTS;
        if (!is_prefix(&rows[i]))
            slots[at] = &rows[i];
    }
}

static slice lower(slice name, char buffer[NAME_BYTES_MAX])
{
    name.len = MIN(name.len, (size_t)NAME_BYTES_MAX);
    for (size_t i = 0; i < name.len; i++)
        buffer[i] = char_lower(name.ptr[i]);
    return (slice){ buffer, name.len };
}

static const struct row *exact(slice name)
{
    for (uint32_t at = hash_of(name); slots[at]; at = (at + 1) % SLOTS)
        if (slice_eq(slots[at]->name, name))
            return slots[at];
    return NULL;
}

static const struct row *longest_prefix(slice name)
{
    const struct row *best = NULL;
    for (size_t i = 0; i < countof(rows); i++)
        if (is_prefix(&rows[i]) && (!best || rows[i].name.len > best->name.len) &&
            slice_starts(name, slice_sub(rows[i].name, 0, rows[i].name.len - 1)))
            best = &rows[i];
    return best;
}

static bool begins_as_vendors(slice name)
{
    for (size_t i = 0; i < countof(vendors); i++)
        if (slice_starts(name, vendors[i]))
            return true;
    return false;
}

static bool is_named(slice name, slice named)
{
    while (named.len)
        if (slice_eq_nocase(slice_trim(slice_cut(&named, ',')), name))
            return true;
    return false;
}

struct header_known header_judge(slice name, slice named)
{
    char buffer[NAME_BYTES_MAX];
    slice low = lower(name, buffer);
    pthread_once(&filled, fill);
    const struct row *row = name.len <= NAME_BYTES_MAX ? exact(low) : NULL;
    if (!row && slice_has(low, '-'))
        row = longest_prefix(low);
    if (row)
        return row->known;
    bool foreign = begins_as_vendors(low) || (named.len && is_named(name, named));
    return (struct header_known){ .fate = foreign ? HEADER_FOREIGN : HEADER_UNKNOWN };
}

bool header_is_vendors(slice name)
{
    char buffer[NAME_BYTES_MAX];
    return begins_as_vendors(lower(name, buffer));
}

/* As CGI would hand it on. */
static slice folded(slice name, char buffer[NAME_BYTES_MAX])
{
    slice low = lower(name, buffer);
    for (size_t i = 0; i < low.len; i++)
        if (buffer[i] == '_')
            buffer[i] = '-';
    return low;
}

bool header_is_disguised(slice name)
{
    char buffer[NAME_BYTES_MAX];
    if (!slice_has(name, '_') || slice_starts_nocase(name, S("x-amz-meta-")))
        return false;
    slice plain = folded(name, buffer);
    return begins_as_vendors(plain) && !slice_starts(plain, S("x-amz-meta-"));
}

const char *header_named_breaks(slice name)
{
    char buffer[NAME_BYTES_MAX];
    slice plain = folded(name, buffer);
    for (size_t i = 0; i < plain.len; i++) {
        char c = plain.ptr[i];
        if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '-')
            return "is no name of a header: those are of letters, digits, '-' and '_'";
    }
    if (!name.len || name.len > NAME_BYTES_MAX)
        return "is no name of a header: those have 1 to 64 characters, and stand between commas";
    if (header_judge(plain, S("")).fate == HEADER_OURS)
        return "never goes on to an origin, since it is about the connection, about who asks, or "
               "about what is asked for, and Penstock says that itself: take it away";
    return NULL;
}
