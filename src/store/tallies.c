/* tallies.c - what the cache holds of each bucket, and of each prefix with limits of its own.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The rows lie in one array, of which the kernel gives the pages at their first use. A row's name
 * and chain change under the lock; its sums are atomic, so they are read without it. */
#include "store/tallies.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "store/hash.h"

#define CHAINS 4096u

struct sum {
    _Atomic int64_t bytes, records, objects;
    _Atomic int64_t away;             /* bytes of folders that are out of service; for quotas */
    /* For the volume's recycler: the slice and the change of the tally at the begin of its present
     * look at all records, and of the latest one that has ended. */
    uint64_t begun_slice;
    uint32_t begun_change;
    _Atomic uint64_t seen_slice;
    atomic_uint seen_change;
};

struct tally {
    uint64_t bucket;                  /* its hash */
    slice prefix;                     /* empty: the bucket, or its part outside of all prefixes */
    slice name;                       /* of the bucket; empty: not known yet */
    uint32_t next;                    /* in its chain; 0: the last one */
    bool split;                       /* the bucket is split at prefixes */
    _Atomic uint32_t label;           /* metric_bucket() of the name */
    struct sum sum;                   /* of all volumes */
    _Atomic uint64_t quota;           /* UINT64_MAX: none */
    _Atomic uint64_t coming;          /* bytes on their way to the store */
    _Atomic uint64_t expire_ms;       /* 0: never */
    atomic_uint expire_change;        /* rises when expire_ms changes */
    _Atomic uint64_t slice;           /* the present one, since the clock began */
};

/* Whether the records of a volume are counted. COUNTED + n: by layout n. */
enum { OUT_OF_SERVICE, COUNTING, COUNTED };

struct tallies {
    pthread_mutex_t lock;             /* guards chains, count, names in the rows; changes of counted */
    const uint8_t *secret;
    struct tally *rows;
    _Atomic uint32_t count;           /* of rows, with row 0 */
    uint32_t chains[CHAINS];
    struct limits limits;
    atomic_uint layout;
    atomic_bool any_expire;
    atomic_uint turn;
    _Atomic(struct sum *) sums[VOLUMES_MAX];
    _Atomic uint64_t counted[VOLUMES_MAX];
    atomic_bool hangs[VOLUMES_MAX];
};

struct tallies *tallies_new(const uint8_t *secret)
{
    struct tallies *all = must_alloc(sizeof(*all));
    pthread_mutex_init(&all->lock, NULL);
    all->secret = secret;
    all->rows = must_alloc(TALLIES_MAX * sizeof(*all->rows));
    atomic_init(&all->count, 1);
    atomic_init(&all->rows[0].quota, UINT64_MAX);
    return all;
}

void tallies_free(struct tallies **all)
{
    struct tallies *mine = *all;
    *all = NULL;
    if (!mine)
        return;
    for (uint32_t i = 1; i < mine->count; i++) {
        free((char *)(uintptr_t)mine->rows[i].prefix.ptr);
        free((char *)(uintptr_t)mine->rows[i].name.ptr);
    }
    for (size_t i = 0; i < VOLUMES_MAX; i++)
        free(atomic_load(&mine->sums[i]));
    limits_end(&mine->limits);
    free(mine->rows);
    pthread_mutex_destroy(&mine->lock);
    free(mine);
}

/* ---- rows, under the lock ---- */

static void apply_limits(struct tallies *all, struct tally *row)
{
    const struct store_limits *limits =
        row->name.len ? limits_row(&all->limits, row->name, row->prefix) : NULL;
    row->split = row->name.len && limits_split(&all->limits, row->name);
    atomic_store(&row->quota, limits && limits->quota_bytes ? limits->quota_bytes : UINT64_MAX);
    uint64_t expire_ms = limits ? limits->expire_ms : 0;
    if (atomic_load(&row->expire_ms) == expire_ms)
        return;
    atomic_fetch_add(&row->expire_change, 1);    /* a pass that sees the new slices knows why */
    atomic_store(&row->expire_ms, expire_ms);
    atomic_fetch_add(&row->expire_change, 1);    /* and one that began in between begins anew */
}

