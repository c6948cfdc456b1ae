/* dir_walk.c - the keys of a directory tree in order, a page at a time.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A listing is in the byte order of whole keys, but a directory returns its entries in no order. So
 * a directory is read as a whole, and the smallest entries after the cursor (see below) are kept,
 * sorted, as a window. Names are compared as they are in keys, with a '/' after the name of a
 * directory: "a-b" < "a/b". To find the entries after a window, the directory is read again, from
 * the cursor's new place. So the memory depends on the size of the requested page and the depth of
 * the tree, not on the number of files.
 *
 * The cursor alone tells which keys are already listed: every key up to `after`, and, if `after` is
 * a rolled-up prefix (an entry of CommonPrefixes), every key that begins with it. The continuation
 * token is this cursor as text. A directory is not opened if all its keys are already listed, or if
 * none can have the prefix. */
#include "origin/dir_walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "s3/encode.h"

#define ROLLED_WINDOW 16            /* small, because one key is enough for a rolled-up prefix */

struct walk {
    struct arena *keep;
    int bucket;
    const struct dir_ask *ask;
    _Atomic enum err *stopped;
    char after[S3_KEY_BYTES_MAX + 1];  /* the cursor */
    size_t after_len;
    bool after_rolled;
    struct dir_item *items;  /* room for ask->max + 1; the last item only shows that more follow */
    size_t count;
};

/* ---- the cursor ---- */

/* Sets *ret to the prefix that `key` is rolled up into, and returns true. Returns false if the key
 * is listed itself. */
static bool roll(const struct dir_ask *ask, slice key, slice *ret)
{
    if (!ask->delimiter.len || !slice_starts(key, ask->prefix))
        return false;
    slice rest = slice_from(key, ask->prefix.len);
    size_t at = slice_find(rest, ask->delimiter);
    if (at == rest.len)
        return false;
    *ret = slice_sub(key, 0, ask->prefix.len + at + ask->delimiter.len);
    return true;
}

static slice cursor(const struct walk *walk)
{
    return (slice){ walk->after, walk->after_len };
}

static void move_cursor(struct walk *walk, slice key, bool rolled)
{
    check(key.len <= S3_KEY_BYTES_MAX);
    if (key.len)
        memmove(walk->after, key.ptr, key.len);
    walk->after_len = key.len;
    walk->after_rolled = rolled;
}

/* Returns true if this key, or everything in this directory, is already listed. */
static bool behind_cursor(const struct walk *walk, slice key, bool is_dir)
{
    slice after = cursor(walk);
    if (walk->after_rolled && slice_starts(key, after))
        return true;
    if (is_dir)
        return slice_cmp(key, after) < 0 && !slice_starts(after, key);
    return after.len > 0 && slice_cmp(key, after) <= 0;
}

static bool may_match(const struct walk *walk, slice key, bool is_dir)
{
    slice prefix = walk->ask->prefix;
    return slice_starts(key, prefix) || (is_dir && slice_starts(prefix, key));
}

slice dir_token(struct arena *keep, const struct dir_item *last)
{
    char *token = arena_alloc(keep, 2 * last->key.len + 1);
    token[0] = last->rolled ? 'p' : 'k';
    hex_write((const uint8_t *)last->key.ptr, last->key.len, token + 1);
    return (slice){ token, 2 * last->key.len + 1 };
}

static enum err read_token(struct walk *walk, slice token)
{
    size_t bytes = token.len / 2;
    if (token.len % 2 == 0 || bytes > S3_KEY_BYTES_MAX ||
        (token.ptr[0] != 'k' && token.ptr[0] != 'p') ||
        !slice_unhex(slice_from(token, 1), (uint8_t *)walk->after, bytes))
        return ERR_BAD_ARGUMENT;
    walk->after_len = bytes;
    walk->after_rolled = token.ptr[0] == 'p';
    return OK;
}

static enum err start_cursor(struct walk *walk)
{
    const struct dir_ask *ask = walk->ask;
    if (ask->token.len)
        return read_token(walk, ask->token);
    slice after = ask->v2 ? ask->start_after : ask->marker, rolled;
    move_cursor(walk, slice_sub(after, 0, S3_KEY_BYTES_MAX), false);
    walk->after_rolled = roll(ask, cursor(walk), &rolled) && rolled.len == walk->after_len;
    return OK;
}

