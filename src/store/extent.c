/* extent.c - append-only files of records: the table of them. SPDX-License-Identifier: Apache-2.0
 *
 * The table holds one reference to each extent; readers take theirs under its lock (H1). Dropping takes
 * the extent out of the table and unlinks the file; its descriptor is closed, and its bytes are no
 * longer counted, when the last reference goes. Numbers come from the highest file name + 1, so the
 * highest is never unlinked before a higher one exists, and an address in a recycled extent finds
 * nothing instead of other bytes.
 *
 * Descriptors: a quarter of what the process may have, at most 4,096, whatever the number of extents.
 * Who holds an extent to read it has its file open; of those that nobody holds the one held longest
 * ago is closed for another. Running out of descriptors says nothing about what lies in an extent.
 *
 * A sealed extent is one whose last 64 bytes are the footer of its table of contents. What a scan of
 * record headers finds in an unsealed one is what its table would say. Writing is in log.c.
 *
 * Threads: the lock guards the chains, the list of open ones and descriptors; a descriptor changes only
 * while the table's is the only reference, or is set by the first who holds it. All else but times and
 * references is the committer's. Files are opened outside the lock, under folder_lock (taken first). */
#include "store/extent.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/metric.h"
#include "store/extent_inside.h"

#define FDS_MAX 4096u
#define FDS_MIN 4u
#define FDS_SHARE 4u                  /* of the process's limit: connections need theirs */
#define WINDOW_BYTES 16384u
#define TIME_BASE_S 1577836800        /* 2020: times are kept as 32 bits from here */

/* ---- the table ---- */

static uint32_t fds_allowed(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return FDS_MIN;
    return (uint32_t)MAX(FDS_MIN, MIN(FDS_MAX, files.rlim_cur / FDS_SHARE));
}

struct extents *extents_new(void)
{
    struct extents *all = must_alloc(sizeof(*all));
    pthread_mutex_init(&all->lock, NULL);
    pthread_rwlock_init(&all->folder_lock, NULL);
    list_init(&all->open);
    all->fds_max = fds_allowed();
    all->folder_fd = -1;
    return all;
}

void extents_free(struct extents **all)
{
    if (!*all)
        return;
    extents_close(*all);
    pthread_rwlock_destroy(&(*all)->folder_lock);
    pthread_mutex_destroy(&(*all)->lock);
    free(*all);
    *all = NULL;
}

static struct extent **place_of(struct extents *all, uint32_t number)
{
    struct extent **at = &all->chains[number % CHAINS];
    while (*at && (*at)->number != number)
        at = &(*at)->next;
    return at;
}

struct extent *extent_find(struct extents *all, uint32_t number)
{
    return *place_of(all, number);
}

bool extent_is_there(struct extents *all, uint32_t number)
{
    return extent_find(all, number) != NULL;
}

static void ref(struct extent *extent)
{
    atomic_fetch_add_explicit(&extent->refs, 1, memory_order_relaxed);
}

static void close_fd(struct extents *all, int fd)
{
    close(fd);
    atomic_fetch_sub(&all->fds, 1);
}

/* ---- descriptors ---- */

/* Of the extents that nobody reads, the one held longest ago. false: all are being read. */
static bool close_idle(struct extents *all)
{
    int fd = -1;
    pthread_mutex_lock(&all->lock);
    list_each_safe(struct extent, extent, &all->open, open) {
        if (atomic_load_explicit(&extent->refs, memory_order_acquire) > 1)
            continue;
        fd = extent->fd;
        extent->fd = -1;
        list_del(&extent->open);
        break;
    }
    pthread_mutex_unlock(&all->lock);
    if (fd >= 0)
        close_fd(all, fd);
    return fd >= 0;
}

static bool reserve_fd(struct extents *all)
{
    if (atomic_fetch_add(&all->fds, 1) < all->fds_max || close_idle(all))
        return true;
    atomic_fetch_sub(&all->fds, 1);
    return false;
}

enum err extent_open_file(struct extents *all, uint32_t number, int flags, int *ret)
{
    char name[16];
    snprintf(name, sizeof(name), "%08x", number);
    bool is_short;
    do {
        *ret = openat(all->folder_fd, name, flags | O_CLOEXEC, 0600);
        is_short = *ret < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM);
    } while (is_short && close_idle(all));
    if (*ret >= 0)
        return OK;
    return is_short ? ERR_LIMIT : errno == ENOSPC || errno == EDQUOT ? ERR_FULL : ERR_IO;
}

