/* metric_bucket.c - counters by bucket, with a bound on the number of labels.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The names are in a hash table whose chains only grow, so a look-up needs no lock. Each thread
 * counts in a table of its own, with a row for each of METRIC_BUCKETS_MAX buckets. The kernel gives
 * a page of the table only at its first use, so most rows take no memory. */
#include "base/metric_bucket.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc.h"
#include "base/list.h"

#define CHAINS 4096u
#define OTHER "other"                 /* a bucket with this name has no label of its own */

struct name {
    _Atomic(struct name *) next;
    uint32_t number;
    slice text;
};

struct row {
    _Atomic uint64_t counts[BUCKET_COUNTERS];
};

struct slots {
    struct list link;
    struct row *rows;
};

/* The figures of one bucket on /metrics. */
struct label {
    bool given;
    uint64_t in_other[BUCKET_COUNTERS];    /* the part of the counts that "other" has */
};

/* Guards all that follows but `once` and `mine`. Two exceptions: a look-up reads the chains without
 * it, and a thread counts in its own rows without it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct list threads = { &threads, &threads };
static struct row *gone;              /* the counts of threads that ended */
static _Atomic(struct name *) chains[CHAINS];
static struct name *names[METRIC_BUCKETS_MAX];    /* by number; names[0] is NULL */
static uint32_t name_count = 1;
static struct label *labels;
static uint32_t label_count;
static pthread_key_t at_thread_end;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Thread_local struct slots *mine;

/* ---- names ---- */

static struct name *find(_Atomic(struct name *) *chain, slice text)
{
    struct name *name = atomic_load_explicit(chain, memory_order_acquire);
    while (name && !slice_eq(name->text, text))
        name = atomic_load_explicit(&name->next, memory_order_relaxed);
    return name;
}

static uint32_t add(_Atomic(struct name *) *chain, slice text)
{
    pthread_mutex_lock(&lock);
    struct name *name = find(chain, text);
    if (!name && name_count < METRIC_BUCKETS_MAX) {
        name = must_alloc(sizeof(*name));
        name->text = (slice){ must_strndup(text.ptr, text.len), text.len };
        name->number = name_count++;
        names[name->number] = name;
        atomic_init(&name->next, atomic_load_explicit(chain, memory_order_relaxed));
        atomic_store_explicit(chain, name, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
    return name ? name->number : 0;
}

uint32_t metric_bucket(slice name)
{
    _Atomic(struct name *) *chain = &chains[crc32c(0, name.ptr, name.len) % CHAINS];
    const struct name *found = find(chain, name);
    if (slice_eq(name, S(OTHER)))
        return 0;
    return found ? found->number : add(chain, name);
}

/* ---- counts ---- */

static uint64_t get(const _Atomic uint64_t *cell)
{
    return atomic_load_explicit(cell, memory_order_relaxed);
}

/* Call this function only for a cell with one writer: the thread that owns the slots, or the holder
 * of the lock. */
static void put(_Atomic uint64_t *cell, uint64_t by)
{
    atomic_store_explicit(cell, get(cell) + by, memory_order_relaxed);
}

static void thread_ends(void *arg)
{
    struct slots *slots = arg;
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < name_count; i++)
        for (size_t k = 0; k < BUCKET_COUNTERS; k++)
            put(&gone[i].counts[k], get(&slots->rows[i].counts[k]));
    list_del(&slots->link);
    pthread_mutex_unlock(&lock);
    /* if another destructor of this thread counts later, the thread gets new slots, and this
     * function runs again for them */
    mine = NULL;
    free(slots->rows);
    free(slots);
}

static void begin(void)
{
    check(pthread_key_create(&at_thread_end, thread_ends) == 0);
    gone = must_alloc(METRIC_BUCKETS_MAX * sizeof(*gone));
    labels = must_alloc(METRIC_BUCKETS_MAX * sizeof(*labels));
}

static struct slots *my_slots(void)
{
    if (mine)
        return mine;
    pthread_once(&once, begin);
    mine = must_alloc(sizeof(*mine));
    mine->rows = must_alloc(METRIC_BUCKETS_MAX * sizeof(*mine->rows));
    pthread_mutex_lock(&lock);
    list_add(&threads, &mine->link);
    pthread_mutex_unlock(&lock);
    pthread_setspecific(at_thread_end, mine);
    return mine;
}

void metric_bucket_add(uint32_t number, enum bucket_counter counter, uint64_t by)
{
    check(number < METRIC_BUCKETS_MAX && counter < BUCKET_COUNTERS);
    put(&my_slots()->rows[number].counts[counter], by);
}

static void sum(uint32_t number, uint64_t ret[BUCKET_COUNTERS])
{
    for (size_t k = 0; k < BUCKET_COUNTERS; k++)
        ret[k] = get(&gone[number].counts[k]);
    list_each(struct slots, slots, &threads, link)
        for (size_t k = 0; k < BUCKET_COUNTERS; k++)
            ret[k] += get(&slots->rows[number].counts[k]);
}

/* ---- labels ---- */

struct bucket {
    uint32_t number;
    uint64_t size;                    /* by which buckets are compared */
    uint64_t counts[BUCKET_COUNTERS];
};

static int larger_first(const void *a, const void *b)
{
    const struct bucket *left = a, *right = b;
    if (left->size != right->size)
        return left->size < right->size ? 1 : -1;
    return (left->number > right->number) - (left->number < right->number);
}

/* Returns the smallest bucket that has a label. The list is sorted, the largest bucket first. */
static struct bucket *smallest(struct bucket *buckets, uint32_t count)
{
    struct bucket *found = NULL;
    for (uint32_t i = 0; i < count; i++)
        if (labels[buckets[i].number].given)
            found = &buckets[i];
    return found;
}

/* Gives labels to buckets that are large enough. The list is sorted, the largest bucket first. */
static void choose_labels(struct bucket *buckets, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct label *label = &labels[buckets[i].number];
        struct bucket *least = label_count < METRIC_BUCKET_LABELS ? NULL
                                                                  : smallest(buckets, count);
        if (label->given)
            continue;
        if (least && buckets[i].size <= 2 * least->size)
            break;
        if (least)
            labels[least->number].given = false;
        else
            label_count++;
        label->given = true;
    }
}

