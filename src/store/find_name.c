/* find_name.c - the name of an object of which only the id is known.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Records of units have no name. Their object's metadata has it, and lies in the volume of the
 * object's first stripe, which may be another one. The disk of that volume may hang, and then the
 * committer and the recycler of this one must go on. So a thread of that volume reads the name, and
 * the asking thread waits for a limited time. While the reading thread hangs, nobody waits for it. */
#include "store/find_name.h"

#include <stdlib.h>
#include <string.h>

#include "base/thread.h"
#include "store/inside.h"

/* A question to the thread of another volume. Its lock guards all members but the id. */
struct name_question {
    struct list link;                 /* in `waiting`; the thread takes it out */
    struct object_id id;
    enum found found;
    slice name;                       /* allocated */
    bool taken;
    bool answered;
    bool left;                        /* nobody waits for the answer: the thread frees the question */
};

struct names_reader {
    struct volume *home;
    pthread_mutex_t lock;
    pthread_cond_t more, answered;
    struct list waiting;
    uint64_t busy_since_ms;           /* 0: it reads no name */
    bool stopping;
    pthread_t thread;                 /* 0: not started */
};

/* ---- in the volume of the name ---- */

static bool in_memory(struct volume *home, const struct object_id *id, struct arena *keep,
                      slice *ret)
{
    struct metadata *metadata = metadata_cache_get(home->known.cache, id);
    bool found = metadata != NULL;
    if (found)
        *ret = arena_copy(keep, metadata->name);
    metadata_unref(&metadata);
    return found;
}

/* Reads the record's header, then its metadata block. */
static bool read_block(const struct extent *extent, const struct object_id *id,
                       const struct entry *entry, struct arena *keep, slice *ret)
{
    uint8_t header[RECORD_HEADER_MAX];
    struct record record;
    uint32_t len = record_header_bytes(entry->whole ? entry->len : 0);
    if (len > sizeof(header) || !extent_read(extent, header, len, entry->offset) ||
        record_decode((slice){ (char *)header, len }, &record) != OK ||
        record.metadata_len > METADATA_BLOCK_MAX || memcmp(&record.id, id, sizeof(*id)) != 0)
        return false;
    uint8_t *block = arena_alloc(keep, record.metadata_len + 1);
    *ret = (slice){ (char *)block, record.metadata_len };
    return extent_read(extent, block, record.metadata_len, entry->offset + len) &&
           record.metadata_crc == block_crc(id, record.etag_hash, METADATA_UNIT, block,
                                            record.metadata_len);
}

static enum found read_name(struct volume *home, const struct object_id *id, struct arena *keep,
                            slice *ret)
{
    struct extent *extent;
    struct toc_name name;
    struct entry entry;
    uint32_t unit;
    slice block;
    enum err e = index_get_metadata(home->index, id, &unit, &entry);
    if (!e && extent_hold(home->extents, entry.extent, &extent) != OK)    /* H1 */
        return FOUND_UNKNOWN;
    bool good = !e && read_block(extent, id, &entry, keep, &block) && toc_name_of(block, &name);
    if (!e)
        extent_release(&extent);
    if (good)
        *ret = name.name;
    bool told = volume_is_serving(home) && (!e || e == ERR_NOT_FOUND);
    return good ? FOUND_NAME : told ? FOUND_NOTHING : FOUND_UNKNOWN;
}

/* ---- for other volumes ---- */

static void *reader_run(void *arg)
{
    struct names_reader *reader = arg;
    pthread_mutex_lock(&reader->lock);
    while (!reader->stopping) {
        if (list_empty(&reader->waiting)) {
            pthread_cond_wait(&reader->more, &reader->lock);
            continue;
        }
        struct name_question *question = list_of(list_take(&reader->waiting), struct name_question, link);
        struct arena keep = { 0 };
        slice name = S("");
        question->taken = true;
        reader->busy_since_ms = mono_ms();
        pthread_mutex_unlock(&reader->lock);
        enum found found = read_name(reader->home, &question->id, &keep, &name);
        pthread_mutex_lock(&reader->lock);
        reader->busy_since_ms = 0;
        question->found = found;
        question->answered = true;
        if (question->left)
            free(question);
        else if (found == FOUND_NAME)
            question->name = (slice){ must_strndup(name.ptr, name.len), name.len };
        arena_free(&keep);
        pthread_cond_broadcast(&reader->answered);
    }
    pthread_mutex_unlock(&reader->lock);
    return NULL;
}

/* Under the lock. */
static bool may_answer(struct names_reader *reader)
{
    bool hangs = reader->busy_since_ms && mono_ms() >= reader->busy_since_ms + NAME_MS;
    return !reader->stopping && !hangs &&
           (reader->thread || thread_start(&reader->thread, reader_run, reader, "names"));
}

/* Under the lock. Returns the question when it is answered, or NULL if it was left. */
static struct name_question *wait_for(struct names_reader *reader, struct name_question *question)
{
    uint64_t until = mono_ns() + NAME_MS * 1000000u;
    while (!question->answered && mono_ns() < until)
        cond_wait_until(&reader->answered, &reader->lock, until);
    if (question->answered)
        return question;
    question->left = question->taken;
    if (!question->taken) {
        list_del(&question->link);
        free(question);
    }
    return NULL;
}

static enum found ask(struct names_reader *reader, const struct object_id *id, struct arena *keep,
                      slice *ret)
{
    enum found found = FOUND_SILENT;
    struct name_question *question = NULL;
    pthread_mutex_lock(&reader->lock);
    if (may_answer(reader)) {
        question = must_alloc(sizeof(*question));
        *question = (struct name_question){ .id = *id };
        list_add(&reader->waiting, &question->link);
        pthread_cond_signal(&reader->more);
        question = wait_for(reader, question);
    }
    pthread_mutex_unlock(&reader->lock);
    if (question) {
        found = question->found;
        *ret = arena_copy(keep, question->name);
        free((char *)question->name.ptr);
        free(question);
    }
    return found;
}

struct names_reader *names_reader_new(struct volume *home)
{
    struct names_reader *reader = must_alloc(sizeof(*reader));
    *reader = (struct names_reader){ .home = home };
    pthread_mutex_init(&reader->lock, NULL);
    pthread_cond_init(&reader->more, NULL);
    pthread_cond_init(&reader->answered, NULL);
    list_init(&reader->waiting);
    return reader;
}

void names_reader_free(struct names_reader **reader)
{
    struct names_reader *mine = *reader;
    *reader = NULL;
    if (!mine)
        return;
    pthread_mutex_lock(&mine->lock);
    mine->stopping = true;
    pthread_cond_signal(&mine->more);
    pthread_mutex_unlock(&mine->lock);
    if (mine->thread)
        pthread_join(mine->thread, NULL);
    pthread_cond_destroy(&mine->more);
    pthread_cond_destroy(&mine->answered);
    pthread_mutex_destroy(&mine->lock);
    free(mine);
}

enum found find_name(struct volume *volume, const struct object_id *id, struct arena *keep,
                     slice *ret)
{
    struct volume *home = store_home(store_of(volume), id);
    if (in_memory(home, id, keep, ret))
        return FOUND_NAME;
    if (!volume_is_serving(home))
        return FOUND_UNKNOWN;
    return home == volume ? read_name(home, id, keep, ret) : ask(home->known.reader, id, keep, ret);
}
