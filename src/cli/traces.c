/* traces.c - starts the exporter of spans. SPDX-License-Identifier: Apache-2.0
 *
 * Threads: the main thread. */
#include "traces/traces.h"

#include <config.h>

#include "base/log.h"
#include "cli/serve.h"

static size_t read_headers(struct serve *serve, struct http_field **ret)
{
    slice rest = slice_of(serve->config->traces_headers);
    struct http_field *list = NULL, field;
    size_t count = 0;
    while (rest.len) {
        bool good = config_traces_header(&rest, &serve->keep, &field.name, &field.value);
        check(good);    /* config_traces_rule */
        list = arena_grow(&serve->keep, list, count, sizeof(*list));
        list[count++] = field;
    }
    *ret = list;
    return count;
}

enum err daemon_traces_up(struct serve *serve)
{
    const struct config *config = serve->config;
    struct http_field *headers;
    size_t header_count = read_headers(serve, &headers);
    struct traces_options options = {
        .url = config->traces_url,
        .headers = headers, .header_count = header_count,
        .ca_file = config->origin_ca_file,
        .version = PACKAGE_VERSION,
        .queue_spans = config->traces_queue,
        .sampling = { .on = true, .a_second = (unsigned)config->traces_rate },
    };
    bool is_ratio = config_ratio(config->traces_ratio, &options.sampling.ratio);
    check(is_ratio);
    slice rest = slice_of(config->traces_url);
    slice url = slice_cut(&rest, '?');    /* the query may have a key */
    if (!url.len)
        return OK;
    if (traces_start(&options)) {
        log_info("traces", "url=%.*s ratio=%s", SLICE_ARG(log_word(&serve->keep, url)),
                 config->traces_ratio);
        return OK;
    }
    serve->why = S("can't start a thread for traces: raise the limit of threads (ulimit -u, "
                   "TasksMax)");
    return ERR_LIMIT;
}

void daemon_traces_down(struct serve *serve)
{
    (void)serve;
    traces_stop();
}
