/* parts.c - the ranges of the parts of an object. SPDX-License-Identifier: Apache-2.0
 *
 * A fixed table (3 MiB, rule H8 in src/README.md) of rows with WAYS entries each. If a row is full,
 * its entries are replaced in turn. An entry counts only for its version, known by ETag, size and
 * time. */
#include "cache/parts.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/metric.h"

#define ROWS 4096u
#define WAYS 4u

struct entry {
    struct object_id id;
    uint32_t number;              /* 0: free */
    uint64_t etag_hash, mark;
    struct part part;
};

struct parts {
    pthread_mutex_t lock;
    unsigned turn;
    struct entry entries[ROWS][WAYS];
};

struct parts *parts_new(void)
{
    struct parts *parts = must_alloc(sizeof(*parts));
    pthread_mutex_init(&parts->lock, NULL);
    return parts;
}

void parts_free(struct parts **parts)
{
    if (!*parts)
        return;
    pthread_mutex_destroy(&(*parts)->lock);
    free(*parts);
    *parts = NULL;
}

static struct entry *row_of(struct parts *parts, const struct metadata *metadata, unsigned number)
{
    uint32_t hash;
    memcpy(&hash, metadata->id.bytes + 4, sizeof(hash));
    return parts->entries[(hash + number) % ROWS];
}

static bool is_of(const struct entry *entry, const struct metadata *metadata, unsigned number)
{
    return entry->number == number && memcmp(&entry->id, &metadata->id, sizeof(metadata->id)) == 0;
}

void parts_note(struct parts *parts, const struct metadata *metadata, unsigned number,
                const struct part *part)
{
    check(number > 0 && part->first <= part->end);    /* number 0: a free entry */
    pthread_mutex_lock(&parts->lock);
    struct entry *row = row_of(parts, metadata, number), *room = NULL;
    for (size_t i = 0; i < WAYS; i++)
        if (is_of(&row[i], metadata, number) || (!room && !row[i].number))
            room = &row[i];
    if (!room) {
        room = &row[parts->turn++ % WAYS];
        metric_add(M_PARTS_EVICTED, 1);
    }
    *room = (struct entry){ metadata->id, number, metadata->etag_hash,
                            metadata_mark(metadata->size, metadata->modified_s), *part };
    pthread_mutex_unlock(&parts->lock);
}

bool parts_find(struct parts *parts, const struct metadata *metadata, unsigned number,
                struct part *ret)
{
    bool found = false;
    pthread_mutex_lock(&parts->lock);
    struct entry *row = row_of(parts, metadata, number);
    for (size_t i = 0; i < WAYS && !found; i++) {
        found = is_of(&row[i], metadata, number) &&
                metadata_is_of(metadata, row[i].etag_hash, row[i].mark);
        if (found)
            *ret = row[i].part;
    }
    pthread_mutex_unlock(&parts->lock);
    return found;
}
