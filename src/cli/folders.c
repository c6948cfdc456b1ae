/* folders.c - the cache folders of the daemon: opening, log, metrics, status, request bodies.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Threads: the main thread; loops call folders_spill, folders_expose and folders_tell, which only
 * read. */
#include "cli/folders.h"

#include <inttypes.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metric.h"

#define REPORT_MS 60000u              /* between two lines about file descriptors, or lost pins */

/* The state of a folder that was logged last. */
struct folder_reported {
    slice path;                    /* escaped for the log */
    bool serving;
    const char *why;               /* of the latest line about a folder out of service */
    uint64_t faults;
    bool squeezed;                 /* other files have left the folder less than half of its size;
                                      false again when the folder has three quarters of its size */
    uint64_t size;                 /* 0: none yet */
    const char *emptied;           /* why all objects counted as purged */
    uint64_t unpinned;             /* store_folder_unpinned() */
    uint64_t pins_lost;            /* store_folder_pins_lost() */
    uint64_t pins_lost_ms;         /* no other line about them before this time */
    uint32_t unusable;             /* store_folder_unusable() */
    uint32_t damaged;              /* store_folder_damaged() */
};

static void report_anew(const struct folder_reported *reported, const struct store_status *status)
{
    if (*status->anew)
        log_warn("cache_folder_anew", "path=%.*s why=\"the cache folder begins empty: %s. Objects "
                 "are fetched again when they are read\"", SLICE_ARG(reported->path), status->anew);
}

/* Logs each reason once. */
static void report_emptied(struct folder_reported *reported, const char *why)
{
    if (*why && why != reported->emptied)
        log_warn("cache_folder_purged", "path=%.*s why=\"all objects in the cache folder count as "
                 "purged: %s. Objects are fetched again when they are read\"",
                 SLICE_ARG(reported->path), why);
    reported->emptied = why;
}

/* A size that no setting gives is derived from the free space, and grows when there is more. A size
 * that is too small is logged once. */
static void watch_size(struct folder_reported *reported, const struct store_status *status)
{
    struct arena keep = { 0 };
    if (!status->serving || status->size_bytes == reported->size)
        return;
    slice small = cli_small_cache(reported->path, status->size_bytes, status->derived, &keep);
    if (reported->size)
        log_info("cache_grown", "path=%.*s size=%" PRIu64 " was=%" PRIu64,
                 SLICE_ARG(reported->path), status->size_bytes, reported->size);
    if (small.len)
        log_warn("cache_small", "path=%.*s size=%" PRIu64 " why=\"%.*s\"",
                 SLICE_ARG(reported->path), status->size_bytes, SLICE_ARG(small));
    reported->size = status->size_bytes;
    arena_free(&keep);
}

/* When other programs fill the disk, the cache shrinks, if need be to nothing. The log then says
 * why the hit ratio fell. */
static void watch_room(struct folder_reported *reported, const struct store_status *status)
{
    unsigned eighths = reported->squeezed ? 6 : 4;    /* the squeeze ends at 3/4 of the size */
    bool squeezed = status->capacity_bytes < status->size_bytes / 8 * eighths;
    if (!status->serving || squeezed == reported->squeezed)
        return;
    reported->squeezed = squeezed;
    if (squeezed)
        log_warn("cache_squeezed", "path=%.*s capacity=%" PRIu64 " size=%" PRIu64 " free=%" PRIu64
                 " reserve=%" PRIu64 " why=\"the folder's size and cache_reserve need more free "
                 "space, or more free inodes, than the file system of the folder has. So the cache "
                 "keeps fewer objects, and more reads go to the origin. Make room on that file "
                 "system, or lower the folder's size (cache_size, or size in cache_dirs)\"",
                 SLICE_ARG(reported->path), status->capacity_bytes, status->size_bytes,
                 status->free_bytes, status->reserve_bytes);
    else
        log_info("cache_squeezed", "path=%.*s over=1 capacity=%" PRIu64 " size=%" PRIu64,
                 SLICE_ARG(reported->path), status->capacity_bytes, status->size_bytes);
}