static void learn_name(struct tallies *all, struct tally *row, slice name)
{
    if (row->name.len || !name.len)
        return;
    row->name = (slice){ must_strndup(name.ptr, name.len), name.len };
    apply_limits(all, row);
    atomic_store(&row->label, metric_bucket(name));
}

/* `name` is that of the bucket, if it is known: the last numbers are for buckets with limits. */
static uint32_t add(struct tallies *all, uint64_t bucket, slice name, slice prefix)
{
    uint32_t number = atomic_load(&all->count), *chain = &all->chains[bucket % CHAINS];
    if (number >= TALLIES_MAX ||
        (number >= TALLIES_MAX - TALLIES_KEPT && !limits_count(&all->limits, name)))
        return 0;
    struct tally *row = &all->rows[number];
    row->bucket = bucket;
    row->prefix = (slice){ must_strndup(prefix.ptr, prefix.len), prefix.len };
    row->next = *chain;
    atomic_store(&row->quota, UINT64_MAX);
    *chain = number;
    atomic_store(&all->count, number + 1);
    return number;
}

static uint32_t find(struct tallies *all, uint64_t bucket, slice name, slice prefix)
{
    uint32_t number = all->chains[bucket % CHAINS];
    while (number && (all->rows[number].bucket != bucket ||
                      !slice_eq(all->rows[number].prefix, prefix)))
        number = all->rows[number].next;
    return number ? number : add(all, bucket, name, prefix);
}

void tallies_set_limits(struct tallies *all, const struct store_limits *rows, size_t count)
{
    struct limits fresh, old;
    limits_set(&fresh, rows, count);
    pthread_mutex_lock(&all->lock);
    old = all->limits;
    all->limits = fresh;
    for (uint32_t i = 1; i < atomic_load(&all->count); i++)
        apply_limits(all, &all->rows[i]);
    atomic_store(&all->any_expire, limits_any_expire(&fresh));
    if (!limits_same_split(&old, &fresh))
        atomic_fetch_add(&all->layout, 1);
    pthread_mutex_unlock(&all->lock);
    limits_end(&old);
}

/* Cuts metadata->name into its parts. Returns the bucket. */
static slice cut_name(slice name, slice *ret_key)
{
    (void)slice_cut(&name, '\0');
    slice bucket = slice_cut(&name, '\0');
    *ret_key = slice_cut(&name, '\0');
    return bucket;
}

struct store_limits tallies_limits(struct tallies *all, slice name)
{
    slice key, bucket = cut_name(name, &key);
    struct store_limits limits = { .admission = ADMISSION_HOT };
    pthread_mutex_lock(&all->lock);
    const struct store_limits *row = limits_find(&all->limits, bucket, key);
    if (row)
        limits = *row;
    pthread_mutex_unlock(&all->lock);
    limits.bucket = limits.prefix = S("");
    return limits;
}

uint16_t tallies_of_name(struct tallies *all, slice name)
{
    uint64_t hash = bucket_hash_of(all->secret, name);
    slice key, bucket = cut_name(name, &key);
    if (!bucket.len)
        return 0;
    pthread_mutex_lock(&all->lock);
    uint32_t number = find(all, hash, bucket, S(""));
    learn_name(all, &all->rows[number], number ? bucket : S(""));
    if (all->rows[number].split) {
        const struct store_limits *row = limits_find(&all->limits, bucket, key);
        number = find(all, hash, bucket, row ? row->prefix : S(""));
        learn_name(all, &all->rows[number], number ? bucket : S(""));
    }
    pthread_mutex_unlock(&all->lock);
    return (uint16_t)number;
}

