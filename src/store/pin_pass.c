/* pin_pass.c - finds the records to pin. SPDX-License-Identifier: Apache-2.0
 *
 *   recyclers wait ── each volume: rows with names ──> index: the object's records ──> a bit each
 *                                                                    recyclers go on ──┘
 *
 * A pass reads the tables of contents of all volumes. The row of an object's metadata has its name.
 * The units of the object are found by its id, in the volumes of its stripes. So one pass covers
 * all volumes. No extent is recycled while it runs, so the records that it finds stay. A record
 * that was pinned before, and that the pass does not find, is unpinned: its prefix was unpinned, or
 * its metadata was removed.
 *
 * A record that was pinned before keeps its place in the budget. A record that was not takes the
 * rest. If some records found no room, and the pass has unpinned others, a second pass follows.
 *
 * Threads: one thread makes all passes, one after the other. It never holds more than one volume's
 * lock of pins, for at most one record. */
#include "store/pin_pass.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/metric.h"
#include "base/thread.h"
#include "store/inside.h"
#include "store/pinned.h"
#include "store/volume_rows.h"

#define RETRY_MS 600000u              /* until bytes that found no room are tried again */

struct pin_pass {
    struct store *store;
    pthread_t thread;                 /* 0: not started */
    pthread_mutex_t lock;             /* guards the members below */
    pthread_cond_t more, ended;
    uint64_t wanted, done;            /* numbers of passes */
    bool stopping;
    atomic_bool stops;                /* the same, for a pass that runs */
};

/* One pass. */
struct pass {
    struct store *store;
    struct volume_rows rows;                 /* of the volume that is being read */
    bool takes_part[VOLUMES_MAX];
    uint64_t openings[VOLUMES_MAX];
    uint64_t over;                    /* bytes without room */
    uint32_t unread;                  /* extents */
};

/* ---- one object ---- */

/* The records that hold the units of one aligned run. */
struct found {
    struct found_record {
        uint32_t extent, ordinal;
        uint64_t weight;
    } records[RECORD_UNITS];
    size_t count;
};

static void add_found(struct found *found, const struct entry *entry)
{
    size_t i = 0;
    while (i < found->count && (found->records[i].extent != entry->extent ||
                                found->records[i].ordinal != entry->ordinal))
        i++;
    if (i == found->count)
        found->records[found->count++] = (struct found_record){ entry->extent, entry->ordinal, 0 };
    found->records[i].weight += pin_weight(entry->len);
}

/* A record lies in one run of RECORD_UNITS units. */
static void see_units(struct pass *pass, struct volume *volume, const struct object_id *id,
                      uint64_t etag_hash)
{
    struct entry entries[RECORD_UNITS];
    uint32_t unit = 0;
    while (index_get_next(volume->index, id, unit, &unit, &entries[0]) == OK &&
           unit != METADATA_UNIT && !entries[0].whole && !atomic_load(&pass->store->pin_pass->stops)) {
        struct found found = { .count = 0 };
        uint32_t end = rule_first_unit(unit) + RECORD_UNITS;
        pthread_mutex_lock(&volume->pinned.lock);
        for (; unit < end; unit++)
            if (index_get_run(volume->index, id, unit, 1, entries) == 1 &&
                entries[0].etag_hash == etag_hash && !entries[0].whole)
                add_found(&found, &entries[0]);
        for (size_t i = 0; i < found.count; i++)
            pass->over += pinned_see(volume, found.records[i].extent, found.records[i].ordinal,
                                     found.records[i].weight);
        pthread_mutex_unlock(&volume->pinned.lock);
    }
}

/* Returns false if the index does not name this row for the object's metadata. */
static bool see_metadata(struct pass *pass, const struct toc_row *row, struct entry *ret)
{
    struct volume *volume = pass->rows.volume;
    uint32_t unit;
    pthread_mutex_lock(&volume->pinned.lock);
    bool is = index_get_metadata(volume->index, &row->entry->id, &unit, ret) == OK &&
              ret->extent == pass->rows.extent && ret->ordinal == row->ordinal;
    if (is)
        pass->over += pinned_see(volume, ret->extent, ret->ordinal, pin_weight(ret->len));
    pthread_mutex_unlock(&volume->pinned.lock);
    return is;
}

static enum err visit_row(void *arg, const struct toc_row *row)
{
    struct pass *pass = arg;
    struct store *store = pass->store;
    struct entry metadata;
    if (atomic_load(&store->pin_pass->stops))
        return ERR_STOPPING;
    if (!row->name.name.len || !pins_have(store->pins, row->name.name) ||
        store_home(store, &row->entry->id) != pass->rows.volume ||
        !see_metadata(pass, row, &metadata) || metadata.whole)
        return OK;
    for (size_t i = 0; i < store->volume_count; i++)
        if (pass->takes_part[i])
            see_units(pass, store->volumes[i], &row->entry->id, metadata.etag_hash);
    return OK;
}

