/* json_line.c - writes members of the JSON lines that answer requests about the cache.
 * SPDX-License-Identifier: Apache-2.0
 *
 * An answer may have 100,000 lines, so they are written as text, and not through jansson. Pure. */
#include <inttypes.h>

#include "front/inside.h"
#include "s3/encode.h"

static bool is_text(slice s)
{
    uint32_t code;
    for (size_t len; s.len; s = slice_from(s, len)) {
        len = utf8_read(s, &code);
        if (!len)
            return false;
    }
    return true;
}

void line_add_name(struct text *to, const char *member, slice name)
{
    if (!is_text(name)) {
        text_printf(to, "\"%s_url\":\"", member);
        uri_encode(to, name, false);
        text_char(to, '"');
        return;
    }
    text_printf(to, "\"%s\":\"", member);
    for (size_t i = 0; i < name.len; i++) {
        unsigned char c = (unsigned char)name.ptr[i];
        if (c < ' ' || c == '"' || c == '\\' || c == 0x7f)
            text_printf(to, "\\u%04x", c);
        else
            text_char(to, (char)c);
    }
    text_char(to, '"');
}

void line_add_folders(struct text *to, const bool folders[VOLUMES_MAX])
{
    const char *comma = "";
    text_char(to, '[');
    for (size_t i = 0; i < VOLUMES_MAX; i++) {
        if (!folders[i])
            continue;
        text_printf(to, "%s%zu", comma, i + 1);
        comma = ",";
    }
    text_char(to, ']');
}

void line_add_gaps(struct text *to, const struct walk_gaps *gaps)
{
    text_add(to, S(",\"folders_out\":"));
    line_add_folders(to, gaps->folders);
    text_printf(to, ",\"extents_unread\":%" PRIu32, gaps->extents);
    if (gaps->unnamed)    /* extents whose objects have no names */
        text_printf(to, ",\"extents_unnamed\":%" PRIu32, gaps->unnamed);
    text_add(to, S("}\n"));
}