static enum err open_old(struct extents *all, uint32_t number, int *ret)
{
    enum err e = extent_open_file(all, number, O_RDWR, ret);
    return e == ERR_IO ? extent_open_file(all, number, O_RDONLY, ret) : e;
}

static bool is_listed(struct extent *extent)
{
    pthread_mutex_lock(&extent->all->lock);
    bool listed = extent_find(extent->all, extent->number) == extent;
    pthread_mutex_unlock(&extent->all->lock);
    return listed;
}

/* A file that others have opened meanwhile is open: the second descriptor goes. */
static void set_fd(struct extent *extent, int fd)
{
    struct extents *all = extent->all;
    pthread_mutex_lock(&all->lock);
    bool first = extent->fd < 0;
    if (first)
        extent->fd = fd;
    if (first && extent_find(all, extent->number) == extent)
        list_add(&all->open, &extent->open);
    pthread_mutex_unlock(&all->lock);
    if (!first)
        close_fd(all, fd);
}

/* One that has left the table leaves no file that could be opened: its number may be another folder's. */
static enum err open_held(struct extent *extent)
{
    struct extents *all = extent->all;
    int fd;
    if (!reserve_fd(all))
        return ERR_LIMIT;
    pthread_rwlock_rdlock(&all->folder_lock);
    enum err e = is_listed(extent) ? open_old(all, extent->number, &fd) : ERR_NOT_FOUND;
    pthread_rwlock_unlock(&all->folder_lock);
    if (e)
        atomic_fetch_sub(&all->fds, 1);
    else
        set_fd(extent, fd);
    return e == OK || e == ERR_LIMIT ? e : ERR_NOT_FOUND;
}

enum err extent_hold(struct extents *all, uint32_t number, struct extent **ret)
{
    pthread_mutex_lock(&all->lock);
    struct extent *extent = extent_find(all, number);
    bool open = extent && extent->fd >= 0;
    if (extent)
        ref(extent);
    if (open) {
        list_del(&extent->open);
        list_add(&all->open, &extent->open);
    }
    pthread_mutex_unlock(&all->lock);
    enum err e = !extent ? ERR_NOT_FOUND : open ? OK : open_held(extent);
    if (e == ERR_LIMIT)
        metric_add(M_STORE_NO_FD, 1);
    if (e)
        extent_release(&extent);
    *ret = extent;
    return e;
}

struct extent *extent_hold_again(struct extent *extent)
{
    check(atomic_fetch_add_explicit(&extent->refs, 1, memory_order_relaxed) > 0);
    return extent;
}

void extent_release(struct extent **held)
{
    struct extent *extent = *held;
    *held = NULL;
    if (!extent || atomic_fetch_sub_explicit(&extent->refs, 1, memory_order_acq_rel) > 1)
        return;
    if (extent->fd >= 0)
        close_fd(extent->all, extent->fd);
    atomic_fetch_sub(&extent->all->bytes, atomic_load(&extent->bytes));
    for (size_t i = 0; i < TIME_CHUNKS; i++)
        free(atomic_load_explicit(&extent->times[i], memory_order_relaxed));
    free(extent);
}

int extent_fd(const struct extent *extent)
{
    return extent->fd;
}

uint32_t extent_number(const struct extent *extent)
{
    return extent->number;
}

uint64_t extent_size(const struct extent *extent)
{
    return atomic_load_explicit(&extent->bytes, memory_order_acquire);
}

uint64_t extents_bytes(const struct extents *all)
{
    return atomic_load_explicit(&all->bytes, memory_order_relaxed);
}

uint32_t extents_count(const struct extents *all)
{
    return atomic_load_explicit(&all->count, memory_order_relaxed);
}

struct extent *extent_add(struct extents *all, uint32_t number, int fd, uint64_t bytes)
{
    struct extent *extent = must_alloc(sizeof(*extent));
    extent->all = all;
    extent->number = number;
    extent->fd = fd;
    atomic_init(&extent->refs, 2);    /* the table's, the caller's */
    atomic_init(&extent->bytes, bytes);
    atomic_fetch_add(&all->bytes, bytes);
    atomic_fetch_add(&all->count, 1);
    all->highest = MAX(all->highest, number);
    pthread_mutex_lock(&all->lock);
    struct extent **at = place_of(all, number);
    check(*at == NULL);
    *at = extent;
    list_add(&all->open, &extent->open);
    pthread_mutex_unlock(&all->lock);
    if (atomic_fetch_add(&all->fds, 1) >= all->fds_max)
        close_idle(all);
    return extent;
}

