/* recycle.c - makes room: copies what is kept of an extent, and drops the extent.
 * SPDX-License-Identifier: Apache-2.0
 *
 *   victim ── rows ──┬── kept: read, verified ──> copy ──┐
 *                    └── the others ────────────────────┴──> committer: index, then drop
 *
 * The rule chooses the victim and the age from which records are evicted. An extent with many dead
 * records goes before; its live records are kept, but those of the highest age. As long as the ages
 * are not known, the victim is the extent with the fewest live bytes (victim.h). Younger records are
 * copied into the copy, an open extent of the recycler. After the victim was dropped, the copy takes
 * the place of the log as soon as the log is full. Its room is for the records for which the rule
 * wanted it. If no record was kept, the log gets a new file. No other extent is recycled before
 * that.
 *
 * After a crash between two steps, the victim has the records that were not moved yet, and the copy
 * may have records that the index does not name. If records are published while the victim is
 * recycled, the committer does not drop it, and its rows are read again. If the index still names
 * records of the victim after some passes, the victim is taken for damaged, so that no row tells of
 * these records. Then their entries are deleted (unlisted.h), and the victim goes.
 *
 * Metadata of an object is kept as long as the index of any folder has units of the object. Threads:
 * the recycler has a thread of its own, so no commit waits for a copy. */
#include "store/recycle.h"

#include <stdlib.h>
#include <time.h>

#include "base/failpoint.h"
#include "base/guard.h"
#include "base/metric.h"
#include "store/account.h"
#include "store/age_files.h"
#include "store/expire.h"
#include "store/find_name.h"
#include "store/inside.h"
#include "store/pinned.h"
#include "store/record_set.h"
#include "store/relocation.h"
#include "store/service.h"
#include "store/unlisted.h"
#include "store/verify.h"
#include "store/victim.h"

#define COPY_RECORDS 64u              /* in one append */
#define COPY_BYTES (16 * MIB)
#define GHOST_SHARE 64u               /* refused records may take memory / GHOST_SHARE ... */
#define GHOST_BYTES 8u                /* ... and take so many bytes for each record of the volume */
#define SWEEP_MS 100u                 /* between two sweeps, at least */
#define WAIT_MS 1000u
#define SAVE_MS 10u                   /* between two files of ages */
#define HELD_SHARE 16u                /* of the size; readers may hold that of dropped extents */
#define HELD_EXTENTS 2u               /* ... or so many extents, if these are more */
#define HELD_LOOK_MS 5u
#define PASSES_MAX 4u                 /* of one victim, if records are published meanwhile */
#define HOLES_SHARE 8u                /* of the bytes; an extent has holes if so many are dead */

/* An extent to recycle, and why: the extents must become fewer (shrinks), or a record must be stored
 * that the rule did not judge (must). */
struct choice {
    uint32_t number;
    enum mean_age_verdict why;
    bool shrinks, must;
    bool wasted;                      /* its dead records are the room, not the live ones */
};

/* The copies and the deletions that go to the committer together (relocation.h). The recycler adds
 * rows of the victim one by one, and empties the batch after it was sent. */
struct batch {
    struct arena keep;                /* holds the bytes of the copies, and their names */
    struct append_item items[COPY_RECORDS];
    struct relocation_move moves[COPY_RECORDS];
    struct relocation_row rows[RELOCATION_ENTRIES];
    size_t count, row_count, bytes;
    size_t entries;                   /* of the index, that the batch changes */
};

/* One pass over the rows of the victim. */
struct pass {
    struct volume *volume;
    struct extent *victim;
    struct mean_age_stamps stamps;    /* of the victim */
    struct victim_guess *guess;       /* NULL: all records of the victim are counted */
    uint32_t number;
    uint8_t cut;
    uint64_t tick;
    bool keep_nothing;                /* there is no space for a copy, except of pinned records */
    bool keep_no_pins;                /* ... not even for pinned records */
    struct choice choice;             /* shrinks: only pinned records are kept */
    struct batch batch;
    uint64_t sealed_bytes;            /* of copies that are full */
    uint32_t rows_read;               /* of the victim, in the latest pass */
    enum err err;
};

/* ---- which extent ---- */

/* Estimates how many records the volume can hold, from the records that it has. Returns 0 if these
 * are too few. */
static uint64_t records_for(struct volume *volume, const struct mean_age_extent *extents,
                            size_t count)
{
    uint64_t records = 0, size = atomic_load(&volume->space.size_bytes);
    uint64_t bytes = extents_linked_bytes(volume->extents);
    uint64_t most = volume->options.memory_bytes / GHOST_SHARE / GHOST_BYTES;
    for (size_t i = 0; i < count; i++)
        records += extents[i].records;
    if (bytes < size / 16 || !records)
        return 0;
    return MIN((uint64_t)((double)size / (double)bytes * (double)records), most);
}

