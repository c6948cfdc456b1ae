/* status.c - what the running service is doing, for its operator.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Figures as they are when they are asked for: nothing is kept here. Threads: a loop's, whichever
 * serves the admin address. */
#include <string.h>

#include "base/clock.h"
#include "base/metric.h"
#include "cli/serve.h"
#include "s3/encode.h"

/* Objects and parts of them that S3 requests were answered with, by where their bytes came from. */
static void tell_answers(struct admin_page *page)
{
    static const struct {
        const char *path;
        enum metric counter;
    } rows[] = {
        { "cache.answers.hit", M_CACHE_HIT },
        { "cache.answers.stale", M_CACHE_STALE },
        { "cache.answers.revalidated", M_CACHE_REVALIDATED },
        { "cache.answers.partial", M_CACHE_PARTIAL },
        { "cache.answers.miss", M_CACHE_MISS },
        { "cache.evicted_extents", M_STORE_RECYCLED },
    };
    for (size_t i = 0; i < countof(rows); i++)
        admin_number(page, rows[i].path, metric_read(rows[i].counter));
}

static void tell_fills(struct admin_page *page)
{
    static const struct {
        const char *path;
        enum metric metric;
    } rows[] = {
        { "fill.sessions", M_FILL_SESSIONS },     { "fill.lists", M_FILLS },
        { "fill.items.hit", M_FILL_ITEMS_HIT },   { "fill.items.miss", M_FILL_ITEMS_MISS },
        { "fill.items.failed", M_FILL_ITEMS_FAILED },
        { "fill.filled_bytes", M_FILL_BYTES },    { "fill.cache_bytes", M_FILL_FROM_CACHE },
    };
    for (size_t i = 0; i < countof(rows); i++)
        admin_number(page, rows[i].path, metric_read(rows[i].metric));
}

/* Is it worth it? Of all kinds of reads; what was saved is what clients were given beyond what
 * origins sent. */
static void tell_gains(struct admin_page *page, const char *of, const struct gains *gains,
                       double dollars)
{
    struct arena keep = { 0 };
    uint64_t saved = gains->given_bytes - MIN(gains->given_bytes, gains->fetched_bytes);
    const struct {
        const char *name;
        uint64_t value;
    } numbers[] = {
        { "hits", gains->hits },                      { "reads", gains->reads },
        { "cache_bytes", gains->cache_bytes },        { "origin_bytes", gains->origin_bytes },
        { "given_bytes", gains->given_bytes },        { "fetched_bytes", gains->fetched_bytes },
        { "saved_bytes", saved },
    };
    for (size_t i = 0; i < countof(numbers); i++)
        admin_number(page, arena_printf(&keep, "%s.%s", of, numbers[i].name).ptr,
                     numbers[i].value);
    admin_ratio(page, arena_printf(&keep, "%s.hit_ratio", of).ptr, gains->hits, gains->reads);
    admin_ratio(page, arena_printf(&keep, "%s.byte_hit_ratio", of).ptr, gains->cache_bytes,
                gains->cache_bytes + gains->origin_bytes);
    if (dollars > 0)
        admin_real(page, arena_printf(&keep, "%s.saved_dollars", of).ptr,
                   (double)saved / 1e9 * dollars);
    arena_free(&keep);
}

static void tell_worth(struct admin_page *page, struct serve *serve)
{
    uint64_t ms;
    double dollars;
    struct gains all = gains_now(), last = recent_gains(&serve->recent, mono_ms(), &ms);
    bool is_price = config_price(slice_of(serve->config->egress_price), &dollars);
    check(is_price);
    tell_gains(page, "worth.all", &all, dollars);
    tell_gains(page, "worth.last_minute", &last, dollars);
    admin_number(page, "worth.last_minute.seconds", ms / 1000);
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
    admin_text(page, "origins.state", !health.answered_s && !health.failed_s ? S("not asked yet")
                                      : health.failing ? S("fails") : S("answers"));
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

static void tell_memory(struct admin_page *page, const struct memory *memory)
{
    struct arena keep = { 0 };
    admin_number(page, "memory.bytes", memory->bytes);
    admin_text(page, "memory.from", memory->from);
    for (size_t i = 0; i < BUDGET_COUNT; i++)
        admin_number(page, arena_printf(&keep, "memory.budgets.%s_bytes", budget_rows[i].name).ptr,
                     memory->budgets.bytes[i]);
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
    tell_memory(page, &serve->memory);
    admin_text(page, "cache.folder", slice_of(serve->config->cache_dir));
    admin_text(page, "cache.io", serve->engine == DISK_URING ? S("uring") : S("threads"));
    admin_store(page, "cache", &status);
    tell_small(page, &status);
    tell_answers(page);
    tell_fills(page);
    tell_worth(page, serve);
    for (size_t i = 0; i < serve->config->origin_count; i++)
        tell_origin(page, serve->config->origins[i].name, serve->origin_of[i]);
}