static void watch_pins(struct folder_reported *reported, uint64_t unpinned,
                       const struct store_status *status)
{
    if (unpinned == reported->unpinned)
        return;
    log_warn("pins_unpinned", "path=%.*s bytes=%" PRIu64 " budget=%" PRIu64 " why=\"the pins need "
             "more than the budget of this cache folder. So these bytes, which belong to the "
             "youngest pins, are no longer pinned, and may be evicted. The budget is pin_budget "
             "percent of the space that the folder may use now. This space is smaller if other "
             "programs fill the disk. Make room on the disk, unpin another prefix, or raise "
             "pin_budget and restart Penstock\"",
             SLICE_ARG(reported->path), unpinned - reported->unpinned, status->pin_budget_bytes);
    reported->unpinned = unpinned;
}

/* Logged once a minute at most. */
static void watch_pins_lost(struct folder_reported *reported, uint64_t lost)
{
    if (lost == reported->pins_lost || mono_ms() < reported->pins_lost_ms)
        return;
    log_warn("pins_lost", "path=%.*s bytes=%" PRIu64 " why=\"these pinned bytes were evicted. "
             "Normally, Penstock copies pinned bytes to another file of the cache before it "
             "evicts their file. This copy was not possible, for one of three reasons: the disk "
             "was too full, the copy would have needed as much space as the file, or the bytes "
             "could not be read. Make room on the file system of the cache folder, and check its "
             "disk. Then read the pinned objects again, so that Penstock stores them again\"",
             SLICE_ARG(reported->path), lost - reported->pins_lost);
    reported->pins_lost = lost;
    reported->pins_lost_ms = mono_ms() + REPORT_MS;
}

/* Logs the number of unusable files when it rises, for example when the folder is opened. */
static void watch_unusable(struct folder_reported *reported, uint32_t unusable)
{
    if (unusable > reported->unusable)
        log_warn("cache_files_unusable", "path=%.*s files=%" PRIu32 " why=\"these files in "
                 "extents/ have the names of extents, but are damaged, or are not from this cache "
                 "folder. Penstock reads nothing from them. When it needs their space, it removes "
                 "them before other extents. To see which files they are, stop Penstock and run "
                 "penstock fsck; penstock fsck --repair removes them\"",
                 SLICE_ARG(reported->path), unusable);
    reported->unusable = unusable;
}

/* An extent counts once in the life of a process, so each is logged once. */
static void watch_damaged(struct folder_reported *reported, uint32_t damaged, uint32_t last)
{
    if (damaged > reported->damaged)
        log_warn("cache_extents_damaged", "path=%.*s extents=%" PRIu32 " last=extents/%08" PRIx32
                 " why=\"the tables of contents of these files are damaged, or the disk does not "
                 "give them. Penstock reads the headers of the records instead, and goes on "
                 "serving the records that are whole. Check the disk and the kernel log. To see "
                 "which files they are, stop Penstock and run penstock fsck; penstock fsck "
                 "--repair writes damaged tables anew\"",
                 SLICE_ARG(reported->path), damaged - reported->damaged, last);
    reported->damaged = damaged;
}

static void look_for_damage(const struct serve *serve, size_t i)
{
    struct folder_reported *reported = &serve->folders[i];
    uint32_t last, damaged = store_folder_damaged(serve->store, i, &last);
    watch_unusable(reported, store_folder_unusable(serve->store, i));
    watch_damaged(reported, damaged, last);
}

/* Says how reads are served while a folder is out of service. */
static const char *without(const struct serve *serve)
{
    return serve->config->folder_count == 1
        ? "Penstock serves without a cache until the folder works again"
        : "Penstock reads the objects of this folder from the origin until the folder works again";
}

/* ---- opening ---- */

static void report_opened(struct serve *serve, size_t i, slice why)
{
    struct folder_reported *reported = &serve->folders[i];
    struct store_status status;
    store_folder_status(serve->store, i, &status);
    if (why.len)
        log_warn("cache_folder", "path=%.*s serving=%d why=\"%.*s. %s\"",
                 SLICE_ARG(reported->path), status.serving, SLICE_ARG(why), without(serve));
    else
        log_info("cache_folder", "path=%.*s serving=%d size=%" PRIu64 " used=%" PRIu64
                 " free=%" PRIu64 " entries=%" PRIu64, SLICE_ARG(reported->path), status.serving,
                 status.size_bytes, status.used_bytes, status.free_bytes, status.entries);
    report_anew(reported, &status);
    report_emptied(reported, store_folder_emptied(serve->store, i));
    watch_size(reported, &status);
    look_for_damage(serve, i);
    reported->serving = status.serving;
    reported->why = status.why;
}

