/* status.c - the document of /status, and the families of /metrics, for the operator of the daemon.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Each request reads the figures anew. Threads: the loop that serves the request. */
#include <assert.h>

#include "base/clock.h"
#include "base/metric.h"
#include "cli/folders.h"
#include "s3/encode.h"

/* Adds the numbers of answers, by the source of their bytes, and the figures of fills. */
static void add_counters(struct status_document *to)
{
    static const struct {
        const char *path;
        enum metric metric;
    } rows[] = {
        { "cache.answers.hit", M_CACHE_HIT },
        { "cache.answers.stale", M_CACHE_STALE },
        { "cache.answers.stale_if_error", M_CACHE_STALE_IF_ERROR },
        { "cache.answers.revalidated", M_CACHE_REVALIDATED },
        { "cache.answers.partial", M_CACHE_PARTIAL },
        { "cache.answers.miss", M_CACHE_MISS },
        { "cache.evicted_extents", M_STORE_RECYCLED },
        { "fill.sessions", M_FILL_SESSIONS },     { "fill.lists", M_FILLS },
        { "fill.items.hit", M_FILL_ITEMS_HIT },   { "fill.items.miss", M_FILL_ITEMS_MISS },
        { "fill.items.failed", M_FILL_ITEMS_FAILED },
        { "fill.filled_bytes", M_FILL_BYTES },    { "fill.cache_bytes", M_FILL_FROM_CACHE },
    };
    for (size_t i = 0; i < countof(rows); i++)
        document_number(to, rows[i].path, metric_read(rows[i].metric));
}

/* Adds sums of reads and bytes, and the savings of the cache. The bytes saved are the bytes sent to
 * clients less the bytes that origins sent. */
static void add_gains(struct status_document *to, struct arena *keep, const char *path,
                      const struct gains *gains, double dollars)
{
    static const char *const names[] = { "hits", "reads", "cache_bytes", "peers_bytes",
                                         "origin_bytes", "given_bytes", "fetched_bytes" };
    static_assert(countof(names) == GAIN_COUNT, "a name for each");
    const uint64_t *of = gains->of;
    uint64_t saved = of[GAIN_GIVEN_BYTES] - MIN(of[GAIN_GIVEN_BYTES], of[GAIN_FETCHED_BYTES]);
    for (size_t i = 0; i < GAIN_COUNT; i++)
        document_number(to, arena_printf(keep, "%s.%s", path, names[i]).ptr, of[i]);
    document_number(to, arena_printf(keep, "%s.saved_bytes", path).ptr, saved);
    document_ratio(to, arena_printf(keep, "%s.hit_ratio", path).ptr, of[GAIN_HITS],
                   of[GAIN_READS]);
    document_ratio(to, arena_printf(keep, "%s.byte_hit_ratio", path).ptr, of[GAIN_CACHE_BYTES],
                   of[GAIN_CACHE_BYTES] + of[GAIN_PEERS_BYTES] + of[GAIN_ORIGIN_BYTES]);
    if (dollars > 0)
        document_real(to, arena_printf(keep, "%s.saved_dollars", path).ptr,
                      (double)saved / 1e9 * dollars);
}

static void add_worth(struct status_document *to, struct arena *keep, struct serve *serve)
{
    uint64_t ms;
    double dollars;
    struct gains all = gains_now(), last = recent_gains(&serve->recent, mono_ms(), &ms);
    bool is_price = config_price(serve->config->egress_price, &dollars);
    check(is_price);
    add_gains(to, keep, "worth.all", &all, dollars);
    add_gains(to, keep, "worth.last_minute", &last, dollars);
    document_number(to, "worth.last_minute.seconds", ms / 1000);
}

static uint64_t requests_so_far(void)
{
    uint64_t count = 0;
    for (enum metric op = M_REQ_GET; op <= M_REQ_OTHER; op++)
        count += metric_read(op);
    return count;
}

static void add_keys(struct status_document *to, struct arena *keep,
                     const struct origin_keys *keys)
{
    document_text(to, "origins.credentials.access_key", keys->access_key);
    document_text(to, "origins.credentials.from", keys->from);
    document_text(to, "origins.credentials.expires", iso_date_or_never(keep, keys->expires_s));
    document_text(to, "origins.credentials.renewed", iso_date_or_never(keep, keys->renewed_s));
    document_text(to, "origins.credentials.last_failure", iso_date_or_never(keep, keys->failed_s));
    document_text(to, "origins.credentials.last_failure_why", keys->why);
}