/* Returns a set with a bit for each record whose tally is at its quota, or NULL if no tally is. The
 * caller frees the set. */
static _Atomic uint64_t *over_quota(struct volume *volume, const struct extent *extent)
{
    const struct tallies *tallies = volume_tallies(volume);
    const struct ages *ages = extent_ages_of(extent);
    uint32_t count = ages_counted(ages);
    if (!tallies_any_full(tallies))
        return NULL;
    _Atomic uint64_t *set = must_alloc(record_set_bytes(count));
    for (uint32_t i = 0; i < count; i++)
        if (tallies_is_full(tallies, ages_tally(ages, i)))
            record_set_put(set, i);
    return set;
}

/* Returns the stamps for the rule. stamps_end frees them. */
static struct mean_age_stamps stamps_of(struct volume *volume, const struct extent *extent)
{
    struct ages_stamps stamps = ages_stamps(extent_ages_of(extent));
    return (struct mean_age_stamps){ .stamps = stamps.stamps, .count = stamps.count,
                                     .left_out = stamps.left_out,
                                     .pinned = guard_on(GUARD_PINS) ? stamps.pinned : NULL,
                                     .old = over_quota(volume, extent) };
}

static void stamps_end(struct mean_age_stamps *stamps)
{
    free((void *)(uintptr_t)stamps->old);
    stamps->old = NULL;
}

/* Open extents and staging extents are swept, too: they can't be victims, but their stamps must not
 * wrap, either. */
static void sweep(struct volume *volume)
{
    struct rule *rule = &volume->rule;
    struct arena keep = { 0 };
    uint32_t *numbers;
    size_t all = extents_numbers(volume->extents, &keep, &numbers), count = 0;
    struct mean_age_extent *extents = must_alloc((all + 1) * sizeof(*extents));
    uint32_t *of = must_alloc((all + 1) * sizeof(*of));
    uint64_t tick = mean_age_tick(rule->policy);
    for (size_t i = 0; i < all; i++) {
        struct extent *extent = extent_ref(volume->extents, numbers[i]);
        if (!extent)
            continue;
        bool spared = extent_is_open(volume->extents, numbers[i]) || extent_is_staging(extent);
        struct mean_age_stamps stamps = stamps_of(volume, extent);
        of[count] = numbers[i];
        extents[count] = mean_age_sweep(&stamps, tick);
        count += !spared;
        stamps_end(&stamps);
        extent_release(&extent);
    }
    uint64_t records = records_for(volume, extents, count);
    pthread_mutex_lock(&rule->lock);
    if (records)
        rule_follow(rule, records);
    mean_age_swept(rule->policy, extents, count);
    rule->swept = tick;
    pthread_mutex_unlock(&rule->lock);
    free(rule->extents);
    free(rule->numbers);
    rule->extents = extents;
    rule->numbers = of;
    rule->extent_count = count;
    arena_free(&keep);
}

/* Takes the oldest extent of those with the highest mean age, for a record that must be stored. */
static size_t oldest(const struct rule *rule)
{
    size_t found = MEAN_AGE_NONE;
    double most = -1;
    for (size_t i = 0; i < rule->extent_count; i++) {
        const struct mean_age_extent *at = &rule->extents[i];
        double age = at->taken ? -1 : (double)at->ages / MAX(at->records, 1);
        if (age > most) {
            most = age;
            found = i;
        }
    }
    if (found != MEAN_AGE_NONE)
        rule->extents[found].taken = true;
    return found;
}

static bool any_is_counting(struct volume *volume)
{
    const struct rule *rule = &volume->rule;
    bool any = false;
    for (size_t i = 0; i < rule->extent_count && !any; i++)
        any = victim_is_counting(volume, rule->numbers[i]);
    return any;
}

/* Takes another extent than the rule's if the rule had no ages to judge by. */
static size_t choose_without_ages(struct volume *volume, size_t victim, bool must)
{
    const struct rule *rule = &volume->rule;
    if (must ? !any_is_counting(volume) : !victim_is_counting(volume, rule->numbers[victim]))
        return victim;
    return victim_fewest_live(volume, rule->numbers, rule->extent_count);
}

/* Takes an extent with many dead records, unless the rule has one for any record: that one may be
 * of more use. The room that comes is for any record. */