/* ---- one directory ---- */

struct entry {
    char *name;             /* ends with '/' for a directory */
    size_t len;
    bool is_dir, is_link;
};

struct window {             /* the smallest entries, sorted; while reading, up to 2 * cap */
    struct entry *entries;
    size_t count, cap;
    bool more;              /* larger entries were left out */
};

static int entry_order(const void *a, const void *b)
{
    const struct entry *left = a, *right = b;
    return slice_cmp((slice){ left->name, left->len }, (slice){ right->name, right->len });
}

static void window_cut(struct window *window)
{
    qsort(window->entries, window->count, sizeof(*window->entries), entry_order);
    for (; window->count > window->cap; window->more = true)
        free(window->entries[--window->count].name);
}

static void window_free(struct window *window)
{
    for (size_t i = 0; i < window->count; i++)
        free(window->entries[i].name);
    free(window->entries);
}

static void window_add(struct window *window, slice name, bool is_link)
{
    check(window->count < 2 * window->cap && name.len > 0);
    window->entries[window->count++] = (struct entry){
        .name = must_strndup(name.ptr, name.len), .len = name.len,
        .is_dir = name.ptr[name.len - 1] == '/', .is_link = is_link,
    };
    if (window->count == 2 * window->cap)
        window_cut(window);
}

/* A key is UTF-8, so a file whose name is not UTF-8 is not listed. */
static bool is_utf8(slice s)
{
    uint32_t code;
    size_t len = 1;
    for (; s.len && len; s = slice_from(s, len))
        len = utf8_read(s, &code);
    return len > 0;
}

/* Returns DT_DIR, DT_REG or DT_LNK, or any other value if the entry is never listed. */
static int type_of(int fd, const struct dirent *found)
{
    struct stat file;
    if (found->d_type != DT_UNKNOWN)
        return found->d_type;
    if (fstatat(fd, found->d_name, &file, AT_SYMLINK_NOFOLLOW) != 0)
        return DT_UNKNOWN;
    return S_ISDIR(file.st_mode) ? DT_DIR : S_ISREG(file.st_mode) ? DT_REG
         : S_ISLNK(file.st_mode) ? DT_LNK : DT_UNKNOWN;
}

/* Fills the window with the entries that can be listed next. `path` is the directory's path, and so
 * the start of every key in it. If the whole directory rolls up into one prefix, any one file after
 * the cursor is enough. */
static enum err window_read(struct walk *walk, DIR *dir, slice path, bool rolls,
                            struct window *window)
{
    char key[S3_KEY_BYTES_MAX + NAME_MAX + 2];
    memcpy(key, path.ptr, path.len);
    enum err e = OK;
    rewinddir(dir);
    for (struct dirent *found; (found = file_next(dir, &e)) != NULL;) {
        if (atomic_load_explicit(walk->stopped, memory_order_relaxed))
            return ERR_CANCELED;
        size_t len = strlen(found->d_name);
        int type = type_of(dirfd(dir), found);
        bool is_dir = type == DT_DIR;
        if ((!is_dir && type != DT_REG && type != DT_LNK) ||
            path.len + len + is_dir > S3_KEY_BYTES_MAX)
            continue;
        memcpy(key + path.len, found->d_name, len);
        key[path.len + len] = '/';
        slice whole = { key, path.len + len + is_dir }, name = slice_from(whole, path.len);
        if (behind_cursor(walk, whole, is_dir) || !may_match(walk, whole, is_dir) || !is_utf8(name))
            continue;
        window_add(window, name, type == DT_LNK);
        if (rolls && type == DT_REG) {
            window->more = true;
            break;
        }
    }
    if (e)
        return ERR_IO;
    window_cut(window);
    return OK;
}

/* ---- the walk ---- */

static bool is_full(const struct walk *walk)
{
    return walk->count > walk->ask->max;
}

/* Returns true and sets *ret if the entry is a regular file, or a link to a regular file inside the
 * bucket. */
