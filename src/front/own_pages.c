/* own_pages.c - Penstock's own pages, under /_/, which need no key.
 * SPDX-License-Identifier: Apache-2.0
 *
 * These pages are for programs on the way to Penstock, or beside it: health checks of load
 * balancers, clients of the fill socket, and local clients that borrow a key pair (lend.h). They
 * are answered before the body is read. Threads: any loop. */
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metric.h"
#include "front/inside.h"

static void answer_lend(struct front *front, struct arena *keep, slice peer,
                        const struct request_head *head, struct http_answer *ret)
{
    slice access_key = S("");
    const char *why = lend_answer(front->lend, keep, peer, head, wall_s(), &access_key, ret);
    metric_add(why ? M_LEND_REFUSED : M_LENT, 1);
    if (!front_logs(front))
        return;
    if (why)
        log_access("lend_refused", "peer=%.*s why=\"%s\"", SLICE_ARG(peer), why);
    else
        log_access("lent", "peer=%.*s access_key=%.*s", SLICE_ARG(peer), SLICE_ARG(access_key));
}

static void answer_ready(struct front *front, struct arena *keep, struct http_answer *ret)
{
    struct store_status status;
    bool draining = atomic_load(&front->draining);
    store_status(cache_store(front->options.cache), &status);
    bool whole = !*status.why;    /* all cache folders serve */
    ret->status = draining ? 503 : 200;
    ret->body = arena_printf(keep, "{\"status\":\"%s\",\"instance\":\"%.*s\",\"pid\":%d,"
                             "\"cache\":\"%s%s%s\"}\n",
                             draining ? "draining" : whole ? "ready" : "degraded",
                             SLICE_ARG(front_instance(front, keep)), (int)getpid(),
                             whole ? "serving" : status.serving ? "in part out of service"
                                                                : "out of service",
                             whole ? "" : ": ", status.why);
}

bool own_pages_answer(struct front *front, struct arena *keep, slice peer,
                      const struct request_head *head, struct http_answer *ret)
{
    static const struct http_field json = { { "content-type", 12 }, { "application/json", 16 } };
    if (!slice_starts(head->path, S("/_/")) ||
        s3_host_bucket(keep, head->host, front->options.domains).len)    /* the path is a key */
        return false;
    *ret = (struct http_answer){ .status = 404, .close = true, .is_page = true,
                                 .fields = &json, .field_count = 1,
                                 .body = S("{\"error\":\"there is no such page: a GET below /_/ "
                                           "finds only health/live, health/ready, fill and "
                                           "credentials\"}\n") };
    bool reads = slice_eq(head->method, S("GET")) || slice_eq(head->method, S("HEAD"));
    if (reads && slice_eq(head->path, S("/_/health/live"))) {
        ret->status = 200;
        ret->body = S("{\"status\":\"live\"}\n");
    }
    if (reads && slice_eq(head->path, S("/_/health/ready")))
        answer_ready(front, keep, ret);
    if (reads && slice_eq(head->path, S("/_/fill"))) {
        ret->status = 200;
        ret->body = front->fill_page ? front->fill_page(front->fill_page_arg, keep)
                                     : S("{\"on\":false}\n");
    }
    bool lends = slice_eq(head->method, S("GET")) && slice_eq(head->path, S("/_/credentials"));
    if (lends && front->lend)
        answer_lend(front, keep, peer, head, ret);
    else if (lends)
        ret->body = S("{\"error\":\"Penstock lends no credentials: its operator must set lend and "
                      "lend_token_file\"}\n");
    if (slice_eq(head->method, S("HEAD")))
        ret->body = S("");
    return true;
}
