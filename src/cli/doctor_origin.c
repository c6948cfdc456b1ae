/* doctor_origin.c - how fast origins answer: DNS, first byte, bandwidth of a connection.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The calls use the code and the options of serve, and only read: HEAD, lists of at most 1,000
 * keys, and one GET, which is canceled after doctor->fetch_bytes. The first call opens the
 * connection, and is not measured. */
#include <inttypes.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/credentials.h"
#include "cli/doctor_call.h"
#include "cli/serve.h"
#include "origin/web.h"
#include "s3/encode.h"
#include "s3/xml.h"

#define TRIES 3u
#define ORIGINS_MAX 6u
#define DNS_SLOW_MS 100.0
#define DNS_ONCE_MS 500.0             /* so slow a name is looked up once */
#define FIRST_SLOW_MS 200.0
#define RATE_SLOW 20.0                /* MB a second and connection */
#define LEAST_BYTES MIB               /* a smaller object says nothing of bandwidth */

/* ---- DNS and clock ---- */

static slice place_name(const struct place *place, const char *what)
{
    return arena_printf(place->doctor->keep, "%s%.*s", what, SLICE_ARG(place->name));
}

static double look_up(const char *host, int *ret_fault)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found = NULL;
    uint64_t begin = mono_ns();
    *ret_fault = getaddrinfo(host, NULL, &hints, &found);
    if (!*ret_fault)
        freeaddrinfo(found);
    return (double)(mono_ns() - begin) / 1e6;
}

#define DNS_ADVICE \
    "Look at the name servers in /etc/resolv.conf (resolvectl query, dig), or run a cache of names " \
    "on this machine, such as systemd-resolved."

static void dns(const struct place *place)
{
    struct arena *keep = place->doctor->keep;
    const struct url_scheme *scheme;
    slice host;
    (void)url_kind_of(place->doctor->config->kinds, slice_of(place->from->url), &scheme, &host);
    (void)url_cut_port(&host);
    const char *name = arena_copy(keep, host).ptr;
    double best = 0;
    int fault = 0;
    for (unsigned i = 0; i < TRIES && !fault && (!i || best < DNS_ONCE_MS); i++) {
        double ms = look_up(name, &fault);
        best = i ? MIN(best, ms) : ms;
    }
    struct finding *finding = doctor_add(
        place->doctor, place_name(place, "DNS"),
        fault ? slice_of(gai_strerror(fault)) : arena_printf(keep, "%.1f ms", best),
        arena_printf(keep, "below %g ms", DNS_SLOW_MS));
    if (fault)
        doctor_grade(finding, BROKEN, 2000,
                     arena_printf(keep, "The name of the origin, %s, can't be resolved. "
                                  DNS_ADVICE, name));
    else
        doctor_judge(finding, best, DNS_SLOW_MS,
                     S("Each new connection to the origin waits for DNS. " DNS_ADVICE));
}

/* Any answer has the time, also a refusal of this unsigned request. */
static int64_t origin_time(const struct place *place)
{
    struct web_reply reply = { 0 };
    slice why;
    struct web_ask ask = {
        .method = "GET", .url = slice_of(place->from->url), .time_ms = DOCTOR_CALL_MS / 2,
        .ca_file = *place->from->ca_file ? place->from->ca_file : NULL,
        .body_bytes_max = DOCTOR_BODY_BYTES,
    };
    enum err err = web_get(&ask, place->doctor->keep, &reply, &why);
    int64_t date_s = !err && reply.date.len ? http_date_read(reply.date) : 0;
    return MAX(date_s, 0);
}

/* ---- an object to read ---- */

struct found {
    slice bucket, key;
    uint64_t size;
    enum err err;                     /* why nothing was found, if the origin fails */
    int status;
};

/* Returns the first bucket of the settings whose objects come from this origin. */
static slice bucket_of_settings(const struct place *place)
{
    const struct config *config = place->doctor->config;
    for (size_t i = 0; i < config->bucket_count; i++)
        if (config->buckets[i].from == place->from && config->buckets[i].bucket.len)
            return config->buckets[i].bucket;
    return S("");
}

static slice bucket_of_list(slice body)
{
    slice open = S("<Bucket>"), name = S("<Name>");
    slice rest = slice_from(body, slice_find(body, open));
    if (!rest.len)
        return S("");
    rest = slice_from(rest, slice_find(rest, name) + name.len);
    return slice_cut(&rest, '<');
}