static bool choose_wasted(const struct rule *rule, size_t victim, struct choice *ret)
{
    bool any = ret->why == RECYCLE_FOR_ANY && !ret->must && mean_age_is_stale(rule->policy);
    if (ret->why == ADMIT_NO || ret->shrinks || any)
        return false;
    ret->wasted = victim < rule->extent_count;
    if (!ret->wasted)
        return false;
    ret->why = RECYCLE_FOR_ANY;
    ret->number = rule->numbers[victim];
    return true;
}

/* Returns false if the rule gives no extent. */
static bool choose(struct volume *volume, struct choice *ret)
{
    struct rule *rule = &volume->rule;
    sweep(volume);
    size_t wasted = victim_wasted(volume, rule->numbers, rule->extent_count);
    pthread_mutex_lock(&rule->lock);    /* loops wait for it: no look at each extent */
    *ret = (struct choice){ .why = rule->wanted, .shrinks = rule->shrinks, .must = rule->must };
    if (choose_wasted(rule, wasted, ret)) {
        pthread_mutex_unlock(&rule->lock);
        return true;
    }
    size_t victim = MEAN_AGE_NONE;
    uint64_t gain;
    if (!ret->shrinks && ret->must)
        victim = oldest(rule);
    else if (!ret->shrinks && ret->why != ADMIT_NO)
        victim = mean_age_victim(rule->policy, rule->extents, rule->extent_count, ret->why);
    pthread_mutex_unlock(&rule->lock);
    if (ret->shrinks)
        victim = victim_to_shrink(volume, rule->numbers, rule->extent_count, &gain);
    else if (victim != MEAN_AGE_NONE)
        victim = choose_without_ages(volume, victim, ret->must);
    if (victim >= rule->extent_count)    /* none */
        return false;
    ret->number = rule->numbers[victim];
    return true;
}

/* ---- a batch ---- */

static void drop_batch(struct batch *batch)
{
    for (size_t i = 0; i < batch->count; i++)
        metadata_unref(&batch->moves[i].metadata);
    batch->count = batch->row_count = batch->bytes = batch->entries = 0;
    arena_free(&batch->keep);
}

static enum err send(struct pass *pass, enum drop drop)
{
    struct batch *batch = &pass->batch;
    struct relocation relocation = { .extent = pass->number,
                                     .moves = batch->moves, .move_count = batch->count,
                                     .rows = batch->rows, .row_count = batch->row_count,
                                     .drop = drop };
    enum err e = relocation_send(pass->volume, &relocation);
    drop_batch(batch);
    return e;
}

/* Writes the copies, and then sends the batch to the committer. */
static void flush(struct pass *pass)
{
    struct volume *volume = pass->volume;
    struct batch *batch = &pass->batch;
    enum err e = batch->count ? open_extent_write(volume->extents, OPEN_COPY) : OK;
    pass->err = pass->err ? pass->err : e;
    for (size_t i = 0; i < batch->count; i++) {
        batch->moves[i].copied.record = batch->items[i].record;
        batch->moves[i].copied.offset = batch->items[i].offset;
    }
    if (pass->err)
        drop_batch(batch);
    else if (batch->count || batch->row_count)
        pass->err = send(pass, DROP_NOT);
}

static void add_entries(struct pass *pass, const struct toc_entry *row)
{
    const struct record record = { .kind = row->kind, .data_len = row->data_len };
    pass->batch.entries += record_units(&record);
    if (pass->batch.entries + RECORD_UNITS > RELOCATION_ENTRIES)
        flush(pass);
}

static void forget_row(struct pass *pass, const struct toc_entry *row, uint32_t ordinal,
                       enum event_why why)
{
    events_note(pass->volume->events, &row->id, row->first_unit, why);
    pass->batch.rows[pass->batch.row_count++] = (struct relocation_row){
        *row, ordinal,
        why == EVENT_EVICTED || why == EVENT_EVICTED_QUOTA || why == EVENT_DISK_FULL };
    add_entries(pass, row);
}

/* ---- the victim's records ---- */

static uint8_t stamp_of(const struct pass *pass, uint32_t ordinal)
{
    return pass->guess && ordinal < pass->stamps.count
        ? atomic_load_explicit(&pass->stamps.stamps[ordinal], memory_order_relaxed)
        : ages_stamp(extent_ages_of(pass->victim), ordinal);
}

static bool is_dead(const struct pass *pass, uint32_t ordinal)
{
    return ages_is_dead(extent_ages_of(pass->victim), ordinal) ||
           victim_is_dead(pass->guess, ordinal);
}

/* ---- copying a record ---- */