bool tallies_of_bucket(struct tallies *all, uint64_t bucket, uint16_t *ret)
{
    *ret = 0;
    if (!bucket)
        return true;
    pthread_mutex_lock(&all->lock);
    uint32_t number = find(all, bucket, S(""), S(""));
    const struct tally *row = &all->rows[number];
    bool known = row->name.len ? !row->split : !limits_any_split(&all->limits);
    if (!number)    /* the name decides whether the bucket gets one of the kept numbers */
        known = !limits_any_count(&all->limits);
    pthread_mutex_unlock(&all->lock);
    *ret = (uint16_t)number;
    return known;
}

uint32_t tallies_layout(const struct tallies *all)
{
    return atomic_load(&all->layout);
}

/* ---- sums ---- */

/* The sums of a volume. Only its committer makes them. */
static struct sum *sums_of(struct tallies *all, uint32_t volume)
{
    struct sum *sums = atomic_load(&all->sums[volume]);
    if (!sums) {
        sums = must_alloc(TALLIES_MAX * sizeof(*sums));
        atomic_store(&all->sums[volume], sums);
    }
    return sums;
}

static void add_to(struct sum *sum, const struct tally_change *change)
{
    atomic_fetch_add(&sum->bytes, change->bytes);
    atomic_fetch_add(&sum->records, change->records);
    atomic_fetch_add(&sum->objects, change->objects);
}

static struct tally_change read(const struct sum *sum, uint16_t tally)
{
    return (struct tally_change){ .tally = tally, .bytes = atomic_load(&sum->bytes),
                                  .records = (int32_t)atomic_load(&sum->records),
                                  .objects = (int32_t)atomic_load(&sum->objects) };
}

void tallies_add(struct tallies *all, uint32_t volume, const struct tally_change *change)
{
    check(volume < VOLUMES_MAX && change->tally < TALLIES_MAX);
    add_to(&sums_of(all, volume)[change->tally], change);
    add_to(&all->rows[change->tally].sum, change);
}

/* True if the rows have the volume's `away`: its folder is out of service, or hangs while it is
 * counted. */
static bool has_away(const struct tallies *all, uint32_t volume)
{
    uint64_t counted = atomic_load(&all->counted[volume]);
    return counted == OUT_OF_SERVICE || (counted == COUNTING && atomic_load(&all->hangs[volume]));
}

/* Adds the volume's `away` to the rows, or takes it from them. */
static void move_away(struct tallies *all, uint32_t volume, int64_t sign)
{
    const struct sum *sums = atomic_load(&all->sums[volume]);
    uint32_t count = atomic_load(&all->count);
    for (uint32_t i = 0; sums && i < count; i++)
        atomic_fetch_add(&all->rows[i].sum.away, sign * atomic_load(&sums[i].away));
}

/* Under the lock. A reader that finds all sums complete sees the bytes of `away` in them. */
static void set_state(struct tallies *all, uint32_t volume, uint64_t counted, bool hangs)
{
    bool had = has_away(all, volume);
    bool has = counted == OUT_OF_SERVICE || (counted == COUNTING && hangs);
    if (has && !had)
        move_away(all, volume, 1);
    atomic_store(&all->counted[volume], counted);
    atomic_store(&all->hangs[volume], hangs);
    if (had && !has)
        move_away(all, volume, -1);
}

/* The volume keeps its `away`, in case that its folder goes out of service again before all is
 * counted. */
void tallies_begin(struct tallies *all, uint32_t volume)
{
    pthread_mutex_lock(&all->lock);
    check(atomic_load(&all->counted[volume]) == OUT_OF_SERVICE);
    set_state(all, volume, COUNTING, false);
    pthread_mutex_unlock(&all->lock);
}

void tallies_counted(struct tallies *all, uint32_t volume, uint32_t layout)
{
    pthread_mutex_lock(&all->lock);
    check(atomic_load(&all->counted[volume]) != OUT_OF_SERVICE);
    set_state(all, volume, COUNTED + (uint64_t)layout, atomic_load(&all->hangs[volume]));
    pthread_mutex_unlock(&all->lock);
}