/* Takes the largest object of a page of the list. */
static void take_largest(struct doctor *doctor, slice body, struct found *found)
{
    struct listing listing;
    if (xml_read_listing(doctor->keep, body, &listing) != OK)
        return;
    for (size_t i = 0; i < listing.object_count; i++) {
        if (found->key.len && listing.objects[i].size <= found->size)
            continue;
        found->key = listing.objects[i].key;
        found->size = listing.objects[i].size;
    }
}

/* Makes a call whose answer is a small document. Returns the document, or an empty slice. */
static slice read_document(const struct place *place, enum s3_op op, slice bucket, slice query,
                           struct found *found)
{
    struct visit visit = {
        .call = { .op = op, .bucket = bucket, .query = query },
        .bytes_max = DOCTOR_BODY_BYTES, .body = arena_alloc(place->doctor->keep, DOCTOR_BODY_BYTES),
    };
    doctor_call(place, &visit);
    found->err = visit.err;
    found->status = visit.status;
    bool good = !visit.err && visit.status == 200;
    return good ? (slice){ visit.body, MIN(visit.bytes, DOCTOR_BODY_BYTES) } : S("");
}

static struct found find_object(const struct place *place)
{
    struct doctor *doctor = place->doctor;
    struct found found = { .bucket = doctor->object.bucket, .key = S("") };
    slice prefix = doctor->object.key;
    struct text query = text_in(doctor->keep);
    if (!found.bucket.len)
        found.bucket = bucket_of_settings(place);
    if (!found.bucket.len)
        found.bucket = arena_copy(doctor->keep, bucket_of_list(
            read_document(place, S3_LIST_BUCKETS, S(""), S(""), &found)));
    if (!found.bucket.len)
        return found;
    text_add(&query, S("list-type=2&max-keys=1000&prefix="));
    uri_encode(&query, prefix, true);
    slice page = read_document(place, S3_LIST_OBJECTS_V2, found.bucket, text_slice(&query), &found);
    take_largest(doctor, page, &found);
    return found;
}

/* ---- first byte and bandwidth ---- */

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Without an object, the answer to a HEAD of a key that does not exist takes as long. */
static void first_byte(const struct place *place, const struct found *found)
{
    double ms[TRIES];
    unsigned count = 0;
    for (unsigned i = 0; i < TRIES; i++) {
        struct visit visit = {
            .call = { .op = found->bucket.len ? S3_HEAD_OBJECT : S3_LIST_BUCKETS,
                      .bucket = found->bucket,
                      .key = !found->bucket.len ? S("") : found->key.len ? found->key
                                                                         : S("penstock-doctor") },
            .bytes_max = UINT64_MAX,
        };
        doctor_call(place, &visit);
        if (visit.status)
            ms[count++] = (double)visit.first_ns / 1e6;
    }
    if (!count)
        return;
    qsort(ms, count, sizeof(ms[0]), by_size);
    struct finding *finding = doctor_add(
        place->doctor, place_name(place, "origin first byte"),
        arena_printf(place->doctor->keep, "%.1f ms", ms[count / 2]),
        arena_printf(place->doctor->keep, "below %g ms", FIRST_SLOW_MS));
    doctor_judge(finding, ms[count / 2], FIRST_SLOW_MS,
                 S("Each read that is not cached waits so long before its first byte. Bring "
                   "objects before they are read (penstock warm, or a job of the mode follow), "
                   "read more of them at the same time, or use a nearer region of the origin."));
}

static slice not_measured(const struct place *place, const struct found *found)
{
    struct doctor *doctor = place->doctor;
    if (!doctor->fetch_bytes)
        return S("not measured (--fetch 0)");
    if (!found->bucket.len)
        return S("no bucket is known: use --object s3://BUCKET");
    if (doctor->object.key.len && found->key.len)
        return arena_printf(doctor->keep, "%.*s is too small (%.*s): --object needs one of at least "
                            "1 MiB", SLICE_ARG(show_s3(doctor->keep, found->bucket, found->key)),
                            SLICE_ARG(show_bytes(doctor->keep, found->size)));
    if (doctor->object.key.len)
        return arena_printf(doctor->keep, "%.*s was not found: --object needs an object of at least "
                            "1 MiB", SLICE_ARG(show_s3(doctor->keep, found->bucket,
                                                       doctor->object.key)));
    return arena_printf(doctor->keep, "no object of 1 MiB found in s3://%.*s: use --object",
                        SLICE_ARG(show_text(doctor->keep, found->bucket)));
}

