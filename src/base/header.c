/* header.c - the table of known request headers. SPDX-License-Identifier: Apache-2.0
 *
 * Every header of every request is looked up. A hash table, made by the first look-up, holds the
 * names that are no prefixes. The few prefixes are compared one by one, and only with names that
 * have a '-'. */
#include "base/header.h"

#include <pthread.h>
#include <search.h>

#define NAME_BYTES_MAX 64    /* of a row's name; a longer name can only match a prefix */

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

static struct hsearch_data exact_rows;
static pthread_once_t filled = PTHREAD_ONCE_INIT;

static bool is_prefix(const struct row *row)
{
    return row->name.ptr[row->name.len - 1] == '*';
}

static void fill(void)
{
    check(hcreate_r(2 * countof(rows), &exact_rows) != 0);
    for (size_t i = 0; i < countof(rows); i++) {
        ENTRY entry = { (char *)(uintptr_t)rows[i].name.ptr, (void *)(uintptr_t)&rows[i] }, *there;
        check(rows[i].name.len <= NAME_BYTES_MAX);
        check(is_prefix(&rows[i]) || hsearch_r(entry, ENTER, &there, &exact_rows) != 0);
    }
}

/* Returns the first bytes of a name in lower case, followed by a NUL. */
static slice lower(slice name, char buffer[NAME_BYTES_MAX + 1])
{
    name.len = MIN(name.len, (size_t)NAME_BYTES_MAX);
    for (size_t i = 0; i < name.len; i++)
        buffer[i] = char_lower(name.ptr[i]);
    buffer[name.len] = '\0';
    return (slice){ buffer, name.len };
}

static const struct row *exact(slice low)
{
    ENTRY *found = NULL;
    if (!hsearch_r((ENTRY){ .key = (char *)(uintptr_t)low.ptr }, FIND, &found, &exact_rows))
        return NULL;
    const struct row *row = found->data;
    return slice_eq(row->name, low) ? row : NULL;    /* the search compared only up to a NUL */
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

struct header_known header_judge(slice name, slice listed)
{
    char buffer[NAME_BYTES_MAX + 1];
    slice low = lower(name, buffer);
    pthread_once(&filled, fill);
    const struct row *row = name.len <= NAME_BYTES_MAX ? exact(low) : NULL;
    if (!row && slice_has(low, '-'))
        row = longest_prefix(low);
    if (row)
        return row->known;
    bool foreign = begins_as_vendors(low) || (listed.len && slice_list_has(listed, ',', name));
    return (struct header_known){ .fate = foreign ? HEADER_FOREIGN : HEADER_UNKNOWN };
}

bool header_is_vendors(slice name)
{
    char buffer[NAME_BYTES_MAX + 1];
    return begins_as_vendors(lower(name, buffer));
}

/* Returns the name in lower case, with '-' in place of '_': CGI makes no difference between the
 * two. */
static slice folded(slice name, char buffer[NAME_BYTES_MAX + 1])
{
    slice low = lower(name, buffer);
    for (size_t i = 0; i < low.len; i++)
        if (buffer[i] == '_')
            buffer[i] = '-';
    return low;
}

bool header_is_disguised(slice name)
{
    char buffer[NAME_BYTES_MAX + 1];
    if (!slice_has(name, '_') || slice_starts_nocase(name, S("x-amz-meta-")))
        return false;
    slice plain = folded(name, buffer);
    return begins_as_vendors(plain) && !slice_starts(plain, S("x-amz-meta-"));
}

const char *header_listed_breaks(slice name)
{
    char buffer[NAME_BYTES_MAX + 1];
    slice plain = folded(name, buffer);
    if (!slice_only(plain, LOWER_CHARS DIGIT_CHARS "-"))
        return "a header name in this list may have only letters, digits, '-' and '_': correct or "
               "remove it";
    if (!name.len || name.len > NAME_BYTES_MAX)
        return "a header name in this list may have at most 64 characters: shorten or remove it";
    if (header_judge(plain, S("")).fate == HEADER_OURS)
        return "this header concerns the connection, the client's identity, or the body or target "
               "of the request, so Penstock never forwards it: remove it from the list";
    return NULL;
}
