/* url_kind.c - finds the kind of origin that a URL has, and judges the URL.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/url_kind.h"

const struct url_kind *url_kind_of(url_kinds *kinds, slice url, const struct url_scheme **ret_scheme,
                                   slice *ret_rest)
{
    const struct url_kind *kind;
    for (size_t i = 0; (kind = kinds(i)) != NULL; i++) {
        for (size_t j = 0; j < countof(kind->schemes) && kind->schemes[j].start; j++) {
            slice start = slice_of(kind->schemes[j].start);
            if (!slice_starts(url, start))
                continue;
            *ret_scheme = &kind->schemes[j];
            *ret_rest = slice_from(url, start.len);
            return kind;
        }
    }
    return NULL;
}

const char *url_forms(url_kinds *kinds, struct arena *keep)
{
    const char *forms[64];
    size_t count = 0;
    const struct url_kind *kind;
    for (size_t i = 0; (kind = kinds(i)) != NULL; i++)
        for (size_t j = 0; j < countof(kind->schemes) && kind->schemes[j].start; j++) {
            check(count < countof(forms));
            forms[count++] = kind->schemes[j].form;
        }
    struct text text = text_in(keep);
    for (size_t i = 0; i < count; i++)
        text_printf(&text, "%s%s", !i ? "" : i + 1 < count ? ", " : " or ", forms[i]);
    text_char(&text, '\0');
    return text.ptr;
}

bool url_judge(url_kinds *kinds, slice url, struct arena *keep, const char **ret_why)
{
    const struct url_scheme *scheme;
    slice rest;
    const struct url_kind *kind = url_kind_of(kinds, url, &scheme, &rest);
    *ret_why = arena_printf(keep, "must be %s", url_forms(kinds, keep)).ptr;
    return kind && kind->judge(rest, keep, ret_why);
}

bool url_port_is_valid(slice port, const char **ret_why)
{
    uint64_t number;
    if (!slice_u64(port, &number))
        return false;
    if (number >= 1 && number <= 65535)
        return true;
    *ret_why = "the port must be between 1 and 65535";
    return false;
}

slice url_cut_port(slice *host)
{
    for (size_t i = host->len; i && host->ptr[i - 1] != ']'; i--) {
        if (host->ptr[i - 1] != ':')
            continue;
        slice port = slice_from(*host, i);
        host->len = i - 1;
        return port;
    }
    return (slice){ NULL, 0 };
}

bool url_host_is_valid(slice host, const char **ret_why)
{
    slice port = url_cut_port(&host);
    return host.len && !slice_has(host, '@') && !slice_has(host, '?') && !slice_has(host, '#') &&
           !slice_has(host, ' ') && !slice_has(host, '/') && !slice_has_control(host) &&
           (!port.ptr || url_port_is_valid(port, ret_why));
}

bool url_judge_host(slice rest, struct arena *keep, const char **ret_why)
{
    slice path = rest, host = slice_cut(&path, '/');
    if (slice_has(host, '@')) {
        *ret_why = "a URL must not have credentials (the part before '@'): remove them, and set "
                   "origin_access_key and origin_secret_key (in origins: access_key and "
                   "secret_key)";
        return false;
    }
    if (!url_host_is_valid(host, ret_why))
        return false;
    if (path.len)
        *ret_why = arena_printf(keep, "must end after the host or port: remove /%.*s, since "
                                "each request names its bucket", SLICE_ARG(path)).ptr;
    return path.len == 0;
}

bool url_judge_folder(slice rest, struct arena *keep, const char **ret_why)
{
    (void)keep;
    (void)ret_why;
    return slice_starts(rest, S("/"));
}