/* Reads the record and verifies all of it. Its bytes lie in the batch's arena. */
static bool read_record(struct pass *pass, const struct toc_entry *row, uint32_t ordinal,
                        struct append_item *ret)
{
    uint8_t header[RECORD_HEADER_MAX];
    uint32_t header_len = record_header_bytes(row->data_len);
    struct record *record = &ret->record;
    if (header_len > sizeof(header) || row->metadata_len > METADATA_BLOCK_MAX ||
        row->data_len > RECORD_BYTES_MAX ||
        !extent_read(pass->victim, header, header_len, row->offset) ||
        toc_entry_record(row, pass->number, ordinal, (slice){ (char *)header, header_len },
                         record) != OK)
        return false;
    uint8_t *metadata = arena_alloc(&pass->batch.keep, record->metadata_len + 1);
    uint8_t *data = arena_alloc(&pass->batch.keep, record->data_len + 1);
    if (!extent_read(pass->victim, metadata, record->metadata_len, row->offset + header_len) ||
        !extent_read(pass->victim, data, record->data_len, toc_entry_data_at(row)) ||
        !record_is_right(record, metadata, data))
        return false;
    ret->bucket = row->bucket;
    ret->metadata_block = (slice){ (char *)metadata, record->metadata_len };
    ret->bytes = (slice){ (char *)data, record->data_len };
    return true;
}

/* Finds the name of a record that was read, in the batch's arena. A record of units has none: its
 * object's metadata has it, and is asked only if a purge may cover the record. If no name is found,
 * *ret is empty. */
static void find_record_name(struct pass *pass, const struct append_item *item, uint32_t ordinal,
                             slice *ret)
{
    struct volume *volume = pass->volume;
    const struct object_id *id = &item->record.id;
    struct toc_name name;
    *ret = (slice){ "", 0 };
    if (item->metadata_block.len) {
        if (toc_name_of(item->metadata_block, &name))
            *ret = name.name;
        return;
    }
    bool asks = bans_may_cover(volume->bans, *ret, item->bucket, pass->number, ordinal) &&
                volume_is_serving(store_home(store_of(volume), id));
    if (asks && find_name(volume, id, &pass->batch.keep, ret) != FOUND_NAME)
        *ret = (slice){ "", 0 };
}

/* A purge may come, and be swept, after the recycler has seen the record in use. The sweep has then
 * deleted the entries of the record, but the next opening may find its copy. So a purge that was swept
 * counts if the index does not name the record any more. Otherwise it says nothing: the list may have
 * merged it with others, and it may cover records that nobody purged. Without a name, all units of the
 * bucket count. */
static bool is_purged(struct pass *pass, const struct toc_entry *row, uint32_t ordinal, slice name)
{
    struct bans *bans = pass->volume->bans;
    uint64_t bucket = row->bucket;
    struct ban_set *unswept = ban_set_ref(&bans->place);    /* before the look at the index */
    bool purged = ban_set_may_cover(unswept, name, bucket, pass->number, ordinal);
    ban_set_unref(&unswept);
    return purged || (bans_may_cover(bans, name, bucket, pass->number, ordinal) &&
                      !victim_is_live(pass->volume, pass->number, row, ordinal));
}

/* The copy gets its ordinal while no purge can come. So a purge covers it, or is compared here. A
 * purge is forgotten when all extents that it covers are gone. Returns ERR_GONE if the record was
 * purged, or its extent is gone. The file of the copy is made without the lock, because
 * the committer would wait for a disk that hangs. A purge that comes meanwhile takes the new extent
 * for one that has records already, and covers more than it must. */
static enum err add_copy(struct pass *pass, const struct toc_entry *row, uint32_t ordinal,
                         struct append_item *item, slice *ret_name)
{
    struct extents *extents = pass->volume->extents;
    enum err e = OK;
    find_record_name(pass, item, ordinal, ret_name);
    if (!open_extent_is_open(extents, OPEN_COPY))
        e = open_extent_begin(extents, OPEN_COPY);
    if (e)
        return e;
    pthread_mutex_lock(&pass->volume->bans->order);
    if (is_purged(pass, row, ordinal, *ret_name) || !extent_is_there(extents, pass->number))
        e = ERR_GONE;
    else
        e = open_extent_add(extents, OPEN_COPY, item);
    pthread_mutex_unlock(&pass->volume->bans->order);
    return e;
}

static uint64_t copy_bytes(struct volume *volume)
{
    uint64_t want = atomic_load(&volume->space.extent_bytes);
    uint64_t left = open_extent_left(volume->extents, OPEN_COPY);
    return open_extent_is_open(volume->extents, OPEN_COPY) ? want - MIN(want, left) : 0;
}

