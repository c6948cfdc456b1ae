/* explain.c - what the cache would do with a key now, and why: penstock-explain.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The answer tells whether a key is cached, so the client must be allowed to list it
 * (own_list.h). Then a get, the read of an object through the cache, makes a forecast
 * (get_forecast in cache/get.h). The forecast is the decision that a GetObject of this client
 * would get now. A forecast sends no request to the origin, and reads no bytes of the object.
 * The store tells where each record (a stored piece of the object) lies, or why it is not there
 * (store/explain.h). Some clients are allowed to learn of a version only if the origin lists it
 * to them, or if they have a valid grant for it. If the cached copy is not such a version, the
 * answer is the same as if nothing were cached. These clients also do not learn why a record was
 * not stored, or left the cache: it may be a record of another object with this name. Threads:
 * the loop. */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>

#include "base/clock.h"
#include "front/explaining.h"
#include "front/own_list.h"
#include "s3/encode.h"
#include "store/explain.h"

/* Limits that keep the loop free for other requests. A unit is 128 KiB of an object. A run is a
 * series of units that are all cached, or all missing. */
#define RECORDS_MAX 256u              /* rows of an answer */
#define RUNS_MAX 512u                 /* runs that are counted */
#define RUN_UNITS 512u                /* units of one run; every 64 units cost a look-up */

struct explain {
    struct call *call;
    struct own_list *listed;          /* the object that the client may know of; NULL: any */
    struct get *get;                  /* NULL: the right is not proved yet */
    struct s3_range range;
};

/* ---- the document ---- */

static json_t *text_of(slice s)
{
    return json_stringn(s.ptr ? s.ptr : "", s.len);    /* NULL if it is not UTF-8 */
}

/* A name that is not UTF-8 is percent-encoded, and "_url" is added to the name of its member. */
static void set_name(json_t *to, const char *member, slice name, struct arena *keep)
{
    json_t *value = text_of(name);
    if (!value) {
        struct text url = text_in(keep);
        uri_encode(&url, name, false);
        member = arena_printf(keep, "%s_url", member).ptr;
        value = text_of(text_slice(&url));
    }
    json_object_set_new(to, member, value);
}

static void set_number(json_t *to, const char *member, uint64_t value)
{
    json_object_set_new(to, member, json_integer((json_int_t)value));
}

static void set_text(json_t *to, const char *member, const char *value)
{
    json_object_set_new(to, member, json_string(value));
}

static void set_flag(json_t *to, const char *member, bool value)
{
    json_object_set_new(to, member, json_boolean(value));
}

static void set_time(json_t *to, const char *member, int64_t unix_s, struct arena *keep)
{
    if (unix_s)
        json_object_set_new(to, member, text_of(iso_date_text(keep, unix_s)));
}

static void set_event(json_t *to, const char *member, struct event event, struct arena *keep)
{
    if (!event.why)
        return;
    json_t *object = json_object();
    set_text(object, "event", event_name(event.why));
    set_time(object, "at", event.at_s, keep);
    set_text(object, "why", event_text(event.why));
    json_object_set_new(to, member, object);
}

/* Folders are counted from 1, in the order of the settings. */
static void set_record(json_t *to, const struct explain *explain,
                       const struct explain_record *record)
{
    struct arena *keep = explain->call->keep;
    set_flag(to, "stored", record->stored);
    set_number(to, "folder", record->folder + 1);
    if (!record->serving)
        set_flag(to, "folder_out", true);
    if (record->stored) {
        set_number(to, "extent", record->extent);
        if (record->age >= 0)
            json_object_set_new(to, "age", json_real(record->age));
        return;
    }
    if (explain->listed)
        return;
    set_event(to, "not_stored", record->kept_out, keep);
    set_event(to, "left", record->taken_out, keep);
}

/* ---- what would happen, and why ---- */

