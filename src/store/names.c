/* names.c - the shared identity for which metadata was learned. SPDX-License-Identifier: Apache-2.0
 *
 * The file has rows of 28 bytes (id of the endpoint, id of the name, number of the highest extent
 * with metadata of another name), then the CRC of the rows. A file that can't be read counts as
 * empty. If the file can't be written, it is removed, so that the next process does not trust an
 * old one. */
#include "store/names.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "base/log.h"

#define NAMES_MAX 256u
static_assert(CONFIG_ORIGINS_MAX <= NAMES_MAX, "a row for each origin");

struct row {
    struct object_id endpoint, name;
    uint32_t others;                  /* extents up to this one have metadata of another name */
};
static_assert(sizeof(struct row) == 28, "on disk");

struct names {
    pthread_mutex_t lock;
    struct row rows[NAMES_MAX];
    bool known[NAMES_MAX];            /* true: the name in the row is known */
    size_t count;
};

struct file {
    struct row rows[NAMES_MAX + 1];   /* and room for the CRC behind them */
    size_t count;
};

struct names *names_new(void)
{
    struct names *names = must_alloc(sizeof(*names));
    pthread_mutex_init(&names->lock, NULL);
    return names;
}

void names_free(struct names **names)
{
    pthread_mutex_destroy(&(*names)->lock);
    free(*names);
    *names = NULL;
}

static void id_of(const uint8_t secret[STORE_SECRET_BYTES], slice endpoint, slice name,
                  struct object_id *ret)
{
    object_id_of(secret, &(struct object_name){ .endpoint = endpoint, .version = name }, ret);
}

static bool same(const struct object_id *a, const struct object_id *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

static struct row *find(struct row *rows, size_t count, const struct object_id *endpoint)
{
    for (size_t i = 0; i < count; i++)
        if (same(&rows[i].endpoint, endpoint))
            return &rows[i];
    return NULL;
}

/* If an endpoint has two names, its name counts as not known: the metadata may be of either. */
static void add(struct names *names, const uint8_t secret[STORE_SECRET_BYTES],
                const struct store_name *name)
{
    struct row row = { .others = UINT32_MAX };
    id_of(secret, name->endpoint, S(""), &row.endpoint);
    id_of(secret, name->endpoint, name->name, &row.name);
    struct row *there = find(names->rows, names->count, &row.endpoint);
    if (there) {
        names->known[there - names->rows] &= same(&there->name, &row.name);
        return;
    }
    check(names->count < NAMES_MAX);
    names->known[names->count] = name->name.len > 0;
    names->rows[names->count++] = row;
}

void names_set(struct names *names, const uint8_t secret[STORE_SECRET_BYTES],
               const struct store_name *list, size_t count)
{
    pthread_mutex_lock(&names->lock);
    for (size_t i = 0; i < count; i++)
        add(names, secret, &list[i]);
    pthread_mutex_unlock(&names->lock);
}

static void write_rows(const struct folder *folder, struct file *file)
{
    if (folder_write_rows(folder, "names", file->rows, sizeof(struct row), file->count) != OK) {
        unlinkat(folder->fd, "names", 0);
        log_warn("names", "why=\"%s/names could not be written, so Penstock revalidates each "
                 "object of this folder once after the next start. Check the free space and the "
                 "health of the disk\"",
                 folder->path);
    }
}

/* Sets row->others: from the file, if it has the endpoint with the same name; otherwise to
 * `others`. Then brings the file's row up to date, if the name is known. Returns true if that
 * changed the file's rows. */
static bool apply(struct row *row, bool known, struct file *file, uint32_t others)
{
    struct row *there = find(file->rows, file->count, &row->endpoint);
    row->others = there && known && same(&there->name, &row->name) ? there->others : others;
    if (!known || (there && memcmp(there, row, sizeof(*row)) == 0))
        return false;
    if (!there && file->count == NAMES_MAX)
        there = &file->rows[0];    /* the name of that endpoint will count as changed */
    *(there ? there : &file->rows[file->count++]) = *row;
    return true;
}

enum err names_look(int folder)
{
    struct file file;
    return folder_read_rows(folder, "names", file.rows, sizeof(struct row), NAMES_MAX, &file.count);
}

void names_apply(struct names *names, const struct folder *folder)
{
    struct file file = { 0 };
    bool news = false;
    uint32_t others = extents_highest(folder->extents);
    pthread_mutex_lock(&names->lock);
    (void)!folder_read_rows(folder->fd, "names", file.rows, sizeof(struct row), NAMES_MAX,
                            &file.count);
    for (size_t i = 0; folder->doubted && i < file.count; i++, news = true)
        file.rows[i].others = others;
    for (size_t i = 0; i < names->count; i++)
        news |= apply(&names->rows[i], names->known[i], &file, others);
    if (news)
        write_rows(folder, &file);
    pthread_mutex_unlock(&names->lock);
}

bool names_are_others(struct names *names, const uint8_t secret[STORE_SECRET_BYTES],
                      const struct metadata *metadata, uint32_t extent)
{
    struct object_id id;
    slice rest = metadata->name;
    id_of(secret, slice_cut(&rest, '\0'), S(""), &id);
    pthread_mutex_lock(&names->lock);
    const struct row *row = find(names->rows, names->count, &id);
    bool others = row && extent <= row->others;
    pthread_mutex_unlock(&names->lock);
    return others;
}