/* The copy has no room: begins another copy and another batch, and reads the record again. */
static enum err add_to_next(struct pass *pass, const struct toc_entry *row, uint32_t ordinal,
                            struct append_item **item, struct relocation_move **move,
                            slice *ret_name)
{
    pass->err = OK;
    flush(pass);
    enum err e = pass->err;
    pass->sealed_bytes += copy_bytes(pass->volume);
    if (!e)
        e = open_extent_seal(pass->volume->extents, OPEN_COPY);
    *item = &pass->batch.items[pass->batch.count];
    *move = &pass->batch.moves[pass->batch.count];
    if (!e && !read_record(pass, row, ordinal, *item))
        e = ERR_IO;
    return e ? e : add_copy(pass, row, ordinal, *item, ret_name);
}

/* Adds a copy of the record to the batch. A record that can't be read is deleted. So is one that
 * can't be copied, unless it is pinned. */
static void copy_row(struct pass *pass, const struct toc_entry *row, uint32_t ordinal)
{
    struct batch *batch = &pass->batch;
    struct append_item *item = &batch->items[batch->count];
    struct relocation_move *move = &batch->moves[batch->count];
    (void)failpoint(FAIL_COPY_READ);
    if (!read_record(pass, row, ordinal, item)) {
        metric_add(M_STORE_CRC_BAD, 1);
        atomic_fetch_add(&pass->volume->service.bad, 1);
        forget_row(pass, row, ordinal, EVENT_DAMAGED);
        return;
    }
    bool pinned = ages_must_stay(extent_ages_of(pass->victim), ordinal);
    slice name;
    pass->err = add_copy(pass, row, ordinal, item, &name);
    if (pass->err == ERR_FULL && pinned)
        pass->err = add_to_next(pass, row, ordinal, &item, &move, &name);
    /* ERR_FULL: the copy has no room, because the victim is larger than a new extent */
    enum event_why why = pass->err == ERR_GONE ? EVENT_PURGED : EVENT_EVICTED;
    if ((pass->err == ERR_FULL && !pinned) || pass->err == ERR_GONE) {
        pass->err = OK;
        forget_row(pass, row, ordinal, why);
        return;
    }
    if (pass->err)
        return;
    *move = (struct relocation_move){ .copied = { .old_extent = pass->number, .old_ordinal = ordinal },
                                .stamp = stamp_of(pass, ordinal),
                                .name = name, .pinned = pinned };
    if (item->metadata_block.len)
        move->metadata = metadata_block_decode(&item->record.id, item->metadata_block);
    metric_add(M_STORE_COPIED, row->data_len);
    atomic_fetch_add(&pass->volume->recycler.copied, row->data_len);
    batch->bytes += row->data_len + row->metadata_len;
    batch->count++;
    add_entries(pass, row);
    if (batch->count == COPY_RECORDS || batch->bytes >= COPY_BYTES)
        flush(pass);
}

/* ---- one extent ---- */

static bool is_kept(struct pass *pass, const struct toc_entry *row, uint32_t ordinal)
{
    const struct ages *ages = extent_ages_of(pass->victim);
    if (ages_must_stay(ages, ordinal) && guard_on(GUARD_PINS))
        return !pass->keep_no_pins;
    if (pass->keep_nothing)
        return false;
    if (row->kind == KIND_HEAD)
        return volume_keeps_metadata(pass->volume, &row->id);
    uint8_t stamp = ages_stamp(ages, ordinal);
    uint8_t age = ordinal < pass->stamps.count    /* later records were added since */
        ? mean_age_of_record(&pass->stamps, ordinal, pass->tick)
        : mean_age_of_stamp(pass->tick, stamp);
    return !pass->choice.shrinks && mean_age_keeps(pass->cut, age, false);
}

static enum event_why why_evicted(const struct pass *pass, uint32_t ordinal)
{
    const _Atomic uint64_t *over_quota = pass->stamps.old;
    if (pass->keep_nothing)
        return EVENT_DISK_FULL;
    return over_quota && ordinal < pass->stamps.count && record_set_has(over_quota, ordinal)
        ? EVENT_EVICTED_QUOTA : EVENT_EVICTED;
}

static void walk(struct pass *pass, const struct toc_entry *rows, uint32_t count)
{
    for (uint32_t i = 0; i < count && !pass->err; i++) {
        recycler_moves(pass->volume);
        if (atomic_load(&pass->volume->recycler.paused))
            pass->err = ERR_STOPPING;
        else if (is_dead(pass, i))
            continue;
        else if (is_kept(pass, &rows[i], i))
            copy_row(pass, &rows[i], i);
        else
            forget_row(pass, &rows[i], i, why_evicted(pass, i));
    }
    flush(pass);
}

/* True if the dead records of the victim have so many bytes that a copy of all others is worth its
 * work. */
