/* config_traces.c - the rules about the settings of traces. SPDX-License-Identifier: Apache-2.0
 *
 * A message never repeats a value of traces_headers, which is a secret. */
#include "base/config_inside.h"

#include <stdlib.h>
#include <string.h>

bool config_ratio(const char *text, double *ret)
{
    slice fraction = slice_of(text), whole = slice_cut(&fraction, '.');
    uint64_t number, ignored;
    if (!slice_u64(whole, &number) || fraction.len > 12 ||
        (fraction.ptr && !slice_u64(fraction, &ignored)))
        return false;
    *ret = strtod(text, NULL);
    return *ret <= 1;
}

/* Decodes %XX. Returns false for a '%' without two hex digits, and for a control byte. */
static bool decode(slice value, struct arena *keep, slice *ret)
{
    struct text text = text_in(keep);
    for (size_t i = 0; i < value.len; i++) {
        char c = value.ptr[i];
        uint8_t byte;
        if (c == '%' && !slice_unhex(slice_sub(value, i + 1, 2), &byte, 1))
            return false;
        if (c == '%') {
            c = (char)byte;
            i += 2;
        }
        if (c < ' ' || c > '~')
            return false;
        text_char(&text, c);
    }
    *ret = text_slice(&text);
    return true;
}

bool config_traces_header(slice *rest, struct arena *keep, slice *ret_name, slice *ret_value)
{
    static const char *const ours[] = { "host", "content-type", "content-length",
                                        "transfer-encoding", "connection" };
    slice value = slice_trim(slice_cut(rest, ','));
    *ret_name = slice_trim(slice_cut(&value, '='));
    return ret_name->len && slice_only(*ret_name, LOWER_CHARS UPPER_CHARS DIGIT_CHARS "-_") &&
           !slice_is_one_of_nocase(*ret_name, ours, countof(ours)) && value.len &&
           decode(slice_trim(value), keep, ret_value);
}

static void headers_are_fields(struct config *config, const struct config_group *all)
{
    slice name, value, rest = slice_of(config->traces_headers);
    for (unsigned number = 1; rest.len; number++)
        if (!config_traces_header(&rest, &config->arena, &name, &value) ||
            number > TRACES_HEADERS_MAX) {
            config_wrong(config, all, "traces_headers", "has a mistake in its pair number %u: "
                         "write at most 32 NAME=VALUE pairs, separated by commas, with %%20 for a "
                         "space and %%2C for a comma in a value. Host, Connection and headers "
                         "about the body are not allowed", number);
            return;
        }
}

/* Returns what is wrong with the URL, as the end of a sentence, or NULL. */
static const char *url_breaks(slice url)
{
    slice rest = url;
    if (slice_starts(url, S("http://")))
        rest = slice_from(url, 7);
    else if (slice_starts(url, S("https://")))
        rest = slice_from(url, 8);
    else
        return "must begin with http:// or https://, as in http://127.0.0.1:4318/v1/traces";
    slice host = slice_cut(&rest, '/');
    if (slice_has(host, '@'))
        return "must not have a user or password: set traces_headers_file instead";
    slice port = url_cut_port(&host);
    const char *why = "has a port that is no number";
    if (!host.len || !slice_only(host, LOWER_CHARS UPPER_CHARS DIGIT_CHARS "-._[]:"))
        return "has no valid host name: write http://HOST:4318/v1/traces";
    if (port.ptr && !url_port_is_valid(port, &why))
        return why;
    if (slice_has(rest, ' ') || slice_has(rest, '#') || slice_has(rest, '"'))
        return "must not have a space, a quote or a \"#\"";
    return NULL;
}

void config_traces_rule(struct config *config, const struct config_group *all)
{
    double ignored;
    const char *why = config->traces_url[0] ? url_breaks(slice_of(config->traces_url)) : NULL;
    if (why)
        config_wrong(config, all, "traces_url", "%s", why);
    if (!config_ratio(config->traces_ratio, &ignored))
        config_wrong(config, all, "traces_ratio", "must be a number from 0 to 1, such as 0.01, not "
                     "\"%s\"", config->traces_ratio);
    headers_are_fields(config, all);
}