/* Under the lock. The rows get the new `away` before the old one and the volume's sums leave them. */
static void keep_away(struct tallies *all, uint32_t volume)
{
    struct sum *sums = atomic_load(&all->sums[volume]);
    uint32_t count = atomic_load(&all->count);
    uint64_t was = atomic_load(&all->counted[volume]);
    bool had = has_away(all, volume);
    for (uint32_t i = 0; sums && i < count; i++) {
        struct tally_change has = read(&sums[i], (uint16_t)i);
        int64_t old = atomic_load(&sums[i].away);
        int64_t away = MAX(has.bytes, was == COUNTING ? old : 0);
        atomic_store(&sums[i].away, away);
        atomic_fetch_add(&all->rows[i].sum.away, away - (had ? old : 0));
        has = (struct tally_change){ has.tally, -has.records, -has.objects, -has.bytes };
        tallies_add(all, volume, &has);
    }
    atomic_store(&all->counted[volume], OUT_OF_SERVICE);
}

void tallies_leave(struct tallies *all, uint32_t volume)
{
    pthread_mutex_lock(&all->lock);
    if (atomic_load(&all->counted[volume]) != OUT_OF_SERVICE)
        keep_away(all, volume);
    pthread_mutex_unlock(&all->lock);
}

void tallies_set_hanging(struct tallies *all, uint32_t volume, bool hangs)
{
    if (atomic_load(&all->hangs[volume]) == hangs)
        return;
    pthread_mutex_lock(&all->lock);
    set_state(all, volume, atomic_load(&all->counted[volume]), hangs);
    pthread_mutex_unlock(&all->lock);
}

bool tallies_are_counted(const struct tallies *all)
{
    uint64_t whole = COUNTED + (uint64_t)atomic_load(&all->layout);
    for (uint32_t i = 0; i < VOLUMES_MAX; i++) {
        uint64_t is = atomic_load(&all->counted[i]);
        if (is != OUT_OF_SERVICE && is != whole && !atomic_load(&all->hangs[i]))
            return false;
    }
    return true;
}

void tallies_evicted(struct tallies *all, uint16_t tally, uint64_t bytes)
{
    metric_bucket_add(atomic_load(&all->rows[tally].label), BUCKET_EVICTED_BYTES, bytes);
}

struct tally_change tallies_sum(struct tallies *all, uint16_t tally)
{
    return read(&all->rows[tally].sum, tally);
}

struct tally_change tallies_sum_in(struct tallies *all, uint16_t tally, uint32_t volume)
{
    const struct sum *sums = atomic_load(&all->sums[volume]);
    return sums ? read(&sums[tally], tally) : (struct tally_change){ .tally = tally };
}

/* ---- quotas ---- */

/* Returns the bytes of a tally, with those that are coming and those of folders that are out of
 * service. While bytes are committed, or their folder goes out of service, they count twice. */
static uint64_t bytes_of(const struct tally *row)
{
    int64_t here = atomic_load(&row->sum.bytes) + atomic_load(&row->sum.away);
    return (uint64_t)MAX(here, 0) + atomic_load(&row->coming);
}

static bool fits(const struct tally *row, uint64_t bytes)
{
    uint64_t quota = atomic_load(&row->quota);
    return quota == UINT64_MAX || bytes_of(row) + bytes <= quota;
}

/* A volume may begin or end to count while the sum is read. So this asks before and after. */
bool tallies_has_room(const struct tallies *all, uint16_t tally, uint64_t bytes)
{
    const struct tally *row = &all->rows[tally];
    if (atomic_load(&row->quota) == UINT64_MAX)
        return true;
    return tallies_are_counted(all) && fits(row, bytes) && tallies_are_counted(all);
}

bool tallies_take(struct tallies *all, uint16_t tally, uint64_t bytes)
{
    struct tally *row = &all->rows[tally];
    atomic_fetch_add(&row->coming, bytes);
    if (!bytes || tallies_has_room(all, tally, 0))
        return true;
    atomic_fetch_sub(&row->coming, bytes);
    return false;
}

void tallies_give(struct tallies *all, uint16_t tally, uint64_t bytes)
{
    check(atomic_fetch_sub(&all->rows[tally].coming, bytes) >= bytes);
}