static bool has_holes(const struct pass *pass, const struct toc_entry *rows, uint32_t count)
{
    uint64_t all = 0, dead = 0;
    for (uint32_t i = 0; i < count; i++) {
        all += rows[i].data_len;
        dead += is_dead(pass, i) ? rows[i].data_len : 0;
    }
    return dead * HOLES_SHARE >= all;
}

static void drop_stamps(struct pass *pass)
{
    if (!pass->guess)
        stamps_end(&pass->stamps);
    victim_guess_free(&pass->guess);
    pass->stamps = (struct mean_age_stamps){ .count = 0 };
}

/* Finds the age from which records are evicted. If it is not known when records were read, the
 * records in use do not go for the sake of a small record that must be stored. */
static void set_cut(struct pass *pass, const struct toc_entry *rows, uint32_t count)
{
    const struct volume *volume = pass->volume;
    drop_stamps(pass);
    pass->tick = mean_age_tick(volume->rule.policy);
    bool counting = ages_are_counting(extent_ages_of(pass->victim));    /* before the stamps */
    pass->stamps = stamps_of(pass->volume, pass->victim);
    if (counting) {
        struct mean_age_stamps known = pass->stamps;
        const struct victim victim = { pass->victim, pass->number, rows, count, pass->tick };
        pass->guess = victim_guess(pass->volume, &victim, &known);
        pass->stamps = victim_stamps(pass->guess, &known);
        stamps_end(&known);
    }
    bool spares = counting || (pass->choice.must && !mean_age_is_known(volume->rule.policy));
    spares = spares && has_holes(pass, rows, count);
    pass->cut = pass->choice.wasted ? MEAN_AGE_CAP
                                    : mean_age_cut(&pass->stamps, pass->tick,
                                                   spares ? RECYCLE_FOR_ANY : pass->choice.why);
}

static enum err recycle(struct pass *pass)
{
    struct arena keep = { 0 };
    struct toc_entry *rows;
    uint32_t count;
    enum err e = extent_contents(pass->volume->extents, pass->number, &keep, &rows, &count);
    pass->err = OK;
    if (!e) {
        set_cut(pass, rows, count);
        walk(pass, rows, count);
    }
    arena_free(&keep);
    if (pass->err || e == ERR_LIMIT)
        return e ? e : pass->err;
    pass->rows_read = e ? 0 : count;
    return send(pass, e ? DROP_UNREAD : DROP);
}

static bool goes_on(void *arg)
{
    struct volume *volume = arg;
    recycler_moves(volume);
    return !atomic_load(&volume->recycler.paused);
}

static uint64_t pinned_bytes(const struct pass *pass)
{
    return ages_pinned_bytes(extent_ages_of(pass->victim));
}

/* Counts the pinned bytes that the victim has lost since it had `before`. So a try that ends early
 * does not count what is lost later. */
static void count_lost(const struct pass *pass, uint64_t before)
{
    pinned_lost(pass->volume, before - MIN(before, pinned_bytes(pass)));
}

/* For a victim that has entries after all passes. */
static enum err give_up(struct pass *pass)
{
    uint64_t before = pinned_bytes(pass);
    enum err e = unlisted_forget(pass->volume, pass->number, pass->rows_read, goes_on,
                                 pass->volume);
    count_lost(pass, before);
    return e ? e : send(pass, DROP_UNREAD);
}

/* The disk is so full that not even pinned records can be copied, so they are lost. */
static enum err recycle_without_pins(struct pass *pass)
{
    uint64_t before = pinned_bytes(pass);
    pass->keep_no_pins = true;
    enum err e = recycle(pass);
    count_lost(pass, before);
    return e;
}

/* The number of the victim must stay in use, so another extent is begun if that number is the
 * highest. It may become the highest at any time until then: a log that can't be made gives its
 * number back. */
static enum err begin_higher(const struct pass *pass)
{
    struct extents *extents = pass->volume->extents;
    bool highest = pass->number == extents_highest(extents);
    return highest ? open_extent_begin(extents, OPEN_COPY) : OK;
}

static enum err recycle_often(struct pass *pass)
{
    enum err e = ERR_BUSY;
    for (unsigned i = 0; i < PASSES_MAX && e == ERR_BUSY; i++) {
        e = begin_higher(pass);
        if (e)
            return e;
        e = recycle(pass);
        if (e == ERR_FULL && pass->keep_nothing && !pass->keep_no_pins)
            e = recycle_without_pins(pass);
    }
    return e == ERR_BUSY ? give_up(pass) : e;
}

/* Tells the committer if the copy is about as large as the victim: the weight of pinned records
 * (ages.h) is an estimate, so the next extent goes without a copy (room.c). */