void extent_grew(struct extent *extent, uint64_t bytes)
{
    atomic_fetch_add(&extent->all->bytes, bytes);
    atomic_fetch_add_explicit(&extent->bytes, bytes, memory_order_release);
}

static void unlist(struct extents *all, uint32_t number)
{
    pthread_mutex_lock(&all->lock);
    struct extent **at = place_of(all, number);
    struct extent *extent = *at;
    if (extent) {
        *at = extent->next;
        list_del(&extent->open);
    }
    pthread_mutex_unlock(&all->lock);
    if (!extent)
        return;
    atomic_fetch_sub(&all->count, 1);
    extent_release(&extent);
}

void extent_drop(struct extents *all, uint32_t number)
{
    check(number != all->highest);
    char name[16];
    snprintf(name, sizeof(name), "%08x", number);
    int ignored = unlinkat(all->folder_fd, name, 0);    /* left behind: found again at the next opening */
    (void)ignored;
    unlist(all, number);
}

/* ---- times ---- */

int64_t extent_time(struct extent *extent, uint32_t ordinal)
{
    if (ordinal / TIMES_A_CHUNK >= TIME_CHUNKS)
        return 0;
    _Atomic uint32_t *chunk =
        atomic_load_explicit(&extent->times[ordinal / TIMES_A_CHUNK], memory_order_acquire);
    uint32_t since = chunk ? atomic_load_explicit(&chunk[ordinal % TIMES_A_CHUNK], memory_order_relaxed) : 0;
    return since ? TIME_BASE_S + (int64_t)since : 0;
}

static void set_time(struct extent *extent, uint32_t ordinal, int64_t when_s)
{
    int64_t since = when_s - TIME_BASE_S;
    if (ordinal / TIMES_A_CHUNK >= TIME_CHUNKS || since <= 0 || since > UINT32_MAX)
        return;    /* not known then: revalidated */
    _Atomic(_Atomic uint32_t *) *place = &extent->times[ordinal / TIMES_A_CHUNK];
    _Atomic uint32_t *chunk = atomic_load_explicit(place, memory_order_acquire);
    if (!chunk) {
        _Atomic uint32_t *fresh = must_alloc(TIMES_A_CHUNK * sizeof(*fresh));
        if (atomic_compare_exchange_strong(place, &chunk, fresh))
            chunk = fresh;
        else
            free(fresh);
    }
    atomic_store_explicit(&chunk[ordinal % TIMES_A_CHUNK], (uint32_t)since, memory_order_relaxed);
}

bool extent_time_set(struct extents *all, uint32_t number, uint32_t ordinal, int64_t when_s)
{
    pthread_mutex_lock(&all->lock);
    struct extent *extent = extent_find(all, number);
    bool there = extent != NULL;
    if (there)
        ref(extent);
    pthread_mutex_unlock(&all->lock);
    if (there)
        set_time(extent, ordinal, when_s);
    extent_release(&extent);
    return there;
}

/* ---- opening ---- */

static bool read_whole(int fd, void *to, size_t len, uint64_t offset)
{
    for (size_t got = 0; got < len;) {
        ssize_t n = pread(fd, (char *)to + got, len - got, (off_t)(offset + got));
        if (n <= 0 && !(n < 0 && errno == EINTR))
            return false;
        got += n > 0 ? (size_t)n : 0;
    }
    return true;
}

bool extent_read(const struct extent *extent, void *to, size_t len, uint64_t offset)
{
    return read_whole(extent->fd, to, len, offset);
}

/* The footer, if the file ends in one that is this extent's and fits. */
static bool read_footer(const struct extent *extent, struct toc_footer *ret)
{
    uint8_t bytes[TOC_FOOTER_BYTES];
    uint64_t size = extent_size(extent);
    return size >= PAGE_BYTES && read_whole(extent->fd, bytes, sizeof(bytes), size - sizeof(bytes)) &&
           toc_footer_decode(bytes, ret) == OK && ret->extent == extent->number &&
           ret->offset + toc_bytes(ret->count) == size;
}

/* One that can't be opened is a miss for whoever asks (H1), and its number stays used; but where descriptors
 * run out, nothing is known about any of them. */
static enum err add_file(struct extents *all, uint32_t number)
{
    struct stat st;
    int fd;
    enum err e = open_old(all, number, &fd);
    if (e) {
        all->highest = MAX(all->highest, number);
        return e == ERR_LIMIT ? ERR_IO : OK;
    }
    if (fstat(fd, &st) != 0) {
        close(fd);
        return ERR_IO;
    }
    struct extent *extent = extent_add(all, number, fd, (uint64_t)st.st_size);
    struct toc_footer footer;
    extent->sealed = read_footer(extent, &footer);
    extent_release(&extent);
    return OK;
}

