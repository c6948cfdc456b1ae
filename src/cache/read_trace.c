/* read_trace.c - the latest reads of clients, for follow jobs. SPDX-License-Identifier: Apache-2.0
 *
 * A ring of hashes. A writer takes the next place, and then writes its hash there. So a place
 * that the taker comes to may still be empty (0): the taker stops before it, and goes on the
 * next time. If the writers are a whole ring ahead of the taker, they overwrite the oldest
 * reads; the taker may then take a hash that was written for the next round, and finds that
 * place empty in that round. So it does not wait for an empty place when LATE_MAX reads were
 * added after it. A place has one hash and nothing else, so no order between the threads is
 * needed. */
#include "cache/read_trace.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "store/hash.h"

#define PLACES 65536u    /* H8 */
#define LATE_MAX 1024u

/* The places are between `watchers`, which each get reads, and `head`, which each read changes: so
 * the two are in different cache lines. */
struct read_trace {
    uint8_t secret[STORE_SECRET_BYTES];
    atomic_uint watchers;
    _Atomic uint64_t places[PLACES];    /* 0: empty */
    _Atomic uint64_t head;              /* number of reads that were added */
    uint64_t tail;                      /* number of reads that were taken, or lost */
};

struct read_trace *read_trace_new(void)
{
    struct read_trace *trace = must_alloc(sizeof(*trace));
    secret_make(trace->secret);
    return trace;
}

void read_trace_free(struct read_trace **trace)
{
    free(*trace);
    *trace = NULL;
}

/* The hash is that of object ids, which is keyed: a client can't make names that share a hash. */
uint64_t read_trace_hash(const struct read_trace *trace, slice reader, slice bucket, slice key,
                         uint64_t first)
{
    const struct object_name name = { reader, bucket, key, { (char *)&first, sizeof(first) } };
    struct object_id id;
    uint64_t hash;
    object_id_of(trace->secret, &name, &id);
    memcpy(&hash, id.bytes, sizeof(hash));
    return hash ? hash : 1;
}

void read_trace_watch(struct read_trace *trace, bool begins)
{
    unsigned before = begins ? atomic_fetch_add(&trace->watchers, 1)
                             : atomic_fetch_sub(&trace->watchers, 1);
    check(begins || before > 0);
}

bool read_trace_is_watched(const struct read_trace *trace)
{
    return atomic_load_explicit(&trace->watchers, memory_order_relaxed) != 0;
}

void read_trace_add(struct read_trace *trace, uint64_t hash)
{
    uint64_t at = atomic_fetch_add_explicit(&trace->head, 1, memory_order_relaxed);
    check(hash != 0);
    atomic_store_explicit(&trace->places[at % PLACES], hash, memory_order_relaxed);
}

uint64_t read_trace_head(const struct read_trace *trace)
{
    return atomic_load_explicit(&trace->head, memory_order_relaxed);
}

size_t read_trace_take(struct read_trace *trace, uint64_t until, uint64_t *ret, size_t max)
{
    uint64_t head = read_trace_head(trace);
    size_t count = 0;
    check(until <= head);
    if (head - trace->tail > PLACES)
        trace->tail = head - PLACES;
    for (; trace->tail < until && count < max; trace->tail++) {
        uint64_t hash = atomic_exchange_explicit(&trace->places[trace->tail % PLACES], 0,
                                                 memory_order_relaxed);
        if (!hash && head - trace->tail <= LATE_MAX)
            break;
        if (hash)
            ret[count++] = hash;
    }
    return count;
}