static bool stat_entry(const struct walk *walk, int dir, const struct entry *entry, const char *key,
                       struct stat *ret)
{
    if (!entry->is_link)
        return fstatat(dir, entry->name, ret, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(ret->st_mode);
    int fd = dir_open(walk->bucket, key, O_PATH, true);
    bool is_file = fd >= 0 && fstat(fd, ret) == 0 && S_ISREG(ret->st_mode);
    if (fd >= 0)
        close(fd);
    return is_file;
}

static void list_file(struct walk *walk, int dir, const struct entry *entry, slice key)
{
    struct dir_item item = { 0 };
    slice listed = key;
    check(walk->count <= walk->ask->max);
    if (!stat_entry(walk, dir, entry, key.ptr, &item.file))
        return;    /* the entry was just removed, or is no file */
    item.rolled = roll(walk->ask, key, &listed);
    item.key = arena_copy(walk->keep, listed);
    walk->items[walk->count++] = item;
    move_cursor(walk, listed, item.rolled);
}

static enum err walk_dir(struct walk *walk, DIR *take_dir, slice path);

static enum err walk_entry(struct walk *walk, int dir, slice key, const struct entry *entry)
{
    if (behind_cursor(walk, key, entry->is_dir))
        return OK;    /* the window is older: a listed prefix includes the key */
    if (!entry->is_dir) {
        list_file(walk, dir, entry, key);
        return OK;
    }
    int fd = dir_open(dir, entry->name, O_RDONLY | O_DIRECTORY, false);
    DIR *below = fd >= 0 ? fdopendir(fd) : NULL;
    if (below)
        return walk_dir(walk, below, key);
    bool failed = errno == EMFILE || errno == ENFILE || errno == EIO;
    return failed ? ERR_IO : OK;    /* not listed: it was removed, or may not be read */
}

/* Walks an entry, and moves the cursor past it; for a directory, past everything in it. */
static enum err pass(struct walk *walk, int dir, slice path, const struct entry *entry)
{
    char text[S3_KEY_BYTES_MAX + 1];
    slice key = { text, path.len + entry->len };
    check(key.len <= S3_KEY_BYTES_MAX);    /* window_read left out longer keys */
    slice_put(text, path);
    memcpy(text + path.len, entry->name, entry->len);
    text[key.len] = '\0';
    enum err e = walk_entry(walk, dir, key, entry);
    if (!e && !is_full(walk) && !behind_cursor(walk, key, entry->is_dir))
        move_cursor(walk, key, entry->is_dir);
    return e;
}

static enum err walk_dir(struct walk *walk, DIR *dir, slice path)
{
    slice rolled;
    bool rolls = roll(walk->ask, path, &rolled);
    enum err e = OK;
    for (bool more = true; more && !e && !is_full(walk);) {
        struct window window = { .cap = rolls ? ROLLED_WINDOW : walk->ask->max + 1 - walk->count };
        window.entries = must_alloc(2 * window.cap * sizeof(*window.entries));
        e = window_read(walk, dir, path, rolls, &window);
        more = window.more;
        for (size_t i = 0; i < window.count && !e && !is_full(walk); i++)
            e = pass(walk, dirfd(dir), path, &window.entries[i]);
        if (rolls && behind_cursor(walk, path, true))
            more = false;
        window_free(&window);
    }
    closedir(dir);
    return e;
}

/* Starts the walk in the deepest directory that contains every key with the prefix. */
static enum err walk_bucket(struct walk *walk)
{
    slice path = walk->ask->prefix.len ? walk->ask->prefix : S(""), name = path;
    path.len -= slice_cut_last(&name, '/').len;
    if (path.len > S3_KEY_BYTES_MAX || (path.len && !dir_is_file_name(name)))
        return OK;    /* no file has such a name */
    const char *open_as = path.len ? arena_copy(walk->keep, name).ptr : ".";
    int fd = dir_open(walk->bucket, open_as, O_RDONLY | O_DIRECTORY, false);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (dir)
        return walk_dir(walk, dir, path);
    return errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? OK
         : errno == EACCES ? ERR_DENIED : ERR_IO;
}

enum err dir_walk(struct arena *keep, int bucket, const struct dir_ask *ask,
                  _Atomic enum err *stopped, struct dir_list *ret)
{
    struct walk walk = { .keep = keep, .bucket = bucket, .ask = ask, .stopped = stopped };
    enum err e = start_cursor(&walk);
    if (e)
        return e;
    walk.items = arena_alloc(keep, (ask->max + 1) * sizeof(*walk.items));
    if (ask->max)
        e = walk_bucket(&walk);
    *ret = (struct dir_list){ walk.items, MIN(walk.count, (size_t)ask->max),
                              ask->max > 0 && is_full(&walk) };
    return e;
}