#define UNSURE "may have been in use while the other folders were not. Then the other folders " \
               "have missed the writes of that time. So the origin confirms each object in the " \
               "other folders once, before Penstock serves the object"

/* Logs each folder that can't be read, and that a folder was removed from the settings. Such a
 * folder may have been in use without the other folders. */
static void report_unread(const struct serve *serve)
{
    for (size_t i = 0; i < serve->config->folder_count; i++) {
        if (!store_folder_is_unread(serve->store, i))
            continue;
        slice path = serve->folders[i].path;
        if (serve->folders[i].serving)    /* it is a new one in the place of that folder */
            log_warn("cache_folder_unread", "path=%.*s why=\"this new cache folder takes the place "
                     "of one that was not found. The folder that was not found " UNSURE "\"",
                     SLICE_ARG(path));
        else
            log_warn("cache_folder_unread", "path=%.*s why=\"the cache folder can't be read. The "
                     "folder " UNSURE ". The origin must confirm these objects again after each "
                     "start until the folder is back. Mount its disk; if the folder is lost, "
                     "remove it from cache_dirs\"",
                     SLICE_ARG(path));
    }
    if (store_folder_left(serve->store))
        log_warn("cache_folder_unread", "why=\"a cache folder was removed from cache_dirs. The "
                 "removed folder " UNSURE "\"");
}

static struct store_options options_of(struct serve *serve)
{
    const struct config *config = serve->config;
    return (struct store_options){
        .folder_count = config->folder_count,
        .limits = rules_limits(config, &serve->keep),
        .limit_count = config->bucket_count,
        .reserve_bytes = config->cache_reserve_bytes,
        .extent_bytes = (uint32_t)config->extent_size_bytes,
        .metadata_bytes = serve->memory.budgets.bytes[BUDGET_heads],
        .held_bytes = serve->memory.budgets.bytes[BUDGET_readers],
        .queue_bytes_max = serve->memory.budgets.bytes[BUDGET_queue],
        .commit_ms_max = (uint32_t)config->commit_time_ms,
        .scrub_ms = config->scrub_time_ms,
        .pin_percent = (unsigned)config->pin_percent,
        .read_gap_bytes = (uint32_t)config->read_gap_bytes,
        .cold_reads = *config->cold_reads == 'a'   ? COLD_AUTO
                      : *config->cold_reads == 'd' ? COLD_DIRECT
                                                   : COLD_BUFFERED,
        .memory_bytes = serve->memory.allowed_bytes,
        .locked_bytes = serve->memory.locked_bytes,
        .engine = serve->engine,
    };
}

enum err folders_up(struct serve *serve)
{
    const struct config *config = serve->config;
    size_t count = config->folder_count;
    struct store_folder *folders = arena_alloc(&serve->keep, count * sizeof(*folders));
    slice *whys = arena_alloc(&serve->keep, count * sizeof(*whys));
    struct store_options options = options_of(serve);
    for (size_t i = 0; i < count; i++)
        folders[i] = (struct store_folder){ config->folders[i].path,
                                            config->folders[i].size_bytes };
    options.folders = folders;
    serve->folders = arena_alloc(&serve->keep, count * sizeof(*serve->folders));
    for (size_t i = 0; i < count; i++)
        serve->folders[i].path = log_word(&serve->keep, slice_of(config->folders[i].path));
    enum err err = store_open(&options, &serve->keep, &serve->store, whys);
    for (size_t i = 0; i < count; i++)
        if (!err)
            report_opened(serve, i, whys[i]);
        else if (whys[i].len)
            serve->why = whys[i];
    if (!err)
        report_unread(serve);
    return err;
}

void folders_down(struct serve *serve)
{
    store_close(&serve->store);
}

