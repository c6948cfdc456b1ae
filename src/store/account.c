/* account.c - which records of a volume are live, and their tallies, in step with the index.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The index reports which entries a commit added and removed, by the records that they name. For
 * records of an earlier process, a file of ages may have the number of entries (age_files.h). All
 * others are counted between commits, extent by extent: their entries are looked up. So a change is
 * either in the count or in the changes of a commit, never in both. The same walk gives the records
 * that a file knows their tally.
 *
 * A record of metadata has the object's name, so its tally is known. A record of units has the hash
 * of its bucket; only if the bucket is split at prefixes, the object's name is looked up. When a
 * reload splits buckets in another way, all records get their tally again, by the same walk. */
#include "store/account.h"

#include <string.h>

#include "base/failpoint.h"
#include "store/find_name.h"
#include "store/index.h"
#include "store/pinned.h"
#include "store/volume_rows.h"

#define COUNT_BATCH 2000u
#define NAME_COST 50u                 /* the look-up of a name takes as long as 50 rows */
#define STALL_MS 30000u               /* so long the walk waits for the disk of another folder */
#define LIVE_TENTHS 7u                /* of an extent's bytes, at most, if its dead ones are room */

/* ---- room ---- */

/* Two shares must agree. That of the records is the rule's; that of the bytes bounds what is copied
 * for a byte of room. Unknown records may be live. Nobody can read those of an unusable file. */
static enum ages_waste waste_of(const struct extent *extent)
{
    const struct ages *ages = extent_ages_of(extent);
    struct ages_dead dead = ages_dead(ages);
    if (extent_is_unusable(extent))
        return WASTE_ALL;
    if (ages_are_counting(ages) || !ages_counted(ages) || extent_is_staging(extent))
        return WASTE_LITTLE;    /* the recycler leaves staging extents to the committer */
    if (!ages_entries(ages))
        return WASTE_ALL;
    return mean_age_is_waste(dead.dead, dead.records) &&
           ages_live_bytes(ages) <= extent_size(extent) / 10 * LIVE_TENTHS ? WASTE_MUCH
                                                                           : WASTE_LITTLE;
}

static void set_waste(struct volume *volume, struct ages *ages, enum ages_waste waste)
{
    struct rule_waste *sum = &volume->rule.waste;
    enum ages_waste before = ages_waste(ages);
    ages_set_waste(ages, waste);
    atomic_fetch_add(&sum->much, (unsigned)(waste >= WASTE_MUCH) - (before >= WASTE_MUCH));
    atomic_fetch_add(&sum->all, (unsigned)(waste == WASTE_ALL) - (before == WASTE_ALL));
}

/* The extent is weighed when the commit has ended and the extent is sealed: an open one can't be
 * recycled. If the list is full, all extents are weighed then. */
static void weigh_later(struct counting *counting, uint32_t number)
{
    for (unsigned i = 0; i < MIN(counting->later_count, WEIGH_LATER); i++)
        if (counting->later[i] == number)
            return;
    if (counting->later_count < WEIGH_LATER)
        counting->later[counting->later_count] = number;
    counting->later_count = MIN(counting->later_count + 1, WEIGH_LATER + 1);
}

/* To be called when records of an extent have gained or lost entries, or were counted. */
static void weigh(struct volume *volume, uint32_t number)
{
    if (volume->upkeep.counting.unpublished || extent_is_open(volume->extents, number)) {
        weigh_later(&volume->upkeep.counting, number);
        return;
    }
    struct extent *extent = extent_ref(volume->extents, number);
    if (extent)
        set_waste(volume, extent_ages_of(extent), waste_of(extent));
    extent_release(&extent);
}

static void weigh_all(struct volume *volume)
{
    struct arena keep = { 0 };
    uint32_t *numbers;
    size_t count = extents_numbers(volume->extents, &keep, &numbers);
    for (size_t i = 0; i < count; i++)
        weigh(volume, numbers[i]);
    arena_free(&keep);
}

void account_sealed(struct volume *volume)
{
    struct counting *counting = &volume->upkeep.counting;
    uint32_t later[WEIGH_LATER];
    unsigned count = counting->later_count;
    if (counting->unpublished)
        return;
    memcpy(later, counting->later, sizeof(later));
    counting->later_count = 0;
    if (count > WEIGH_LATER)
        weigh_all(volume);
    for (unsigned i = 0; i < count && count <= WEIGH_LATER; i++)
        weigh(volume, later[i]);
}