bool tallies_is_full(const struct tallies *all, uint16_t tally)
{
    return !fits(&all->rows[tally], RECORD_BYTES_MAX);
}

bool tallies_any_full(const struct tallies *all)
{
    uint32_t count = atomic_load(&all->count);
    for (uint32_t i = 1; i < count; i++)
        if (tallies_is_full(all, (uint16_t)i))
            return true;
    return false;
}

/* ---- expiry ---- */

static uint8_t number_of(uint64_t since)
{
    return (uint8_t)(1 + since % EXPIRE_NUMBERS);
}

bool tallies_any_expire(const struct tallies *all)
{
    return atomic_load_explicit(&all->any_expire, memory_order_relaxed);
}

uint8_t tallies_expire_now(const struct tallies *all, uint16_t tally)
{
    const struct tally *row = &all->rows[tally];
    if (!atomic_load_explicit(&row->expire_ms, memory_order_relaxed))
        return 0;
    return number_of(atomic_load_explicit(&row->slice, memory_order_relaxed));
}

uint32_t tallies_expire_turn(struct tallies *all)
{
    uint64_t now_ms = ageing_ms();
    uint32_t count = atomic_load(&all->count);
    bool moved = false;
    for (uint32_t i = 1; i < count; i++) {
        struct tally *row = &all->rows[i];
        uint64_t expire_ms = atomic_load(&row->expire_ms);
        uint64_t now = expire_ms ? now_ms / MAX(expire_ms / EXPIRE_SLICES, 1u) : 0;
        moved |= atomic_exchange(&row->slice, now) != now;
    }
    if (moved)
        atomic_fetch_add(&all->turn, 1);
    return atomic_load(&all->turn);
}

struct tally_expiry tallies_expiry(struct tallies *all, uint16_t tally, uint32_t volume)
{
    const struct tally *row = &all->rows[tally];
    const struct sum *sums = atomic_load(&all->sums[volume]);
    struct tally_expiry expiry = { .now = tallies_expire_now(all, tally) };
    if (!expiry.now || !sums)
        return expiry;
    uint64_t here = atomic_load(&row->slice), seen = atomic_load(&sums[tally].seen_slice);
    expiry.anew = here < seen ||
                  atomic_load(&sums[tally].seen_change) != atomic_load(&row->expire_change);
    expiry.jumped = !expiry.anew && here - seen > EXPIRE_NUMBERS - 2 * EXPIRE_SLICES;
    return expiry;
}

/* The change is read first: if the time changes after that, the slice may be of the new time. */
uint32_t tallies_expire_begin(struct tallies *all, uint32_t volume)
{
    struct sum *sums = atomic_load(&all->sums[volume]);
    uint32_t count = atomic_load(&all->count);
    for (uint32_t i = 1; sums && i < count; i++)
        sums[i].begun_change = atomic_load(&all->rows[i].expire_change);
    uint32_t turn = tallies_expire_turn(all);
    for (uint32_t i = 1; sums && i < count; i++)
        sums[i].begun_slice = atomic_load(&all->rows[i].slice);
    return turn;
}

void tallies_expire_seen(struct tallies *all, uint32_t volume)
{
    struct sum *sums = atomic_load(&all->sums[volume]);
    uint32_t count = atomic_load(&all->count);
    for (uint32_t i = 1; sums && i < count; i++) {
        atomic_store(&sums[i].seen_slice, sums[i].begun_slice);
        atomic_store(&sums[i].seen_change, sums[i].begun_change);
    }
}

void tallies_holds(struct tallies *all, struct bucket_holds *ret)
{
    uint32_t count = atomic_load(&all->count);
    for (uint32_t i = 0; i < count; i++) {
        const struct tally *row = &all->rows[i];
        struct bucket_holds *of = &ret[atomic_load(&row->label)];
        of->bytes += (uint64_t)atomic_load(&row->sum.bytes);
        of->objects += (uint64_t)atomic_load(&row->sum.objects);
    }
}
