/* publish.c - changes of the index: for records, removals, recycled extents.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The rules of penstock-format(5): the later commit of a unit replaces the earlier one. A WHOLE
 * record replaces the units that it holds, and a metadata record. Any other record of the object
 * replaces WHOLE. Units may stay longer than their metadata: they count only while their ETag hash
 * equals that of the present metadata. Committer only. */
#include "store/publish.h"

/* Deletes an entry. It is no error if the entry is missing. */
static enum err drop(struct index *index, const struct object_id *id, uint32_t unit)
{
    enum err e = index_delete(index, id, unit);
    return e == ERR_NOT_FOUND ? OK : e;
}

/* `only_missing`: entries that exist stay as they are. */
static enum err put_units(struct index *index, const struct record *record, uint32_t offset,
                          uint32_t generation, bool refused, bool only_missing)
{
    enum err e = OK;
    for (uint32_t i = 0; !e && i < record_units(record); i++) {
        struct entry entry, there;
        uint32_t unit;
        record_entry(record, offset, i, generation, &unit, &entry);
        entry.refused = refused && record->kind != KIND_UNITS;
        e = only_missing ? index_find(index, &record->id, unit, &there) : ERR_NOT_FOUND;
        if (e == ERR_NOT_FOUND)
            e = index_put(index, &record->id, unit, &entry);
    }
    return e;
}

/* Deletes the units 1 to 7 and the entry of a metadata record. Most often there are none, and one
 * look-up finds that out. */
static enum err drop_behind_whole(struct index *index, const struct object_id *id)
{
    struct entry entry;
    uint32_t from = 1, unit;
    for (;;) {
        enum err e = index_find_next(index, id, from, &unit, &entry);
        if (e == ERR_NOT_FOUND)
            return OK;
        if (!e && (unit < RECORD_UNITS || unit == METADATA_UNIT))
            e = drop(index, id, unit);
        if (e || unit == METADATA_UNIT)
            return e;
        from = unit < RECORD_UNITS ? unit + 1 : METADATA_UNIT;
    }
}

static enum err drop_whole(struct index *index, const struct object_id *id)
{
    struct entry entry;
    enum err e = index_find(index, id, 0, &entry);
    if (!e && entry.whole)
        e = drop(index, id, 0);
    return e == ERR_NOT_FOUND ? OK : e;
}

enum err publish_record(struct index *index, const struct record *record, uint32_t offset,
                        uint32_t generation, bool refused)
{
    enum err e = record->kind == KIND_WHOLE ? drop_behind_whole(index, &record->id)
                                            : drop_whole(index, &record->id);
    return e ? e : put_units(index, record, offset, generation, refused, false);
}

enum err publish_find_metadata(struct index *index, const struct object_id *id, uint32_t *ret_unit,
                               struct entry *ret)
{
    *ret_unit = 0;
    enum err e = index_find(index, id, 0, ret);
    if (e == ERR_NOT_FOUND || (!e && !ret->whole)) {
        *ret_unit = METADATA_UNIT;
        e = index_find(index, id, METADATA_UNIT, ret);
    }
    return e;
}

enum err publish_found(struct index *index, const struct record *record, uint32_t offset,
                       uint32_t generation)
{
    struct entry metadata;
    uint32_t unit;
    enum err e = publish_find_metadata(index, &record->id, &unit, &metadata);
    if (e && e != ERR_NOT_FOUND)
        return e;
    if (!e && (metadata.whole || record->kind != KIND_UNITS))
        return OK;
    return record->kind == KIND_WHOLE
               ? publish_record(index, record, offset, generation, true)
               : put_units(index, record, offset, generation, true, true);
}

enum err publish_removal(struct index *index, const struct object_id *id)
{
    enum err e = drop_whole(index, id);
    return e ? e : drop(index, id, METADATA_UNIT);
}

enum err publish_refusal(struct index *index, const struct object_id *id)
{
    struct entry entry;
    uint32_t unit;
    enum err e = publish_find_metadata(index, id, &unit, &entry);
    if (e)
        return e == ERR_NOT_FOUND ? OK : e;
    entry.refused = true;
    return index_put(index, id, unit, &entry);
}

static enum err find_entry(struct index *index, const struct named_entry *named, struct entry *ret)
{
    enum err e = index_find(index, &named->id, named->unit, ret);
    bool another = !e && (ret->extent != named->extent || ret->ordinal != named->ordinal);
    return another ? ERR_NOT_FOUND : e;
}

enum err publish_forget(struct index *index, const struct named_entry *named)
{
    struct entry entry;
    enum err e = find_entry(index, named, &entry);
    if (!e)
        e = index_delete(index, &named->id, named->unit);
    return e == ERR_NOT_FOUND ? OK : e;
}

enum err publish_proof(struct index *index, const struct named_entry *named, uint32_t generation,
                       bool granted)
{
    struct entry entry;
    enum err e = find_entry(index, named, &entry);
    if (e)
        return e == ERR_NOT_FOUND ? OK : e;
    entry.refused |= entry.generation != generation && !granted;
    entry.generation = generation;
    return index_put(index, &named->id, named->unit, &entry);
}

enum err publish_granted(struct index *index, const struct named_entry *named)
{
    struct entry entry;
    enum err e = find_entry(index, named, &entry);
    if (e)
        return e == ERR_NOT_FOUND ? OK : e;
    entry.refused = false;
    return index_put(index, &named->id, named->unit, &entry);
}

enum err publish_recycled(struct index *index, const struct toc_entry *entry, uint32_t extent,
                          uint32_t ordinal)
{
    struct record record = { .kind = entry->kind, .data_len = entry->data_len };
    enum err e = OK;
    for (uint32_t i = 0; !e && i < record_units(&record); i++)
        e = publish_forget(index, &(struct named_entry){ entry->id, entry->first_unit + i, extent,
                                                         ordinal });
    return e;
}

/* Returns another generation than the present one, for an entry that becomes unproved. */
static uint32_t another_generation(uint32_t generation)
{
    return (generation + GENERATIONS - 1) % GENERATIONS;
}

enum err publish_copied(struct index *index, const struct copied *copied, uint32_t generation)
{
    const struct record *record = &copied->record;
    enum err e = OK;
    for (uint32_t i = 0; !e && i < record_units(record); i++) {
        struct entry old, entry;
        uint32_t unit;
        record_entry(record, copied->offset, i, generation, &unit, &entry);
        struct named_entry named = { record->id, unit, copied->old_extent, copied->old_ordinal };
        e = find_entry(index, &named, &old);
        if (e == ERR_NOT_FOUND) {    /* replaced or removed meanwhile */
            e = OK;
            continue;
        }
        old.extent = entry.extent;
        old.offset = entry.offset;
        old.ordinal = entry.ordinal;
        old.refused |= copied->refused;
        if (copied->doubted)
            old.generation = another_generation(generation);
        if (!e)
            e = index_put(index, &record->id, unit, &old);
    }
    return e;
}