void account_publishes(struct volume *volume, bool publishes)
{
    volume->upkeep.counting.unpublished = !publishes;
}

void account_published(struct volume *volume)
{
    volume->upkeep.counting.unpublished = false;
    account_sealed(volume);
}

/* Only after all changes of a commit, because records are dead until they are published. */
static void weigh_changed(struct volume *volume, const struct index_change *changes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!i || changes[i].extent != changes[i - 1].extent)
            weigh(volume, changes[i].extent);
}

/* ---- changes ---- */

static void note(struct volume *volume, const struct tally_change *change)
{
    if (change->records || change->objects || change->bytes)
        tallies_add(volume_tallies(volume), volume->number, change);
}

static void apply(struct volume *volume, const struct index_change *change)
{
    struct ages *ages = extent_ages(volume->extents, change->extent);
    const struct ages_entries entry = { .count = 1, .objects = change->metadata,
                                        .bytes = change->len,
                                        .data_bytes = change->data ? change->len : 0 };
    if (!ages)
        return;
    uint64_t pinned = ages_pinned_bytes(ages), seen = ages_seen_bytes(ages);
    struct tally_change done = change->added
        ? ages_entry_added(ages, change->ordinal, &entry)
        : ages_entry_removed(ages, change->ordinal, &entry, rule_dead_stamp(&volume->rule));
    atomic_fetch_add(&volume->pinned.bytes, ages_pinned_bytes(ages) - pinned);
    volume->pinned.seen_bytes += ages_seen_bytes(ages) - seen;
    note(volume, &done);
    if (change->evicted && done.bytes < 0)
        tallies_evicted(volume_tallies(volume), done.tally, (uint64_t)-done.bytes);
}

/* Returns true if an entry was put again with other marks: its record stays live. */
static bool is_put_again(const struct index_change *old, const struct index_change *new)
{
    return !old->added && new->added && old->extent == new->extent &&
           old->ordinal == new->ordinal && old->len == new->len;
}

enum err account_commit(struct volume *volume)
{
    pthread_mutex_lock(&volume->pinned.lock);
    enum err e = failpoint_err(FAIL_INDEX_COMMIT);
    if (!e)
        e = index_commit(volume->index);
    (void)failpoint(FAIL_INDEX_COMMITTED);
    const struct index_change *changes;
    size_t count = index_changes(volume->index, &changes);
    for (size_t i = 0; !e && i < count; i++) {
        if (i + 1 < count && is_put_again(&changes[i], &changes[i + 1]))
            i++;
        else
            apply(volume, &changes[i]);
    }
    volume->pinned.coming = 0;
    pthread_mutex_unlock(&volume->pinned.lock);
    if (!e)
        weigh_changed(volume, changes, count);
    return e;
}

/* Looks up the names in the table of pins under the lock. So a running pass has read this state of
 * the table or a later one, or another pass follows. */
void account_appended(struct volume *volume, struct append_item *const *items, size_t count)
{
    account_publishes(volume, false);
    pthread_mutex_lock(&volume->pinned.lock);
    for (size_t i = 0; i < count; i++) {
        const struct record *record = &items[i]->record;
        struct ages *ages = extent_ages(volume->extents, record->extent);
        if (!ages)
            continue;
        weigh_later(&volume->upkeep.counting, record->extent);
        ages_add(ages, record->ordinal, &(struct ages_record){
            .stamp = rule_stamp(&volume->rule), .metadata = record->kind == KIND_HEAD,
            .tally = items[i]->tally });
        items[i]->pinned = !extents_is_staging(volume->extents, record->extent) &&
                           pins_have(volume->options.pins, items[i]->name);
        if (items[i]->pinned)
            pinned_appended(volume, ages, record);
    }
    pthread_mutex_unlock(&volume->pinned.lock);
}

void account_dropped(struct volume *volume, uint32_t number, bool evicted)
{
    struct ages *ages = extent_ages(volume->extents, number);
    const struct tally_change *sums;
    size_t count = ages ? ages_sums(ages, &sums) : 0;
    if (ages)
        set_waste(volume, ages, WASTE_LITTLE);
    for (size_t i = 0; i < count; i++) {
        struct tally_change gone = { sums[i].tally, -sums[i].records, -sums[i].objects,
                                     -sums[i].bytes };
        note(volume, &gone);
        if (evicted)
            tallies_evicted(volume_tallies(volume), gone.tally, (uint64_t)sums[i].bytes);
    }
}

/* ---- the tally of a record ---- */