struct families {
    struct metric_sample *samples[BUCKET_COUNTERS + 2];    /* the counters, then bytes, objects */
    size_t count;
    uint64_t other[BUCKET_COUNTERS + 2];
};

static void add_sample(struct families *families, const struct bucket *bucket,
                       const struct bucket_holds *holds)
{
    struct label *label = &labels[bucket->number];
    const uint64_t now[] = { holds->bytes, holds->objects };
    for (size_t k = 0; k < BUCKET_COUNTERS; k++) {
        if (!label->given)
            label->in_other[k] = bucket->counts[k];
        families->other[k] += label->in_other[k];
        if (label->given)
            families->samples[k][families->count] = (struct metric_sample){
                names[bucket->number]->text, bucket->counts[k] - label->in_other[k] };
    }
    for (size_t k = 0; k < countof(now); k++) {
        if (label->given)
            families->samples[BUCKET_COUNTERS + k][families->count] = (struct metric_sample){
                names[bucket->number]->text, now[k] };
        else
            families->other[BUCKET_COUNTERS + k] += now[k];
    }
    families->count += label->given;
}

/* Fills `ret` with all buckets but bucket 0, the largest first, and returns their number. The
 * caller holds the lock. */
static uint32_t gather(struct bucket *ret, const struct bucket_holds *holds)
{
    for (uint32_t i = 1; i < name_count; i++) {
        struct bucket *bucket = &ret[i - 1];
        bucket->number = i;
        sum(i, bucket->counts);
        bucket->size = bucket->counts[BUCKET_BYTES] + holds[i].bytes;
    }
    qsort(ret, name_count - 1, sizeof(*ret), larger_first);
    return name_count - 1;
}

void metric_buckets_expose(struct text *to, const struct bucket_holds *holds)
{
    static const enum metric_family families_of[] = {
        F_BUCKET_READS, F_BUCKET_HITS, F_BUCKET_BYTES, F_BUCKET_CACHE_BYTES, F_BUCKET_PEERS_BYTES,
        F_BUCKET_EVICTED, F_BUCKET_CACHED, F_BUCKET_OBJECTS,
    };
    struct families families = { .count = 0 };
    pthread_once(&once, begin);
    for (size_t k = 0; k < countof(families_of); k++)
        families.samples[k] = arena_alloc(to->arena, (METRIC_BUCKET_LABELS + 1) *
                                                         sizeof(*families.samples[k]));
    pthread_mutex_lock(&lock);
    struct bucket *buckets = arena_alloc(to->arena, name_count * sizeof(*buckets));
    uint32_t count = gather(buckets, holds);
    choose_labels(buckets, count);
    sum(0, families.other);
    families.other[BUCKET_COUNTERS] = holds[0].bytes;
    families.other[BUCKET_COUNTERS + 1] = holds[0].objects;
    for (uint32_t i = 0; i < count; i++)
        add_sample(&families, &buckets[i], &holds[buckets[i].number]);
    pthread_mutex_unlock(&lock);
    for (size_t k = 0; k < countof(families_of); k++) {
        families.samples[k][families.count] = (struct metric_sample){ S(OTHER),
                                                                      families.other[k] };
        metric_expose_family(to, families_of[k], families.samples[k], families.count + 1);
    }
}