static void note_gain(const struct pass *pass)
{
    struct volume *volume = pass->volume;
    uint64_t least = atomic_load(&volume->space.extent_bytes) / RECYCLE_GAIN;
    uint64_t copied = pass->sealed_bytes + copy_bytes(volume);
    atomic_store(&volume->recycler.in_vain, copied && copied + least > extent_size(pass->victim));
}

static enum err recycle_extent(struct volume *volume, const struct choice *choice)
{
    struct pass *pass = must_alloc(sizeof(*pass));
    (void)failpoint(FAIL_RECYCLE);
    pass->volume = volume;
    pass->number = choice->number;
    pass->choice = *choice;
    pass->keep_nothing = !volume_has_space_for_copy(volume);
    (void)!open_extent_seal(volume->extents, OPEN_COPY);    /* left by a pass that failed */
    enum err e = begin_higher(pass);
    if (!e)
        e = extent_hold(volume->extents, pass->number, &pass->victim);
    if (e == ERR_NOT_FOUND)    /* its file can't be opened */
        e = send(pass, DROP_UNREAD);
    if (!e && pass->victim)
        e = recycle_often(pass);
    if (!e && pass->victim && choice->shrinks)
        note_gain(pass);
    drop_stamps(pass);
    extent_release(&pass->victim);
    drop_batch(&pass->batch);
    free(pass);
    return e;
}

/* ---- the thread ---- */

/* Ends the wish for room, whether room was made or not. Appends that wait are tried again. */
static void end_wish(struct volume *volume, bool made)
{
    struct rule *rule = &volume->rule;
    pthread_mutex_lock(&rule->lock);
    rule->wanted = ADMIT_NO;
    rule->must = rule->shrinks = false;
    pthread_mutex_unlock(&rule->lock);
    pthread_mutex_lock(&volume->queue.lock);
    volume->queue.room = made ? ROOM_UNKNOWN : ROOM_REFUSED;
    pthread_cond_signal(&volume->queue.more);
    pthread_mutex_unlock(&volume->queue.lock);
}

static void note_room(struct volume *volume, enum mean_age_verdict why)
{
    struct rule *rule = &volume->rule;
    pthread_mutex_lock(&rule->lock);
    rule->next_class = why == RECYCLE_FOR_ANY ? ROOM_FOR_ANY : ROOM_FOR_HOT;
    pthread_mutex_unlock(&rule->lock);
    if (open_extent_is_open(volume->extents, OPEN_COPY)) {
        uint64_t left = open_extent_left(volume->extents, OPEN_COPY);
        atomic_store(&volume->recycler.ready, true);
        atomic_fetch_add(&rule->room_left, (int64_t)left);
    }
}

/* A dropped extent takes space until its last reader has gone (rule H1 in src/README.md). So
 * readers that don't end, for example because the disk hangs, could make the cache larger without
 * end: each recycling adds a copy. Beyond a limit no extent is recycled, and records that find no
 * room are not stored. Taking the extents from their readers is not needed for that, and would fail
 * their requests. Exception: clients that are lent bytes may read as slowly as they like (locker.c). */
bool volume_holds_too_much(const struct volume *volume)
{
    uint64_t most = MAX(atomic_load(&volume->space.size_bytes) / HELD_SHARE,
                        (uint64_t)HELD_EXTENTS * atomic_load(&volume->space.extent_bytes));
    return extents_held_bytes(volume->extents) > most;
}

/* True if readers hold too much even after a wait. If they have held it for long, later wishes for
 * room don't wait. */
static bool too_much_is_held(struct volume *volume)
{
    struct recycler *recycler = &volume->recycler;
    while (volume_holds_too_much(volume)) {
        uint64_t until_ms = volume_waits_until(&recycler->held_since_ms, 0);
        if (mono_ms() >= until_ms || atomic_load(&recycler->paused)) {
            metric_add(M_STORE_HELD_LIMITED, 1);
            return true;
        }
        nanosleep(&(struct timespec){ .tv_nsec = HELD_LOOK_MS * 1000000 }, NULL);
    }
    recycler->held_since_ms = 0;
    return false;
}

/* Drops the extents without records. Such an extent frees no room, so the rule never chooses it. But
 * as long as it is there, purges that came later are not forgotten. The one with the highest number
 * stays, because no number is used again. */
static void drop_empty(struct volume *volume)
{
    struct arena keep = { 0 };
    uint32_t *numbers;
    size_t count = extents_numbers(volume->extents, &keep, &numbers);
    for (size_t i = 0; i < count && !atomic_load(&volume->recycler.paused); i++) {
        struct relocation relocation = { .extent = numbers[i], .drop = DROP };
        struct extent *extent = extent_ref(volume->extents, numbers[i]);
        bool empty = extent && extent_is_empty(extent);
        extent_release(&extent);
        if (empty && numbers[i] < extents_highest(volume->extents))
            (void)!relocation_send(volume, &relocation);    /* the next wish for room tries again */
    }
    arena_free(&keep);
}

