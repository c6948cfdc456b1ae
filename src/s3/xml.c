/* xml.c - the few XML documents Penstock reads and writes. SPDX-License-Identifier: Apache-2.0
 *
 * Writing never produces what a parser would refuse: bytes that are no UTF-8, and characters that
 * XML 1.0 has no way to write, become U+FFFD. Any thread. */
#include "s3/xml.h"

#include <string.h>

/* Length of the UTF-8 character s begins with, 0 if it is none. */
static size_t character(slice s, uint32_t *ret_code)
{
    uint8_t first = (uint8_t)s.ptr[0];
    size_t len = first < 0x80 ? 1 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    if (len == 1) {
        *ret_code = first;
        return 1;
    }
    if (first < 0xc2 || first > 0xf4 || s.len < len)
        return 0;
    uint32_t code = first & (0x7fu >> len);
    for (size_t i = 1; i < len; i++) {
        if (((uint8_t)s.ptr[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | ((uint8_t)s.ptr[i] & 0x3f);
    }
    *ret_code = code;
    return code >= least[len] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff) ? len : 0;
}

static bool writable(uint32_t code)
{
    return code >= 0x20 ? code != 0xfffe && code != 0xffff : code == '\t' || code == '\n';
}

void xml_escape(struct text *to, slice s)
{
    while (s.len) {
        uint32_t code = 0;
        size_t len = character(s, &code);
        if (len && code == '&')
            text_add(to, S("&amp;"));
        else if (len && code == '<')
            text_add(to, S("&lt;"));
        else if (len && code == '>')
            text_add(to, S("&gt;"));
        else if (len && code == '"')
            text_add(to, S("&quot;"));
        else if (len && code == '\'')
            text_add(to, S("&#39;"));
        else if (len && code == '\r')
            text_add(to, S("&#13;"));    /* a bare one would be read as a line feed */
        else if (len && writable(code))
            text_add(to, slice_sub(s, 0, len));
        else
            text_add(to, S("\xef\xbf\xbd"));
        s = slice_from(s, MAX(len, 1));
    }
}

void xml_element(struct text *to, const char *name, slice value)
{
    text_printf(to, "<%s>", name);
    xml_escape(to, value);
    text_printf(to, "</%s>", name);
}