/* ---- all of them ---- */

static enum err read_volumes(struct pass *pass)
{
    enum err e = OK;
    for (size_t i = 0; i < pass->store->volume_count && !e; i++) {
        pass->rows = (struct volume_rows){ .volume = pass->store->volumes[i], .visit = visit_row,
                                    .arg = pass };
        if (pass->takes_part[i])
            e = volume_rows_read(&pass->rows);
        pass->unread += pass->rows.unread;
    }
    return e;
}

/* If some names are not known, nothing is unpinned. */
static enum pass_end how_it_ended(const struct pass *pass, enum err err)
{
    bool all = true;
    for (size_t i = 0; i < pass->store->volume_count; i++)
        all = all && pass->takes_part[i] && volume_is_serving(pass->store->volumes[i]);
    return err ? PASS_FAILED : all && !pass->unread ? PASS_FULL : PASS_PARTIAL;
}

/* Returns true if another pass would find room for more. */
static bool pass_once(struct store *store)
{
    struct pass pass = { .store = store };
    uint64_t released = 0;
    for (size_t i = 0; i < store->volume_count; i++)
        pass.takes_part[i] = pinned_begin(store->volumes[i], &pass.openings[i]);
    enum pass_end end = how_it_ended(&pass, read_volumes(&pass));
    for (size_t i = 0; i < store->volume_count; i++)
        if (pass.takes_part[i])
            released += pinned_end(store->volumes[i], pass.openings[i], end);
    return end == PASS_FULL && pass.over && released;
}

/* ---- the thread ---- */

static bool some_found_no_room(struct store *store)
{
    bool some = false;
    for (size_t i = 0; i < store->volume_count; i++)
        some |= atomic_exchange(&store->volumes[i]->pinned.over, false);
    return some;
}

static void *run(void *arg)
{
    struct pin_pass *pass = arg;
    pthread_mutex_lock(&pass->lock);
    uint64_t retry_ms = mono_ms() + RETRY_MS;
    while (!pass->stopping) {
        if (pass->wanted == pass->done)
            cond_wait_until(&pass->more, &pass->lock, retry_ms * 1000000u);
        if (mono_ms() >= retry_ms) {
            pass->wanted += some_found_no_room(pass->store);
            retry_ms = mono_ms() + RETRY_MS;
        }
        uint64_t number = pass->wanted;
        if (number == pass->done || pass->stopping)
            continue;
        pthread_mutex_unlock(&pass->lock);
        if (pass_once(pass->store))
            (void)pass_once(pass->store);
        pthread_mutex_lock(&pass->lock);
        pass->done = number;
        pthread_cond_broadcast(&pass->ended);
    }
    pthread_cond_broadcast(&pass->ended);
    pthread_mutex_unlock(&pass->lock);
    return NULL;
}

struct pin_pass *pin_pass_new(struct store *store)
{
    struct pin_pass *pass = must_alloc(sizeof(*pass));
    pass->store = store;
    pthread_mutex_init(&pass->lock, NULL);
    pthread_cond_init(&pass->more, NULL);
    pthread_cond_init(&pass->ended, NULL);
    return pass;
}

void pin_pass_start(struct pin_pass *pass)
{
    check(thread_start(&pass->thread, run, pass, "pins"));
}

void pin_pass_stop(struct pin_pass *pass)
{
    pthread_mutex_lock(&pass->lock);
    pass->stopping = true;
    atomic_store(&pass->stops, true);
    pthread_cond_signal(&pass->more);
    pthread_mutex_unlock(&pass->lock);
    if (pass->thread)
        pthread_join(pass->thread, NULL);
    pass->thread = 0;
}

void pin_pass_free(struct pin_pass **pass)
{
    struct pin_pass *mine = *pass;
    *pass = NULL;
    if (!mine)
        return;
    check(!mine->thread);
    pthread_cond_destroy(&mine->more);
    pthread_cond_destroy(&mine->ended);
    pthread_mutex_destroy(&mine->lock);
    free(mine);
}

void pin_pass_want(struct pin_pass *pass)
{
    pthread_mutex_lock(&pass->lock);
    pass->wanted++;
    pthread_cond_signal(&pass->more);
    pthread_mutex_unlock(&pass->lock);
}

enum err pin_pass_wait(struct pin_pass *pass)
{
    pthread_mutex_lock(&pass->lock);
    uint64_t mine = ++pass->wanted;
    pthread_cond_signal(&pass->more);
    while (pass->done < mine && !pass->stopping)
        pthread_cond_wait(&pass->ended, &pass->lock);
    bool done = pass->done >= mine;
    pthread_mutex_unlock(&pass->lock);
    return done ? OK : ERR_STOPPING;
}
