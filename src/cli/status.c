/* status.c - what the running service is doing, for its operator.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Figures as they are when they are asked for: nothing is kept here. Threads: a loop's, whichever
 * serves the admin address. */
#include <string.h>

#include "base/metric.h"
#include "cli/serve.h"
#include "s3/encode.h"

/* The ratio: of the answers with an object, those whose bytes were all here. */
static void tell_answers(struct admin_page *page)
{
    static const struct {
        const char *path;
        enum metric counter;
        bool hit;
    } rows[] = {
        { "cache.answers.hit", M_CACHE_HIT, true },
        { "cache.answers.stale", M_CACHE_STALE, true },
        { "cache.answers.revalidated", M_CACHE_REVALIDATED, true },
        { "cache.answers.partial", M_CACHE_PARTIAL, false },
        { "cache.answers.miss", M_CACHE_MISS, false },
    };
    uint64_t hits = 0, all = 0;
    for (size_t i = 0; i < countof(rows); i++) {
        uint64_t count = metric_read(rows[i].counter);
        admin_number(page, rows[i].path, count);
        hits += rows[i].hit ? count : 0;
        all += count;
    }
    admin_ratio(page, "cache.hit_ratio", hits, all);
}

static uint64_t requests_so_far(void)
{
    uint64_t count = 0;
    for (enum metric op = M_REQ_GET; op <= M_REQ_OTHER; op++)
        count += metric_read(op);
    return count;
}

static slice time_text(struct arena *keep, int64_t at_s)
{
    return at_s ? iso_date_text(keep, at_s) : S("never");
}

static void tell_keys(struct admin_page *page, struct arena *keep, const struct origin_keys *keys)
{
    admin_text(page, "origins.credentials.access_key", keys->access_key);
    admin_text(page, "origins.credentials.from", keys->from);
    admin_text(page, "origins.credentials.expires", time_text(keep, keys->expires_s));
    admin_text(page, "origins.credentials.renewed", time_text(keep, keys->renewed_s));
    admin_text(page, "origins.credentials.last_failure", time_text(keep, keys->failed_s));
    admin_text(page, "origins.credentials.last_failure_why", keys->why);
}

static void tell_origin(struct admin_page *page, const char *name, struct origin *origin)
{
    struct arena keep = { 0 };
    struct origin_health health;
    origin_health(origin, &keep, &health);
    admin_item(page, "origins");
    admin_text(page, "origins.name", slice_of(name));
    admin_text(page, "origins.url", origin_endpoint(origin));
    admin_text(page, "origins.last_answer", time_text(&keep, health.answered_s));
    admin_text(page, "origins.last_failure", time_text(&keep, health.failed_s));
    admin_text(page, "origins.last_failure_why", health.why);
    admin_number(page, "origins.calls", health.calls);
    if (health.keys.from.len)
        tell_keys(page, &keep, &health.keys);
    arena_free(&keep);
}

static void tell_tls(struct admin_page *page, const struct serve *serve)
{
    struct arena keep = { 0 };
    if (!serve->tls)
        return;
    admin_text(page, "tls.listen", slice_of(serve->config->tls_listen));
    admin_text(page, "tls.expires", time_text(&keep, http_tls_expires_s(serve->tls)));
    arena_free(&keep);
}

static void tell_small(struct admin_page *page, const struct store_status *status)
{
    struct arena keep = { 0 };
    slice warning = cli_small_cache(status->size_bytes, status->derived, &keep);
    admin_text(page, "cache.warning", warning);
    arena_free(&keep);
}

void status_tell(void *arg, struct admin_page *page)
{
    struct serve *serve = arg;
    struct store_status status;
    store_status(serve->store, &status);
    admin_text(page, "listen", slice_of(serve->config->listen));
    tell_tls(page, serve);
    admin_number(page, "connections", http_connections(serve->http));
    admin_number(page, "open_requests", http_open_requests(serve->http));
    admin_number(page, "requests", requests_so_far());
    admin_text(page, "cache.folder", slice_of(serve->config->cache_dir));
    admin_text(page, "cache.io", serve->engine == DISK_URING ? S("uring") : S("threads"));
    admin_store(page, "cache", &status);
    tell_small(page, &status);
    tell_answers(page);
    for (size_t i = 0; i < serve->config->origin_count; i++)
        tell_origin(page, serve->config->origins[i].name, serve->origin_of[i]);
}