/* Finds the tally by the name in the object's metadata, and keeps it: records of one object often lie
 * side by side. */
static enum found look_up(struct volume *volume, const struct object_id *id)
{
    struct counting *counting = &volume->upkeep.counting;
    struct arena keep = { 0 };
    slice name;
    enum found found = find_name(volume, id, &keep, &name);
    counting->found = found == FOUND_NAME;
    if (counting->found) {
        counting->found_id = *id;
        counting->found_tally = tallies_of_name(volume_tallies(volume), name);
    }
    arena_free(&keep);
    return found;
}

/* Returns false if the folder that has the name is in service, but has not answered, and the walk has
 * not waited for STALL_MS yet. If no name is found, *ret does not change. */
static bool tally_by_id(struct volume *volume, const struct object_id *id, uint32_t *cost,
                        uint16_t *ret)
{
    struct counting *counting = &volume->upkeep.counting;
    bool silent = false;
    if (!counting->found || memcmp(&counting->found_id, id, sizeof(*id)) != 0) {
        *cost += NAME_COST;
        silent = look_up(volume, id) == FOUND_SILENT;
        uint64_t stalled_ms = counting->stalled_ms;
        counting->stalled_ms = !silent ? 0 : stalled_ms ? stalled_ms : mono_ms();
    }
    if (counting->found)
        *ret = counting->found_tally;
    return !silent || mono_ms() >= counting->stalled_ms + STALL_MS;
}

/* Returns false if the tally can't be told now. Then *ret is that of the bucket. */
static bool tally_of(struct volume *volume, const struct toc_row *row, uint32_t *cost, uint16_t *ret)
{
    struct tallies *tallies = volume_tallies(volume);
    if (row->name.name.len)
        *ret = tallies_of_name(tallies, row->name.name);
    else if (!tallies_of_bucket(tallies, row->entry->bucket, ret))
        return tally_by_id(volume, &row->entry->id, cost, ret);
    return true;
}

uint16_t account_tally_of_copy(struct volume *volume, const struct record *record, slice name,
                               uint16_t before)
{
    const struct toc_entry entry = { .id = record->id, .kind = record->kind,
                                     .bucket = record->kind == KIND_UNITS ? record->mark : 0 };
    const struct toc_row row = { .entry = &entry, .name = { 0, name } };
    struct counting *counting = &volume->upkeep.counting;
    uint32_t cost = 0;
    if (counting->again && !tally_of(volume, &row, &cost, &before))
        counting->layout = ~tallies_layout(volume_tallies(volume));    /* another walk sees the copy */
    return before;
}

/* ---- counting ---- */

/* Lists the extents for a walk. Extents that are made later need no walk. */
static void list_extents(struct volume *volume)
{
    struct counting *counting = &volume->upkeep.counting;
    arena_free(&counting->keep);
    counting->extent_count = extents_numbers(volume->extents, &counting->keep,
                                             &counting->numbers);
    counting->at = 0;
}

static void set_counted(struct volume *volume, bool counted)
{
    atomic_store(&volume->service.counted, counted);
    if (counted)
        tallies_counted(volume_tallies(volume), volume->number, volume->upkeep.counting.layout);
}

/* In a new cache folder, nothing is to be counted, and quotas take records at once. */
void account_begin(struct volume *volume)
{
    account_end(volume);
    tallies_begin(volume_tallies(volume), volume->number);
    volume->upkeep.counting.layout = tallies_layout(volume_tallies(volume));
    list_extents(volume);
    set_counted(volume, !volume->upkeep.counting.extent_count);
    weigh_all(volume);
}

void account_end(struct volume *volume)
{
    toc_free(&volume->upkeep.counting.toc);
    arena_free(&volume->upkeep.counting.keep);
    volume->upkeep.counting = (struct counting){ 0 };
    atomic_store(&volume->rule.waste.much, 0);
    atomic_store(&volume->rule.waste.all, 0);
    tallies_leave(volume_tallies(volume), volume->number);
}

/* Begins to count an extent. If its table can't be read, none of its records is counted. */
static void begin_extent(struct volume *volume, uint32_t number)
{
    struct counting *counting = &volume->upkeep.counting;
    toc_free(&counting->toc);
    counting->extent = number;
    counting->found = false;
    if (extent_table(volume->extents, number, &counting->toc) != OK)
        counting->toc = (struct toc){ 0 };
    counting->next = toc_begin(&counting->toc);
}

