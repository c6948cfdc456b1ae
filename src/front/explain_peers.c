/* explain_peers.c - which other nodes a get would ask for the bytes of an object.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A segment (8 MiB) has an owner, and a node that is second in rank. They depend on the name of the
 * object and on the nodes that answer, so they are known without the object. Without the size, only
 * the segment at the beginning of the range is named. Threads: the loop. */
#include <jansson.h>

#include "front/explaining.h"
#include "s3/encode.h"

#define SEGMENTS_MAX 64u              /* rows of an answer */
#define RANKS 2u                      /* the nodes that are asked before the origin */

struct segment {
    uint64_t first, end;              /* the wanted bytes of the segment */
    bool cached;                      /* all of them are */
    struct peer_rank ranks[RANKS];
    size_t count;
};

static json_t *name_of(const struct peer_rank *rank)
{
    return rank->address.len ? json_stringn(rank->address.ptr, rank->address.len)
                             : json_string("this node");
}

static json_t *id_of(const struct peer_rank *rank)
{
    char id[2 * NODE_ID_BYTES];
    hex_write(rank->id, NODE_ID_BYTES, id);
    return json_stringn(id, sizeof(id));
}

static void add_row(json_t *rows, const struct segment *segment)
{
    static const char *const names[] = { "owner", "second" };
    static const char *const ids[] = { "owner_node", "second_node" };
    json_t *row = json_pack("{sI sI sb}", "first", (json_int_t)segment->first, "end",
                            (json_int_t)segment->end, "cached", segment->cached);
    for (size_t i = 0; i < segment->count; i++) {
        json_object_set_new(row, names[i], name_of(&segment->ranks[i]));
        json_object_set_new(row, ids[i], id_of(&segment->ranks[i]));
    }
    json_array_append_new(rows, row);
}

static bool is_cached(struct store *store, const struct metadata *metadata, uint64_t first,
                      uint64_t end)
{
    uint64_t unit = first / UNIT_BYTES, count = (end - 1) / UNIT_BYTES - unit + 1;
    return metadata && metadata->size <= STORE_OBJECT_BYTES_MAX &&
           store_has_units(store, metadata, unit, count, RECORDS_ALL) == count;
}

/* The bytes of the range; of an object whose size is not known, the first one of the range. */
static void find_range(const struct get_forecast *forecast, const struct s3_range *range,
                       const struct explain_bytes *bytes, uint64_t *ret_first, uint64_t *ret_end)
{
    *ret_first = bytes->first;
    *ret_end = bytes->end;
    if (forecast->metadata)
        return;
    *ret_first = range->kind == RANGE_SPAN ? range->first : 0;
    *ret_end = *ret_first + (range->kind != RANGE_SUFFIX);
}

/* The segments of the range, and what is missing of them. */
struct segments {
    json_t *rows;
    bool more;                        /* there are further ones */
    bool elsewhere;                   /* another node owns one of which bytes are missing */
};

static struct segments find_segments(struct call *call, const struct get_forecast *forecast,
                                     uint64_t first, uint64_t end)
{
    struct segments found = { .rows = json_array() };
    struct store *store = cache_store(call->front->options.cache);
    struct rank_place place = { origin_endpoint(call->rules->origin), call->s3.bucket, call->s3.key,
                                S(""), 0 };
    for (uint64_t at = first, next; at < end && !found.more; at = next) {
        next = MIN(peers_segment_end(at), end);
        struct segment segment = { .first = at, .end = next,
                                   .cached = is_cached(store, forecast->metadata, at, next) };
        place.segment = at / PEERS_SEGMENT_BYTES;
        segment.count = peers_rank(forecast->peers, &place, call->keep, segment.ranks, RANKS);
        found.elsewhere |= !segment.cached && segment.ranks[0].address.len;
        add_row(found.rows, &segment);
        found.more = next < end && json_array_size(found.rows) == SEGMENTS_MAX;
    }
    return found;
}

/* Returns NULL if other nodes would be asked, otherwise why not. */
static const char *why_not(const struct get_forecast *forecast, const struct explain_bytes *bytes,
                           const struct segments *segments)
{
    if (forecast->why_no_peers)
        return forecast->why_no_peers;
    if (forecast->metadata && bytes->cached == bytes->end - bytes->first)
        return "all wanted bytes are cached";
    return segments->elsewhere || segments->more
               ? NULL : "this node is the owner of the bytes that are missing, so it asks the origin";
}

void explain_peers(json_t *to, struct call *call, const struct get_forecast *forecast,
                   const struct s3_range *range, const struct explain_bytes *bytes)
{
    uint64_t first, end;
    if (!forecast->peers)
        return;
    find_range(forecast, range, bytes, &first, &end);
    struct segments segments = find_segments(call, forecast, first, end);
    const char *why = why_not(forecast, bytes, &segments);
    json_object_set_new(to, "peers", json_pack("{sb ss so}", "asked", !why, "why",
        why ? why : "the owner has the bytes that are missing here, or fetches them",
        "segments", segments.rows));
    if (segments.more)
        json_object_set_new(json_object_get(to, "peers"), "more_segments", json_true());
}