/* ---- once a second ---- */

/* Logs a line for each reason. Penstock tries to open the folder again, and such a try may fail for
 * another reason than the first failure. */
static void report_out(struct serve *serve, struct folder_reported *reported,
                       const struct store_status *status)
{
    bool opens = !*status->why;    /* it will serve in a moment */
    if (opens || (!reported->serving && status->why == reported->why))
        return;
    reported->why = status->why;
    log_warn("cache_folder", "path=%.*s serving=0 why=\"the cache folder is out of service: %s. "
             "%s\"", SLICE_ARG(reported->path), status->why, without(serve));
}

/* Also called if the folder went out of service and came back between two calls of
 * folders_watch. */
static void report_back(struct folder_reported *reported, const struct store_status *status)
{
    reported->faults = status->faults;
    reported->why = NULL;
    log_info("cache_folder", "path=%.*s serving=1 faults=%" PRIu64 " entries=%" PRIu64,
             SLICE_ARG(reported->path), status->faults, status->entries);
    report_anew(reported, status);
}

static void watch(struct serve *serve, size_t i)
{
    struct folder_reported *reported = &serve->folders[i];
    struct store_status status;
    store_folder_status(serve->store, i, &status);
    watch_room(reported, &status);
    watch_size(reported, &status);
    watch_pins(reported, store_folder_unpinned(serve->store, i), &status);
    watch_pins_lost(reported, store_folder_pins_lost(serve->store, i));
    report_emptied(reported, store_folder_emptied(serve->store, i));
    look_for_damage(serve, i);
    if (!status.serving)
        report_out(serve, reported, &status);
    else if (!reported->serving || status.faults != reported->faults)
        report_back(reported, &status);
    reported->serving = status.serving;
}

/* Logged once a minute at most. */
static void watch_descriptors(const struct serve *serve)
{
    static uint64_t reported, until_ms;
    uint64_t count = metric_read(M_STORE_NO_FD);
    if (count == reported || mono_ms() < until_ms)
        return;
    log_warn("no_descriptor", "count=%" PRIu64 " limit=%" PRIu64 " why=\"Penstock had no file "
             "descriptor left for files of the cache: it uses at most a quarter of the limit of "
             "open files for them, and at most 4096. A cache folder that was in service stays in "
             "service. But some reads went to the origin, and some objects, purges or pins could "
             "not be stored. If the limit of open files is below 16384, raise it (LimitNOFILE in "
             "the unit, or ulimit -n). Otherwise, lower connections_max, or let fewer clients read "
             "at once\"",
             count - reported, serve->files.max);
    reported = count;
    until_ms = mono_ms() + REPORT_MS;
}

void folders_watch(struct serve *serve)
{
    watch_descriptors(serve);
    for (size_t i = 0; i < serve->config->folder_count; i++)
        watch(serve, i);
}

/* ---- request bodies ---- */

/* Returns the free bytes beyond the reserve, or 0 if the folder does not serve. The free bytes are
 * read now, because many bodies may have come since the store last read them. */
static uint64_t room_in(const struct store_status *status)
{
    struct store_space now;
    if (!status->serving || store_space(status->folder, &now) != OK)
        return 0;
    return now.free_bytes - MIN(now.free_bytes, status->reserve_bytes);
}

const char *folders_spill(void *arg, const char *in, uint64_t bytes)
{
    const struct serve *serve = arg;
    const char *best = NULL;
    uint64_t most = bytes;
    for (size_t i = 0; i < store_folder_count(serve->store); i++) {
        struct store_status status;
        store_folder_status(serve->store, i, &status);
        uint64_t room = !in || in == status.folder ? room_in(&status) : 0;
        if (room < most)
            continue;
        best = status.folder;
        most = room;
    }
    return best;
}

/* ---- figures ---- */