static void bandwidth(const struct place *place, const struct found *found)
{
    struct doctor *doctor = place->doctor;
    struct arena *keep = doctor->keep;
    uint64_t most = MIN(doctor->fetch_bytes, found->size);
    slice name = place_name(place, "origin bandwidth");
    struct http_field range = { S("range"), arena_printf(keep, "bytes=0-%" PRIu64,
                                                         MAX(most, 1) - 1) };
    struct visit visit = {
        .call = { .op = S3_GET_OBJECT, .bucket = found->bucket, .key = found->key,
                  .fields = &range, .field_count = 1 },
        .bytes_max = most,
    };
    if (most >= LEAST_BYTES)
        doctor_call(place, &visit);
    if (visit.status / 100 != 2 || visit.bytes < LEAST_BYTES / 4) {
        doctor_add(doctor, name, not_measured(place, found), S(""))->grade = UNKNOWN;
        return;
    }
    double rate = (double)visit.bytes * 1e3 / (double)MAX(visit.last_ns - visit.head_ns, 1);
    struct finding *finding = doctor_add(
        doctor, name, arena_printf(keep, "%.1f MB/s a connection (fetched %.*s of %.*s)", rate,
                                   SLICE_ARG(show_bytes(keep, visit.bytes)),
                                   SLICE_ARG(show_s3(keep, found->bucket, found->key))),
        arena_printf(keep, "over %g MB/s", RATE_SLOW));
    doctor_judge(finding, RATE_SLOW, rate,
                 S("Reads that are not cached can't be faster than the origin sends. Bring objects "
                   "before they are read (penstock warm), look at the network between this machine "
                   "and the origin, and at the origin's limits."));
}

/* ---- one origin ---- */

static slice why_failed(const struct place *place, const struct found *found)
{
    struct origin_health health;
    origin_health(place->origin, place->doctor->keep, &health);
    return health.why.len ? health.why : slice_of(err_text(found->err));
}

static void measure(const struct place *place)
{
    struct doctor *doctor = place->doctor;
    struct found found = find_object(place);
    if (found.err && !found.status) {
        slice why = why_failed(place, &found);
        doctor_grade(doctor_add(doctor, place_name(place, "origin"), why, S("answers")), BROKEN,
                     500, arena_printf(doctor->keep, "Nothing that is not cached can be read: "
                                       "%.*s. penstock check says more of it.",
                                       SLICE_ARG(why)));
        return;
    }
    first_byte(place, &found);
    bandwidth(place, &found);
}

/* Opens the origin as serve does, but with one try a call and shorter limits. */
static void visit_origin(struct doctor *doctor, struct origins *origins,
                         const struct config_origin *from)
{
    static const struct sigv4_credentials nobody = { { "", 0 }, { "", 0 }, { "", 0 } };
    struct origin_options options = rules_origin_options(doctor->config, from);
    struct credentials own;
    struct place place = { .doctor = doctor, .from = from, .name = S("") };
    slice why;
    if (doctor->config->origin_count > 1)
        place.name = arena_printf(doctor->keep, " %s", from->name);
    if (from->kind->schemes[0].port)
        dns(&place);
    bool lacks = credentials_at_origin(from, false, doctor->keep, &own, &why) == ERR_NOT_FOUND;
    place.as = lacks && options.keys_optional ? &nobody : NULL;
    options.connect_ms = MIN(options.connect_ms, DOCTOR_CALL_MS / 2);
    options.progress_ms = options.answer_ms = options.total_ms = DOCTOR_CALL_MS;
    options.tries_max = 1;
    options.hedges = false;
    if (origins_add(origins, &options, doctor->keep, &place.origin, &why))
        doctor_grade(doctor_add(doctor, place_name(&place, "origin"), why, S("answers")), BROKEN,
                     500, arena_printf(doctor->keep, "The origin can't be used: %.*s. penstock "
                                       "check says more of it.", SLICE_ARG(why)));
    else
        measure(&place);
}

void doctor_origins(struct doctor *doctor)
{
    const struct config *config = doctor->config;
    struct origins *origins = origins_new(1);
    int64_t time_s = 0;
    size_t count = doctor->offline ? 0 : MIN(config->origin_count, ORIGINS_MAX);
    for (size_t i = 0; i < count; i++) {
        const struct config_origin *from = &config->origins[i];
        struct place place = { .doctor = doctor, .from = from, .name = S("") };
        if (!time_s && from->kind->schemes[0].port)
            time_s = origin_time(&place);
        visit_origin(doctor, origins, from);
    }
    doctor_clock(doctor, time_s);
    origins_free(&origins);
}