static const struct {
    const char *now, *why;
} judgements[JUDGEMENTS] = {
    [JUDGED_CONFIRMED] = { "hit", "the origin has just confirmed the copy" },
    [JUDGED_FRESH] = { "hit", "the origin confirmed the copy, and ttl is not over" },
    [JUDGED_IMMUTABLE] = { "hit", "the copy never expires (freshness immutable, or a version that "
                                  "the request names)" },
    [JUDGED_STALE] = { "stale", "ttl is over, and grace is not: the copy is served, and "
                                "revalidated in the background" },
    [JUDGED_EXPIRED] = { "revalidate", "ttl and grace are over" },
    [JUDGED_UNPROVED] = { "revalidate",
        "the origin has not confirmed the copy since Penstock last opened the cache folder (at a "
        "start, or when the folder came back into service)" },
    [JUDGED_NOT_PERMITTED] = { "revalidate",
        "Penstock has no proof that this client may read the object: the origin has not allowed "
        "it, or the permission has ended" },
    [JUDGED_NEWEST] = { "revalidate",
        "Penstock asks the origin at this read, for one of three reasons: the setting "
        "'freshness' is 'always'; the request has Cache-Control: no-cache or max-age=0; or the key "
        "may be a second name of an object (a//b may be the same object as a/b)" },
    [JUDGED_RESTATED] = { "revalidate",
        "a write through Penstock may have changed the object's metadata since it was confirmed" },
    [JUDGED_INCOMPLETE] = { "revalidate",
        "the copy lacks the checksums that the request asks for" },
    [JUDGED_VERSION_EXPIRED] = { "revalidate",
        "the origin must confirm the version that the request names, for one of three reasons: "
        "(1) the cache folder missed a write, was changed or copied, or was not closed cleanly; "
        "(2) the machine was restarted; (3) the version is null, and its copy is older than ttl, "
        "or the age of the copy is unknown" },
};

/* If the reason of the outcome lies in the wanted bytes, returns this reason, and sets *now if
 * bytes are missing. Returns NULL if all wanted bytes are cached: then the judgement is the
 * reason. */
static const char *why_bytes(const struct explain_bytes *bytes, uint64_t size, const char **now)
{
    uint64_t counted = bytes->examined - bytes->first;
    if (bytes->outside)
        return "the object has no byte of this range: the answer to a GET is 416";
    if (bytes->cached == counted && size <= STORE_OBJECT_BYTES_MAX)
        return NULL;
    *now = bytes->cached ? "partial" : "miss";
    return size > STORE_OBJECT_BYTES_MAX
               ? "the object is larger than 128 TiB, so it is never stored: Penstock reads it from "
                 "the origin, by a GET with If-Match"
         : bytes->cached
               ? "the cache has some of these bytes: Penstock fetches the others by a GET with "
                 "If-Match"
               : "the cache has the object's metadata, but none of these bytes: Penstock fetches "
                 "them by a GET with If-Match";
}

/* Without metadata, the outcome is a miss. If the metadata must not be used for an answer, the
 * judgement is the outcome. Otherwise the outcome depends on how many of the wanted bytes are
 * cached. */
static void set_outcome(json_t *to, const struct explain *explain,
                        const struct get_forecast *forecast, const struct explain_bytes *bytes)
{
    struct arena *keep = explain->call->keep;
    const char *now = judgements[forecast->judgement].now;
    const char *why = judgements[forecast->judgement].why;
    if (!forecast->metadata) {
        now = "miss";
        why = forecast->in_flight
                  ? "the object is being fetched now: a GET joins this fetch, if its client may "
                    "read the object"
            : explain->listed
                  ? "the cache has no copy of the version that the origin lists to this client: a "
                    "GET goes to the origin"
            : forecast->peers && !forecast->why_no_peers
                  ? "the cache has no metadata of the object: a GET goes to another node (see "
                    "peers), or to the origin"
                  : "the cache has no metadata of the object: a GET goes to the origin";
    } else if (forecast->judgement <= JUDGED_STALE) {
        const char *other = why_bytes(bytes, forecast->metadata->size, &now);
        why = other ? other : why;
    }
    if (bytes->examined < bytes->end)
        why = arena_printf(keep, "%s. Only the first %" PRIu64 " bytes of the range were examined",
                           why, bytes->examined - bytes->first).ptr;
    set_text(to, "now", now);
    set_text(to, "why", why);
    if (forecast->in_flight)
        set_flag(to, "being_fetched", true);
}

/* ---- records ---- */

static void add_row(json_t *rows, const struct explain *explain,
                    const struct explain_record *record, uint64_t first, uint64_t end)
{
    json_t *row = json_object();
    set_number(row, "first", first);
    set_number(row, "end", end);
    set_record(row, explain, record);
    json_array_append_new(rows, row);
}

/* Adds a row for each record of the range, but at most RECORDS_MAX rows. */
static void add_records(const struct explain *explain, json_t *to, const struct metadata *metadata,
                        const struct explain_bytes *bytes)
{
    struct store *store = cache_store(explain->call->front->options.cache);
    json_t *rows = json_array();
    for (uint64_t at = bytes->first; at < bytes->end;) {
        struct explain_record record;
        uint32_t unit = (uint32_t)(at / UNIT_BYTES);
        uint64_t units = (bytes->end - 1) / UNIT_BYTES - unit + 1;
        uint32_t count = (uint32_t)MIN(units, (uint64_t)STRIPE_UNITS);
        if (json_array_size(rows) == RECORDS_MAX) {
            set_flag(to, "more_records", true);
            break;
        }
        uint64_t next = ((uint64_t)unit + explain_units(store, metadata, unit, count, &record)) *
                        UNIT_BYTES;
        next = MIN(next, bytes->end);
        add_row(rows, explain, &record, at, next);
        at = next;
    }
    json_object_set_new(to, "records", rows);
}