static uint64_t figure(const struct store_status *status, enum metric_family family)
{
    switch (family) {
    case F_VOLUME_BYTES: return status->used_bytes;
    case F_VOLUME_LIVE: return status->live_bytes;
    case F_VOLUME_CAPACITY: return status->capacity_bytes;
    case F_VOLUME_FREE: return status->free_bytes;
    case F_VOLUME_EXTENTS: return status->extents;
    case F_VOLUME_SERVING: return status->serving;
    case F_VOLUME_FAULTS: return status->faults;
    case F_VOLUME_APPENDED: return status->work.appended_bytes;
    case F_VOLUME_COPIED: return status->work.copied_bytes;
    case F_VOLUME_RECYCLED: return status->work.evicted;
    case F_VOLUME_BAD: return status->work.bad_blocks;
    case F_VOLUME_SCRUBBED: return (uint64_t)status->work.scrubbed_s;
    default: break;
    }
    check(!"this family is not one of folders");
    return 0;
}

/* Without samples as long as nothing is known. */
static void expose_what_if(struct store *store, struct text *to)
{
    struct store_what_if found;
    store_what_if(store, &found);
    double reads = MAX(found.reads, 1);
    const struct metric_ratio ratios[] = {
        { S("0.5"), found.half_hits / reads }, { S("1"), found.hits / reads },
        { S("2"), found.double_hits / reads }, { S("4"), found.fourfold_hits / reads },
    };
    metric_expose_ratios(to, F_WHAT_IF, ratios, found.reads >= 1 ? countof(ratios) : 0);
}

void folders_expose(void *arg, struct text *to)
{
    static const enum metric_family families[] = {
        F_VOLUME_BYTES, F_VOLUME_LIVE, F_VOLUME_CAPACITY, F_VOLUME_FREE, F_VOLUME_EXTENTS,
        F_VOLUME_SERVING, F_VOLUME_FAULTS, F_VOLUME_APPENDED, F_VOLUME_COPIED,
        F_VOLUME_RECYCLED, F_VOLUME_BAD, F_VOLUME_SCRUBBED,
    };
    struct serve *serve = arg;
    size_t count = store_folder_count(serve->store);
    struct store_status *all = arena_alloc(to->arena, count * sizeof(*all));
    struct metric_sample *samples = arena_alloc(to->arena, count * sizeof(*samples));
    for (size_t i = 0; i < count; i++)
        store_folder_status(serve->store, i, &all[i]);
    for (size_t k = 0; k < countof(families); k++) {
        for (size_t i = 0; i < count; i++)
            samples[i] = (struct metric_sample){ slice_of(all[i].folder),
                                                 figure(&all[i], families[k]) };
        metric_expose_family(to, families[k], samples, count);
    }
    expose_what_if(serve->store, to);
    struct bucket_holds *holds = arena_alloc(to->arena, METRIC_BUCKETS_MAX * sizeof(*holds));
    store_bucket_holds(serve->store, holds);
    metric_buckets_expose(to, holds);
}

static void tell_what_if(struct store *store, struct status_document *to)
{
    struct store_what_if found;
    store_what_if(store, &found);
    uint64_t reads = (uint64_t)found.reads;
    document_number(to, "cache.what_if.reads", reads);
    document_ratio(to, "cache.what_if.hit_ratio", (uint64_t)found.hits, reads);
    document_ratio(to, "cache.what_if.half.hit_ratio", (uint64_t)found.half_hits, reads);
    document_ratio(to, "cache.what_if.double.hit_ratio", (uint64_t)found.double_hits, reads);
    document_ratio(to, "cache.what_if.fourfold.hit_ratio", (uint64_t)found.fourfold_hits, reads);
}

void folders_tell(struct serve *serve, struct arena *keep, struct status_document *to)
{
    struct store_status sum, status;
    store_status(serve->store, &sum);
    document_text(to, "cache.folder", slice_of(sum.folder));
    document_store(to, "cache", &sum);
    document_text(to, "cache.warning", S(""));
    tell_what_if(serve->store, to);
    for (size_t i = 0; i < store_folder_count(serve->store); i++) {
        store_folder_status(serve->store, i, &status);
        slice small = cli_small_cache(slice_of(status.folder), status.size_bytes, status.derived,
                                      keep);
        document_item(to, "cache.folders");
        document_text(to, "cache.folders.path", slice_of(status.folder));
        document_store(to, "cache.folders", &status);
        if (small.len)
            document_text(to, "cache.warning", small);
    }
}