/* Returns true if the walk has work to do in this extent. */
static bool is_wanted(const struct volume *volume, uint32_t number)
{
    const struct counting *counting = &volume->upkeep.counting;
    const struct ages *ages = extent_ages(volume->extents, number);
    return ages && (counting->again || ages_are_counting(ages) ||
                    ages_tallied(ages) < ages_counted(ages));
}

static bool find_next_extent(struct volume *volume)
{
    struct counting *counting = &volume->upkeep.counting;
    while (counting->at < counting->extent_count) {
        uint32_t number = counting->numbers[counting->at++];
        counting->looks++;
        if (is_wanted(volume, number)) {
            begin_extent(volume, number);
            return true;
        }
    }
    return false;
}

/* Finds the entries of the index that name the record of a row. If a file says that all or none of
 * them live, nothing is looked up. */
static struct ages_entries entries_of(struct volume *volume, const struct ages *ages,
                                      const struct toc_row *row)
{
    const struct toc_entry *at = row->entry;
    struct record record = { .kind = at->kind, .data_len = at->data_len };
    struct ages_entries sum = { .count = 0 };
    if (ages_is_dead(ages, row->ordinal))
        return sum;
    if (ages_live(ages, row->ordinal) == record_units(&record) && at->kind != KIND_HEAD)
        return (struct ages_entries){ record_units(&record), at->kind != KIND_UNITS, at->data_len,
                                      at->data_len };
    struct entry entries[RECORD_UNITS];
    bool failed;
    sum.count = volume_row_entries(volume, volume->upkeep.counting.extent, row->ordinal, at,
                                   entries, &failed);
    for (uint32_t i = 0; i < sum.count; i++) {
        sum.bytes += entries[i].len;
        sum.data_bytes += at->kind == KIND_HEAD ? 0 : entries[i].len;
    }
    sum.objects = sum.count && at->kind != KIND_UNITS;
    return sum;
}

/* Returns false if the row can't be counted now. */
static bool count_row(struct volume *volume, struct ages *ages, const struct toc_row *row,
                      uint32_t *cost)
{
    struct ages_record record = { .stamp = rule_stamp(&volume->rule),
                                  .dead = rule_dead_stamp(&volume->rule),
                                  .metadata = row->entry->kind == KIND_HEAD };
    struct tally_change change;
    if (!tally_of(volume, row, cost, &record.tally))
        return false;
    struct ages_entries entries = entries_of(volume, ages, row);
    if (volume->upkeep.counting.again) {
        change = ages_move(ages, row->ordinal, record.tally, &entries);
        note(volume, &change);
        change = (struct tally_change){ record.tally, -change.records, -change.objects,
                                        -change.bytes };
    } else {
        change = ages_are_counting(ages) ? ages_count(ages, &record, &entries)
                                         : ages_adopt(ages, record.tally, &entries);
    }
    note(volume, &change);
    return true;
}

/* To be called when every record is counted. If buckets were split in another way meanwhile, the
 * walk begins again, and gives all records their tally. */
static bool begin_again(struct volume *volume)
{
    uint32_t layout = tallies_layout(volume_tallies(volume));
    struct counting *counting = &volume->upkeep.counting;
    bool again = layout != counting->layout;
    if (again)    /* before the layout changes: the two together say that all is counted in it */
        set_counted(volume, false);
    counting->again = again;
    counting->layout = layout;
    counting->extent = 0;
    if (again)
        list_extents(volume);
    else
        set_counted(volume, true);
    return again;
}

bool account_count(struct volume *volume)
{
    struct counting *counting = &volume->upkeep.counting;
    if (counting->next.ordinal == counting->toc.count && !find_next_extent(volume))
        return begin_again(volume);
    struct ages *ages = extent_ages(volume->extents, counting->extent);
    struct toc_row row;
    pthread_mutex_lock(&volume->pinned.lock);
    for (uint32_t cost = 0; cost < COUNT_BATCH && ages; cost++) {
        struct toc_cursor next = counting->next;
        bool more = toc_next(&next, &row);
        if (more && !count_row(volume, ages, &row, &cost))
            break;    /* the row comes again */
        counting->next = next;
        if (!more)
            break;
    }
    pthread_mutex_unlock(&volume->pinned.lock);
    if (!ages)    /* it was recycled meanwhile */
        begin_extent(volume, counting->extent);
    else if (counting->next.ordinal == counting->toc.count) {
        ages_set_counting(ages, false);
        weigh(volume, counting->extent);
    }
    return true;
}