/* Counts the cached bytes of the range, in RUNS_MAX runs at most. */
static void count_cached(struct store *store, const struct metadata *metadata,
                         struct explain_bytes *bytes)
{
    for (unsigned runs = 0; runs < RUNS_MAX && bytes->examined < bytes->end; runs++) {
        uint64_t unit = bytes->examined / UNIT_BYTES;
        uint64_t count = MIN((bytes->end - 1) / UNIT_BYTES - unit + 1, (uint64_t)RUN_UNITS);
        uint64_t found = store_has_units(store, metadata, unit, count, RECORDS_ALL);
        uint64_t next = found ? unit + found
                              : store_next_unit(store, metadata, unit + 1, count - 1,
                                                RECORDS_ALL);
        next = MIN(next * UNIT_BYTES, bytes->end);
        if (found)
            bytes->cached += next - bytes->examined;
        bytes->examined = next;
    }
}

/* Finds out which bytes are wanted, and which of them the cache has. */
static struct explain_bytes look_at_bytes(const struct explain *explain, json_t *to,
                                          const struct metadata *metadata)
{
    struct explain_bytes bytes = { .first = 0 };
    bool partial, is_storable = metadata && metadata->size <= STORE_OBJECT_BYTES_MAX;
    if (!metadata)
        return bytes;
    bytes.outside = s3_range_resolve(&explain->range, metadata->size, &bytes.first, &bytes.end,
                                     &partial) != OK;
    bytes.examined = is_storable ? bytes.first : bytes.end;
    if (!is_storable)
        return bytes;
    count_cached(cache_store(explain->call->front->options.cache), metadata, &bytes);
    add_records(explain, to, metadata, &bytes);
    return bytes;
}

/* ---- parts of the document ---- */

static void set_rules(json_t *to, const struct rules *rules)
{
    static const char *const names[] = { "ttl", "immutable", "always" };
    set_text(to, "freshness", names[rules->freshness]);
    if (rules->freshness != FRESH_TTL)
        return;
    set_number(to, "ttl", (uint64_t)rules->ttl_s);
    set_number(to, "grace", (uint64_t)rules->grace_s);
    set_number(to, "stale_if_error", (uint64_t)rules->stale_if_error_s);
}

static void set_permission(json_t *to, const struct call *call, const struct get_forecast *forecast)
{
    json_t *permission = json_object();
    set_text(permission, "identity", identity_id(&call->client->who) ? "own" : "shared");
    if (forecast->all_permitted)
        set_flag(permission, "needed", false);
    else
        set_number(permission, "proved_for", (uint64_t)forecast->permitted_s);
    json_object_set_new(to, "permission", permission);
}

static void set_metadata(json_t *to, const struct explain *explain,
                         const struct get_forecast *forecast, const struct object_id *id,
                         const struct object_name *name)
{
    struct call *call = explain->call;
    const struct metadata *metadata = forecast->metadata;
    struct explain_metadata found;
    json_t *object = json_object();
    explain_metadata(cache_store(call->front->options.cache), id, name, &found);
    if (explain->listed && !metadata)    /* the copy, if there is one, is another object */
        found.record.stored = false;
    set_record(object, explain, &found.record);
    if (metadata) {
        const struct rules *rules = call->rules;
        set_number(object, "bytes", metadata->size);
        set_name(object, "etag", metadata->etag, call->keep);
        set_time(object, "last_modified", metadata->modified_s, call->keep);
        int64_t confirmed_s = forecast->confirmed_s ? ageing_as_wall_s(forecast->confirmed_s) : 0;
        set_time(object, "confirmed", confirmed_s, call->keep);
        if (rules->freshness == FRESH_TTL && confirmed_s)
            set_time(object, "fresh_until", confirmed_s + rules->ttl_s, call->keep);
        set_flag(object, "proved", forecast->proved);
        set_flag(object, "refused", forecast->refused);
        set_flag(object, "unshared", forecast->unshared && !forecast->all_permitted);
    }
    json_object_set_new(to, "metadata", object);
}