/* Only names we would give: "0000002A" is a stranger's, and what comes near the last number too. */
static bool number_of(const char *name, uint32_t *ret)
{
    uint8_t bytes[4];
    char ours[16];
    if (!slice_unhex(slice_of(name), bytes, sizeof(bytes)))
        return false;
    *ret = (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
    snprintf(ours, sizeof(ours), "%08x", *ret);
    return *ret > 0 && *ret <= EXTENT_NUMBER_MAX && strcmp(name, ours) == 0;
}

enum err extents_open(struct extents *all, const char *folder, uint32_t extent_bytes)
{
    char path[4096];
    if (snprintf(path, sizeof(path), "%s/extents", folder) >= (int)sizeof(path))
        return ERR_IO;
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return ERR_IO;
    DIR *dir = opendir(path);
    if (!dir)
        return ERR_IO;
    all->folder_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    all->extent_bytes = extent_bytes;
    enum err e = all->folder_fd >= 0 ? OK : ERR_IO;
    struct dirent *item;
    uint32_t number;
    while (!e && (item = readdir(dir)))
        if (number_of(item->d_name, &number))
            e = add_file(all, number);
    closedir(dir);
    if (e)
        extents_close(all);
    return e;
}

void extents_close(struct extents *all)
{
    pthread_rwlock_wrlock(&all->folder_lock);
    for (size_t i = 0; i < CHAINS; i++)
        while (all->chains[i])
            unlist(all, all->chains[i]->number);
    if (all->folder_fd >= 0)
        close(all->folder_fd);
    all->folder_fd = -1;
    pthread_rwlock_unlock(&all->folder_lock);
    all->highest = 0;
    extent_release(&all->log.extent);
    free(all->log.entries);
    memset(&all->log, 0, sizeof(all->log));
}

static int by_number(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

size_t extents_numbers(struct extents *all, struct arena *keep, uint32_t **ret)
{
    size_t count = 0;
    *ret = arena_alloc(keep, (extents_count(all) + 1) * sizeof(**ret));
    for (size_t i = 0; i < CHAINS; i++)
        for (struct extent *at = all->chains[i]; at; at = at->next)
            (*ret)[count++] = at->number;
    qsort(*ret, count, sizeof(**ret), by_number);
    return count;
}

size_t extents_list(struct extents *all, struct arena *keep, struct policy_extent **ret)
{
    uint32_t *numbers;
    size_t count = extents_numbers(all, keep, &numbers);
    *ret = arena_alloc(keep, (count + 1) * sizeof(**ret));
    for (size_t i = 0; i + 1 < count; i++) {
        uint64_t bytes = extent_size(extent_find(all, numbers[i]));
        (*ret)[i] = (struct policy_extent){ .number = numbers[i], .live_bytes = bytes, .bytes = bytes };
    }
    return count ? count - 1 : 0;
}

bool extent_is_sealed(struct extents *all, uint32_t number)
{
    struct extent *extent = extent_find(all, number);
    return extent && extent->sealed;
}

/* ---- what lies in an extent ---- */

/* A file read forward through a small buffer. */
struct window {
    int fd;
    uint64_t size, start;
    size_t len;
    char bytes[WINDOW_BYTES];
};

/* Up to `len` bytes at `offset`; fewer at the end of the file, none when it can't be read. */
static slice window_at(struct window *window, uint64_t offset, size_t len)
{
    if (offset >= window->size)
        return (slice){ NULL, 0 };
    len = (size_t)MIN(len, window->size - offset);
    if (offset < window->start || offset + len > window->start + window->len) {
        window->start = offset;
        window->len = (size_t)MIN(WINDOW_BYTES, window->size - offset);
        if (!read_whole(window->fd, window->bytes, window->len, offset)) {
            window->len = 0;
            return (slice){ NULL, 0 };
        }
    }
    return (slice){ window->bytes + (offset - window->start), len };
}

static bool record_at(struct window *window, uint64_t offset, uint32_t number, uint32_t ordinal,
                      struct record *ret)
{
    return record_decode(window_at(window, offset, RECORD_HEADER_MAX), ret) == OK &&
           ret->extent == number && ret->ordinal == ordinal && record_end(offset, ret) <= window->size;
}

/* Header after header, up to the first that is none. */
static enum err scan(const struct extent *extent, extent_visit *each, void *arg)
{
    struct window *window = must_alloc(sizeof(*window));
    window->fd = extent->fd;
    window->size = extent_size(extent);
    enum err e = OK;
    uint64_t at = 0;
    for (uint32_t ordinal = 0; !e; ordinal++) {
        struct record record;
        at = round_up(at, RECORD_ALIGN);
        if (!record_at(window, at, extent->number, ordinal, &record)) {
            at = round_up(at, PAGE_BYTES);    /* the next append, perhaps */
            if (!record_at(window, at, extent->number, ordinal, &record))
                break;
        }
        e = each(arg, &record, (uint32_t)at);
        at = record_end(at, &record);
    }
    free(window);
    return e;
}

struct gathering {
    struct arena *keep;
    struct toc_entry *entries;
    uint32_t count, capacity;
};

static enum err gather(void *arg, const struct record *record, uint32_t offset)
{
    struct gathering *to = arg;
    if (to->count == to->capacity) {
        uint32_t capacity = MAX(256, 2 * to->capacity);
        struct toc_entry *more = arena_alloc(to->keep, capacity * sizeof(*more));
        if (to->count)
            memcpy(more, to->entries, to->count * sizeof(*more));
        to->entries = more;
        to->capacity = capacity;
    }
    to->entries[to->count++] = (struct toc_entry){
        .id = record->id, .first_unit = record->first_unit, .offset = offset,
        .data_len = record->data_len, .head_len = record->head_len, .kind = record->kind,
    };
    return OK;
}

static bool read_toc(const struct extent *extent, struct arena *keep, struct toc_entry **ret,
                     uint32_t *ret_count)
{
    struct toc_footer footer;
    if (!read_footer(extent, &footer))
        return false;
    size_t len = (size_t)footer.count * TOC_ENTRY_BYTES;
    uint8_t *bytes = must_alloc(len);
    bool good = read_whole(extent->fd, bytes, len, footer.offset) && crc32c(0, bytes, len) == footer.crc;
    *ret = arena_alloc(keep, (footer.count + 1) * sizeof(**ret));
    for (uint32_t i = 0; good && i < footer.count; i++)
        good = toc_entry_decode(bytes + (size_t)i * TOC_ENTRY_BYTES, &(*ret)[i]) == OK;
    free(bytes);
    *ret_count = footer.count;
    return good;
}

static enum err contents(const struct extent *extent, struct arena *keep, struct toc_entry **ret,
                         uint32_t *ret_count)
{
    if (extent->sealed && read_toc(extent, keep, ret, ret_count))
        return OK;
    struct gathering found = { .keep = keep };
    enum err e = scan(extent, gather, &found);
    *ret = found.entries;
    *ret_count = found.count;
    return e;
}

enum err extent_contents(struct extents *all, uint32_t number, struct arena *keep,
                         struct toc_entry **ret, uint32_t *ret_count)
{
    struct extent *extent;
    enum err e = extent_hold(all, number, &extent);
    if (!e)
        e = contents(extent, keep, ret, ret_count);
    extent_release(&extent);
    return e;
}

/* By its table, so that one bad header hides no record but its own. */
static enum err each_listed(const struct extent *extent, const struct toc_entry *entries, uint32_t count,
                            extent_visit *each, void *arg)
{
    struct window *window = must_alloc(sizeof(*window));
    window->fd = extent->fd;
    window->size = extent_size(extent);
    enum err e = OK;
    for (uint32_t i = 0; !e && i < count; i++) {
        struct record record;
        if (record_at(window, entries[i].offset, extent->number, i, &record))
            e = each(arg, &record, entries[i].offset);
    }
    free(window);
    return e;
}

enum err extent_each_record(struct extents *all, uint32_t number, extent_visit *each, void *arg)
{
    struct extent *extent;
    enum err e = extent_hold(all, number, &extent);
    if (e)
        return e;
    struct arena keep = { 0 };
    struct toc_entry *entries;
    uint32_t count;
    e = extent->sealed && read_toc(extent, &keep, &entries, &count)
            ? each_listed(extent, entries, count, each, arg)
            : scan(extent, each, arg);
    arena_free(&keep);
    extent_release(&extent);
    return e;
}

enum err extent_seal_old(struct extents *all, uint32_t number)
{
    struct arena keep = { 0 };
    struct toc_entry *entries;
    uint32_t count;
    struct extent *extent;
    enum err e = extent_hold(all, number, &extent);
    if (!e)
        e = contents(extent, &keep, &entries, &count);
    if (!e)    /* behind whatever is there: no block is written twice */
        e = extent_write_toc(extent, round_up(extent_size(extent), PAGE_BYTES), entries, count);
    arena_free(&keep);
    extent_release(&extent);
    return e;
}