static void add_origin(struct status_document *to, struct arena *keep, const char *name,
                       struct origin *origin)
{
    struct origin_health health;
    origin_health(origin, keep, &health);
    document_item(to, "origins");
    document_text(to, "origins.name", slice_of(name));
    document_text(to, "origins.url", origin_endpoint(origin));
    document_text(to, "origins.state", !health.answered_s && !health.failed_s ? S("not asked yet")
                                      : health.failing ? S("fails") : S("answers"));
    document_text(to, "origins.last_answer", iso_date_or_never(keep, health.answered_s));
    document_text(to, "origins.last_failure", iso_date_or_never(keep, health.failed_s));
    document_text(to, "origins.last_failure_why", health.why);
    document_number(to, "origins.calls", health.calls);
    if (health.keys.from.len)
        add_keys(to, keep, &health.keys);
}

static void add_tls(struct status_document *to, struct arena *keep, const struct serve *serve)
{
    struct http_tls *tls = serve->certificates[CERTIFICATE_CLIENTS].tls;
    if (tls) {
        document_text(to, "tls.listen", slice_of(serve->config->tls_listen));
        document_text(to, "tls.expires", iso_date_or_never(keep, http_tls_expires_s(tls)));
    }
}

static void add_memory(struct status_document *to, struct arena *keep,
                       const struct memory *memory, const struct store *store)
{
    document_number(to, "memory.bytes", memory->bytes);
    document_text(to, "memory.from", memory->from);
    for (size_t i = 0; i < BUDGET_COUNT; i++)
        document_number(to, arena_printf(keep, "memory.budgets.%s_bytes", budget_rows[i].name).ptr,
                     memory->budgets.bytes[i]);
    document_number(to, "memory.locked_bytes", (uint64_t)metric_read(M_STORE_LOCKED_BYTES));
    document_number(to, "memory.locked_max_bytes", memory->locked_bytes);
    document_text(to, "memory.locked_why", slice_of(store_locked_why(store)));
}

void status_tell(void *arg, struct status_document *to)
{
    struct serve *serve = arg;
    struct arena keep = { 0 };
    check(serve->front && serve->store);    /* set up before the admin address */
    document_text(to, "listen", slice_of(serve->config->listen));
    add_tls(to, &keep, serve);
    document_number(to, "connections", metric_read(M_HTTP_CONNECTIONS));
    document_number(to, "open_requests", http_open_requests(serve->http));
    document_number(to, "requests", requests_so_far());
    add_memory(to, &keep, &serve->memory, serve->store);
    document_text(to, "cache.io", serve->engine == DISK_URING ? S("uring") : S("threads"));
    folders_tell(serve, &keep, to);
    add_counters(to);
    add_worth(to, &keep, serve);
    for (size_t i = 0; i < serve->config->origin_count; i++)
        add_origin(to, &keep, serve->config->origins[i].name, serve->routing.origin_of[i]);
    status_work_tell(serve, &keep, to);
    fleet_tell(serve, &keep, to);
    arena_free(&keep);
}

/* Adds the time at which the credentials of each origin expire, if the origin has credentials. */
static void expose_credentials(struct serve *serve, struct text *to)
{
    size_t count = 0, origins = serve->config->origin_count;
    struct metric_sample *samples = arena_alloc(to->arena, origins * sizeof(*samples));
    for (size_t i = 0; i < origins; i++) {
        struct origin_health health;
        origin_health(serve->routing.origin_of[i], to->arena, &health);
        if (health.keys.from.len)
            samples[count++] = (struct metric_sample){ slice_of(serve->config->origins[i].name),
                                                       (uint64_t)MAX(health.keys.expires_s, 0) };
    }
    metric_expose_family(to, F_CREDENTIALS_EXPIRE, samples, count);
}

void status_expose(void *arg, struct text *to)
{
    folders_expose(arg, to);
    expose_credentials(arg, to);
    fleet_expose(arg, to);
}