static json_t *document(const struct explain *explain, const struct get_forecast *forecast)
{
    struct call *call = explain->call;
    json_t *to = json_object(), *bytes = json_object();
    struct object_id id;
    struct object_name name = { origin_endpoint(call->rules->origin), call->s3.bucket, call->s3.key,
                                S("") };
    store_object_id(cache_store(call->front->options.cache), &name, &id);
    set_name(to, "bucket", call->s3.bucket, call->keep);
    set_name(to, "key", call->s3.key, call->keep);
    set_name(to, "origin", name.endpoint, call->keep);
    if (explain->listed)
        set_flag(to, "listed_only", true);
    struct explain_bytes found = look_at_bytes(explain, bytes, forecast->metadata);
    set_outcome(to, explain, forecast, &found);
    set_rules(to, call->rules);
    set_permission(to, call, forecast);
    set_metadata(to, explain, forecast, &id, &name);
    set_number(bytes, "first", found.first);
    set_number(bytes, "end", found.end);
    set_number(bytes, "cached", found.cached);
    if (found.examined < found.end)
        set_number(bytes, "examined", found.examined);
    json_object_set_new(to, "bytes", bytes);
    explain_peers(to, call, forecast, &explain->range, &found);
    return to;
}

/* ---- the call ---- */

static void gone(void *arg)
{
    struct explain *explain = arg;
    own_list_free(&explain->listed);
    get_end(&explain->get);
}

static void reply(struct explain *explain, const struct get_forecast *forecast)
{
    struct call *call = explain->call;
    struct fields fields = { .keep = call->keep };
    json_t *to = document(explain, forecast);
    char *text = json_dumps(to, JSON_COMPACT | JSON_REAL_PRECISION(3) | JSON_PRESERVE_ORDER);
    check(text != NULL);
    slice body = arena_printf(call->keep, "%s\n", text);
    free(text);
    json_decref(to);
    call->gone = NULL;
    get_end(&explain->get);
    own_list_free(&explain->listed);
    fields_add(&fields, S("content-type"), S("application/json"));
    fields_add(&fields, S("x-amz-request-id"), call->id);
    reply_whole(call, 200, &fields, body);
}

/* True if the client may know of the cached copy: the origin lists this version to it, or a grant
 * is valid for this version. */
static bool may_know(const struct explain *explain, const struct get_forecast *forecast)
{
    const struct listed *listed;
    if (!explain->listed)
        return true;
    if (!forecast->metadata || forecast->permitted_s)
        return forecast->metadata;
    listed = own_list_find(explain->listed, explain->call->s3.key);
    return listed && metadata_is_of(forecast->metadata, metadata_etag_hash(listed->etag),
                                    metadata_mark(listed->size, listed->modified_s));
}

static void step(void *arg)
{
    struct explain *explain = arg;
    struct get_forecast forecast;
    if (!explain->get || get_forecast(explain->get, &forecast) != OK)
        return;
    if (!may_know(explain, &forecast))
        forecast = (struct get_forecast){ .all_permitted = forecast.all_permitted,
                                          .peers = forecast.peers,
                                          .why_no_peers = forecast.why_no_fleet };
    reply(explain, &forecast);
}

/* Called when the origin has answered. A page without keys may have another page behind it. */
static void answered(void *arg, enum err err)
{
    struct explain *explain = arg;
    struct call *call = explain->call;
    while (!err && own_list_is_needed(call) && (err = own_list_read(explain->listed)) == ERR_WAIT)
        err = own_list_next(explain->listed);
    if (err == ERR_WAIT)
        return;
    if (err) {
        slice why = own_list_why(explain->listed);
        call->gone = NULL;
        own_list_free(&explain->listed);
        reply_error(call, err, why);
        return;
    }
    if (!own_list_is_needed(call))
        own_list_free(&explain->listed);
    struct get_ask ask = object_ask(call, S(""));
    ask.range = explain->range;
    explain->get = get_start(call->loop->cache, &ask, step, explain);
    step(explain);
}

void explain_read(struct call *call)
{
    struct explain *explain = arena_alloc(call->keep, sizeof(*explain));
    const struct s3_param *range = s3_param_get(&call->s3, S("range"));
    *explain = (struct explain){ .call = call, .range = { .kind = RANGE_NONE } };
    if (range) {
        explain->range = s3_range_read(arena_printf(call->keep,
            "bytes=%.*s", SLICE_ARG(range->value)));
        if (explain->range.kind == RANGE_NONE) {
            reply_error(call, ERR_BAD_ARGUMENT, S(
                "range must be FIRST-LAST, FIRST- or -LENGTH, in bytes."));
            return;
        }
    }
    call->gone = gone;
    call->gone_arg = explain;
    /* The key itself is the first key of a list with the key as its prefix. */
    struct own_list_ask ask = { .prefix = call->s3.key, .keys_max = 1, .bytes_max = MIB };
    enum err err = own_list_ask(call, &ask, answered, explain, &explain->listed);
    if (err != ERR_WAIT)
        answered(explain, err);
}
