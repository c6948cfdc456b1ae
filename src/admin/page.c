/* page.c - the page for people at "/" of the admin address. SPDX-License-Identifier: Apache-2.0
 *
 * The build writes the bytes of page.html as numbers into page.html.inc (Makefile.am). The policy
 * names the hash of the one script and of the one style sheet in the page. So a browser runs and
 * applies these two alone, loads nothing from elsewhere, and shows the page in no frame. It also
 * makes HTML of no text (Trusted Types), so a bucket name can't become part of the page's code.
 * Threads: any. */
#include "admin/page.h"

#include "s3/checksum.h"
#include "s3/encode.h"

static const unsigned char html[] = {
#include "admin/page.html.inc"
};

slice page_html(void)
{
    return (slice){ (const char *)html, sizeof(html) };
}

/* Returns the text between the two tags, each of which the page has once. */
static slice between(slice page, slice open, slice close)
{
    slice inside = slice_from(page, slice_find(page, open) + open.len);
    size_t len = slice_find(inside, close);
    check(inside.len && len < inside.len);
    return slice_sub(inside, 0, len);
}

static slice hash_of(struct arena *keep, slice text)
{
    char digest[CHECKSUM_BYTES_MAX];
    checksum_of(CHECKSUM_SHA256, text, (uint8_t *)digest);
    return base64_write(keep, (slice){ digest, checksum_bytes(CHECKSUM_SHA256) });
}

slice page_policy(struct arena *keep)
{
    slice script = hash_of(keep, between(page_html(), S("<script>"), S("</script>")));
    slice style = hash_of(keep, between(page_html(), S("<style>"), S("</style>")));
    return arena_printf(keep, "default-src 'none'; script-src 'sha256-%.*s'; "
                        "style-src 'sha256-%.*s'; img-src data:; connect-src 'self'; "
                        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
                        "require-trusted-types-for 'script'; trusted-types 'none'",
                        SLICE_ARG(script), SLICE_ARG(style));
}