static bool waits_for_pins(struct volume *volume)
{
    return !pinned_is_known(volume) && !atomic_load(&volume->recycler.paused);
}

/* The wish stays if it is not known yet which records are pinned. */
static void make_room(struct volume *volume)
{
    struct choice choice;
    bool made = false, held = !waits_for_pins(volume) && too_much_is_held(volume);
    pthread_mutex_lock(&volume->recycler.lock);
    recycler_moves(volume);
    if (waits_for_pins(volume)) {
        pthread_mutex_unlock(&volume->recycler.lock);
        return;
    }
    drop_empty(volume);
    if (!atomic_load(&volume->recycler.paused) && !held && choose(volume, &choice)) {
        made = recycle_extent(volume, &choice) == OK;
        if (made)
            note_room(volume, choice.why);
    }
    pthread_mutex_unlock(&volume->recycler.lock);
    end_wish(volume, made);
}

/* A copy that is ready must become the log first, because admitted records wait for its room. Under
 * the lock. */
static bool makes_room(struct volume *volume)
{
    return volume->rule.wanted != ADMIT_NO && !atomic_load(&volume->recycler.ready) &&
           !waits_for_pins(volume);
}

/* Sleeps until there is work. A tick that ends less than SWEEP_MS after the last sweep waits: all
 * records in use are young then. Under the lock. */
static void wait_for_work(struct volume *volume, uint64_t swept_ms, uint64_t wait)
{
    struct rule *rule = &volume->rule;
    uint64_t now = mono_ms();
    rule_drain(rule);
    if (atomic_load(&rule->due) && now >= swept_ms + SWEEP_MS)
        rule_advance(rule);
    if (!rule_is_swept(rule) || atomic_load(&rule->due))
        wait = now >= swept_ms + SWEEP_MS ? 0 : MIN(wait, swept_ms + SWEEP_MS - now);
    if (wait && !makes_room(volume) && !rule->stopping)
        cond_wait_until(&rule->more, &rule->lock, mono_ns() + wait * 1000000u);
}

/* Under the lock of the rule. */
static void take_for_what_if(struct volume *volume)
{
    struct rule *rule = &volume->rule;
    uint64_t extents = atomic_load(&volume->space.size_bytes) /
                       MAX(1u, atomic_load(&volume->space.extent_bytes));
    what_if_take(rule->what_if, mean_age_now(rule->policy), extents);
}

/* Both get their turn, however often one of them is due. */
static void do_upkeep(struct volume *volume)
{
    if (expire_is_due(volume) && !waits_for_pins(volume))
        expire_pass(volume);
    age_files_step(volume);
}

void *recycle_run(void *arg)
{
    struct volume *volume = arg;
    struct rule *rule = &volume->rule;
    uint64_t swept_ms = 0;
    pthread_mutex_lock(&rule->lock);
    while (!rule->stopping) {
        wait_for_work(volume, swept_ms, age_files_are_due(volume) ? SAVE_MS : WAIT_MS);
        bool wanted = makes_room(volume);
        bool sweeps = !rule_is_swept(rule) && mono_ms() >= swept_ms + SWEEP_MS;
        take_for_what_if(volume);
        pthread_mutex_unlock(&rule->lock);
        if (wanted)
            make_room(volume);
        else if (sweeps)
            sweep(volume);
        else
            do_upkeep(volume);
        what_if_run(rule->what_if, mono_ms());
        if (sweeps)
            swept_ms = mono_ms();
        pthread_mutex_lock(&rule->lock);
    }
    pthread_mutex_unlock(&rule->lock);
    return NULL;
}

void recycle_pause(struct volume *volume)
{
    atomic_store(&volume->recycler.paused, true);
    while (pthread_mutex_trylock(&volume->recycler.lock) != 0) {
        relocations_refuse(volume);
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    }
    atomic_store(&volume->recycler.ready, false);
    pthread_mutex_unlock(&volume->recycler.lock);
}

void recycle_resume(struct volume *volume)
{
    atomic_store(&volume->recycler.paused, false);
}

void recycle_stop(struct volume *volume)
{
    atomic_store(&volume->recycler.paused, true);
    pthread_mutex_lock(&volume->rule.lock);
    volume->rule.stopping = true;
    pthread_cond_signal(&volume->rule.more);
    pthread_mutex_unlock(&volume->rule.lock);
    pthread_join(volume->recycler.thread, NULL);
}
