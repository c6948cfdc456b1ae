/* hints_file.c - which nodes have all hints, for the next process.
 * SPDX-License-Identifier: Apache-2.0 */
#include "peers/hints_file.h"

#include <string.h>
#include <unistd.h>

#include "base/crc.h"
#include "base/log.h"
#include "store/folder_files.h"
#include "store/job_folder.h"

#define NAME "hints"
#define FILE_BYTES_MAX (1u << 20)

/* Returns OK with the ids in the file, perhaps none; or ERR_NOT_FOUND if there is no file. */
static enum err read_file(struct store *store, size_t folder, struct arena *keep, slice *ret)
{
    int dir;
    uint32_t crc;
    enum err err = store_peer_folder(store, folder, &dir);
    *ret = S("");
    if (err)
        return OK;    /* nobody knows: some hints may have been lost */
    err = folder_read(dir, NAME, FILE_BYTES_MAX, keep, ret);
    close(dir);
    if (err == ERR_NOT_FOUND)
        return err;
    size_t ids = !err && ret->len >= sizeof(crc) ? ret->len - sizeof(crc) : 0;
    if (ids)
        memcpy(&crc, ret->ptr + ids, sizeof(crc));
    bool good = ids % NODE_ID_BYTES == 0 && ids && crc32c(0, ret->ptr, ids) == crc;
    *ret = good ? slice_sub(*ret, 0, ids) : S("");
    return OK;
}

void hints_file_load(struct store *store, struct hints *hints, uint64_t now_ms)
{
    struct arena keep = { 0 };
    slice ids = { NULL, 0 }, more;
    for (size_t i = 0; store && i < store_folder_count(store); i++)
        if (read_file(store, i, &keep, &more) == OK)
            ids = !ids.ptr || slice_eq(ids, more) ? more : S("");
    if (ids.ptr)
        hints_inherit(hints, (const uint8_t (*)[NODE_ID_BYTES])ids.ptr, ids.len / NODE_ID_BYTES,
                      now_ms);
    arena_free(&keep);
}

static void write_files(struct store *store, slice ids)
{
    struct arena keep = { 0 };
    struct text text = text_in(&keep);
    uint32_t crc = crc32c(0, ids.ptr, ids.len);
    text_add(&text, ids);
    text_add(&text, (slice){ (const char *)&crc, sizeof(crc) });
    for (size_t i = 0; store && i < store_folder_count(store); i++) {
        int dir;
        enum err err = store_peer_folder(store, i, &dir);
        if (!err) {
            err = folder_write(dir, NAME, text.ptr, text.len);
            close(dir);
        }
        if (err)
            log_warn("peer_hints_unwritten", "folder=%zu err=%s why=\"the note of writes that "
                     "other nodes must hear of could not be written to this cache folder (counted "
                     "from 1, in the order of the settings). Check its free space and the health of its "
                     "disk\"", i + 1, err_name(err));
    }
    arena_free(&keep);
}

void hints_file_mark(struct store *store)
{
    write_files(store, S(""));
}

void hints_file_save(struct store *store, struct hints *hints)
{
    struct arena keep = { 0 };
    uint8_t (*ids)[NODE_ID_BYTES];
    size_t count;
    if (hints_settled(hints, &keep, &ids, &count))
        write_files(store, (slice){ (const char *)ids, count * NODE_ID_BYTES });
    arena_free(&keep);
}
