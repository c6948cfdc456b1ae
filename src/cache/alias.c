/* alias.c - several names for one object. SPDX-License-Identifier: Apache-2.0
 *
 * Some origins have several names for one object (alias.h says which). The functions here find the
 * plain one of these names. Pure. */
#include "cache/alias.h"

#include <string.h>

slice alias_bucket(slice bucket)
{
    slice rest = bucket, last = S("");
    while (rest.ptr)
        last = slice_cut(&rest, ':');
    return last;
}

bool alias_is_plain(slice key)
{
    for (slice rest = key; rest.ptr;) {
        slice segment = slice_cut(&rest, '/');
        if ((!segment.len && rest.ptr) || slice_eq(segment, S(".")) || slice_eq(segment, S("..")))
            return false;
    }
    return true;
}

/* Returns the length of the path without its last segment and the slash before that. */
static size_t parent(const char *path, size_t len)
{
    while (len && path[--len] != '/')
        ;
    return len;
}

slice alias_key(struct arena *keep, slice key)
{
    if (alias_is_plain(key))
        return key;
    char *path = arena_alloc(keep, key.len + 1);
    size_t len = 0;
    for (slice rest = key; rest.ptr;) {
        slice segment = slice_cut(&rest, '/');
        bool of_folder = !segment.len && !rest.ptr;    /* "a/" is a name of its own */
        if (slice_eq(segment, S(".."))) {
            len = parent(path, len);
        } else if ((segment.len && !slice_eq(segment, S("."))) || (of_folder && len)) {
            if (len)
                path[len++] = '/';
            check(len + segment.len <= key.len);    /* a path is not longer than its key */
            memcpy(path + len, segment.len ? segment.ptr : "", segment.len);
            len += segment.len;
        }
    }
    return (slice){ path, len };
}

slice alias_trimmed(slice key)
{
    static const slice blanks = { " \t\n\v\f\r", 6 };
    while (key.len && slice_has(blanks, *key.ptr))
        key = slice_from(key, 1);
    while (key.len && slice_has(blanks, key.ptr[key.len - 1]))
        key.len--;
    return key;
}
