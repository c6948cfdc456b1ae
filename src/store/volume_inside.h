/* volume_inside.h - struct volume, for the files that implement it and those that read from it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_VOLUME_INSIDE_H
#define STORE_VOLUME_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "store/events.h"
#include "store/bans.h"
#include "store/folder.h"
#include "store/installation.h"
#include "store/names.h"
#include "store/publish.h"
#include "store/restated.h"
#include "store/rule.h"
#include "store/volume.h"

#define CHANGE_COUNTERS 1024u
#define COMING_COUNTERS 4096u
#define UPDATES_MAX 65536u            /* H8: the most small changes that wait; more are dropped */
#define COMMIT_ENTRIES 100u           /* a commit closes at so many entries ... */
#define COMMIT_BYTES (16 * MIB)       /* ... or at so many bytes of records */
#define SLOW_COMMIT_MS 1000u          /* a longer commit is slow: the disk does not keep up */

/* A change of the index that carries no bytes. */
enum update_kind { UPDATE_FORGET, UPDATE_PROVE, UPDATE_GRANTED };
struct update {
    struct list link;
    enum update_kind kind;
    struct named_entry of;
    uint32_t generation;              /* the volume's when the change was queued */
};

enum volume_gauge { GAUGE_BYTES, GAUGE_HELD, GAUGE_LIVE, GAUGE_CAPACITY, GAUGE_FREE, GAUGE_ENTRIES, GAUGE_SERVING,
                    GAUGE_PINNED, GAUGE_PIN_BUDGET, GAUGE_STAGED, VOLUME_GAUGES };

/* Whether the folder is in service, and since when its disk has answered nothing. */
struct service {
    atomic_bool open;
    _Atomic(const char *) why;        /* why the folder is not open; static text */
    _Atomic(const char *) anew;       /* why the folder began anew; static text */
    _Atomic uint64_t busy_since_ms;   /* time of the running commit's latest progress; 0: none */
    _Atomic uint64_t opening_since_ms;    /* 0: the committer opens no folder */
    _Atomic uint32_t reads;           /* ops that wait for the disk */
    _Atomic uint64_t read_ms;         /* while some wait: when the disk answered the latest */
    atomic_bool reads_hang;           /* none ended for too long; until all have ended */
    atomic_bool unproved;    /* a removal or refusal came while the folder was out of service */
    atomic_bool counted;              /* the records of earlier processes are counted */
    bool doubted;                     /* the folder has a note of doubt; for the committer only */
    unsigned given;                   /* extents that went for an opening; committer only */
    uint64_t serial;                  /* the last one that was written here; committer only */
    _Atomic uint64_t faults;          /* how often the folder went out of service */
    _Atomic uint64_t bad;             /* reads whose checksum failed */
    /* The part of this volume in the gauges of the store, which are sums (service.c). */
    _Atomic int64_t gauges[VOLUME_GAUGES];
};

#define STAGE_VICTIMS 64u

/* Records that are fetched ahead of their readers (stage.c). */
struct staging {
    _Atomic uint64_t wanted;          /* bytes that jobs keep ahead of readers; 0: there is no job */
    _Atomic uint64_t idle_ms;         /* ageing time when the last job ended */
    uint64_t looked_ms;               /* the latest look for extents that are due; committer only */
    bool due;                         /* its result; committer only */
    bool stepped;                     /* the last turn evicted some; committer only */
    atomic_bool over_quota;           /* a quota refused a record ahead of its reader */
    bool drops_passed;                /* the same before the latest look; committer only */
    uint64_t held_since_ms;           /* as in the recycler; committer only */
    size_t queued;                    /* bytes of staged appends; under the lock of the queue */
    /* The extents of the rule that were the oldest at the latest look at all ages. The next ones go
     * from `at` on. Committer only. */
    struct stage_victims {
        uint32_t numbers[STAGE_VICTIMS];
        size_t count, at;
        uint64_t looked_ms;
        uint64_t looks;               /* at all ages; for tests */
    } victims;
};

/* Bytes of the extents and of the file system. Any thread may read them. */
struct space {
    _Atomic uint64_t size_bytes, reserve_bytes;
    _Atomic uint64_t free_bytes;      /* when the committer last looked */
    _Atomic uint64_t room_bytes;      /* for extents, without the reserve; at the same moment */
    _Atomic uint32_t extent_bytes;    /* of new extents */
    struct staging staging;
};

/* The removals that are made now, or again (removal.c). The first `done` of them are committed.
 * Appends have numbers in the order in which they were queued. For the committer only. */
struct removed {
    struct removed_id {
        struct object_id id;
        struct store_versions versions;
        bool refused, bucket;
        bool kept;                    /* no metadata of these versions is stored: nothing to do */
        bool queued;                  /* its units are queued for deletion (leftovers.h) */
        uint64_t before;              /* if committed: the number of the next append at that time */
    } *ids;
    size_t count, done, max;
    uint64_t next;                    /* the number of the first append that no commit has taken */
};

/* Objects whose units must be deleted (leftovers.c): a ring in the order of their removal. */
struct leftovers {
    pthread_mutex_t lock;             /* guards all members but the last two */
    struct leftover *objects;         /* NULL: none yet */
    uint32_t first, count;
    uint32_t unit;                    /* of the first object, the next to look at; committer only */
    uint64_t worked_ms;               /* the latest batch; committer only */
};

/* Work that waits for the committer. */
struct queue {
    pthread_mutex_t lock;             /* guards all members but the conditions */
    pthread_cond_t more;              /* wakes the committer */
    pthread_cond_t watch;             /* wakes the watch */
    struct list appends, removals, updates;
    /* An append that finds no room waits for the recycler (ROOM_COMES), or fails (ROOM_REFUSED). */
    enum queue_room { ROOM_UNKNOWN, ROOM_COMES, ROOM_REFUSED } room;
    uint64_t room_since_ms;           /* ROOM_COMES since then */
    unsigned room_tries;              /* how often the first append has asked for room */
    struct list relocations;                /* from the recycler (relocation.h) */
    bool turn_wanted;                 /* a thread waits for the committer's next turn (pinned.h) */
    pthread_cond_t answered;          /* wakes the recycler */
    struct list committing;           /* removals in the running commit that have no answer yet */
    size_t bytes, entries;            /* of the appends */
    uint64_t appended;                /* the number of the next append */
    size_t taken;                     /* bytes of the appends in the running commit */
    size_t update_count;
    uint64_t oldest_ms;               /* when the first append came */
    bool stopping;
};

#define WEIGH_LATER 32u

/* The count of records that an earlier process wrote (account.c); for the committer only. */
struct counting {
    struct arena keep;
    uint32_t *numbers;                /* of the extents that are to be counted; in keep */
    size_t extent_count, at;          /* of the numbers */
    uint64_t looks;                   /* at extents; for tests */
    uint32_t extent;                  /* the extent that is being counted; 0: none yet */
    bool more;
    bool again;                       /* records that are counted get their tally again */
    bool unpublished;                 /* appended records are not published yet, so they look dead */
    /* The extents that changed and are to be weighed later; more than WEIGH_LATER: all extents. */
    uint32_t later[WEIGH_LATER];
    unsigned later_count;
    _Atomic uint64_t stalled_ms;      /* since then, another folder does not answer for a name; tests
                                       * read it */
    atomic_uint layout;               /* tallies_layout() that the records follow; any thread */
    struct toc toc;                   /* of the extent */
    struct toc_cursor next;
    /* The object whose name was looked up last, if it was found, and its tally. */
    bool found;
    struct object_id found_id;
    uint16_t found_tally;
};

/* Entries that are deleted because the list of volumes changed (moved.c). */
struct moved {
    bool active;                      /* under the queue's lock; only the committer changes it */
    struct route_row old[VOLUMES_MAX];    /* the list of the format file; as `active` */
    size_t old_count;
    struct object_id next;            /* the first key to look at; for the committer only */
    uint32_t next_unit;
};

/* A round in which the recycler writes the files of ages (age_files.c). All members but `begun` are
 * for the recycler. */
struct age_round {
    _Atomic uint64_t begun;           /* tick of the latest round that wrote all files */
    uint64_t begun_ms;                /* time of the latest round */
    uint64_t all_ms;                  /* time of the latest round that wrote all files */
    bool pins;                        /* only the extents whose pinned records have changed */
    size_t count, at;                 /* of the numbers; count 0: no round */
    uint32_t *numbers;                /* of extents, in keep */
    struct arena keep;
};

/* The thread that makes room (recycle.c). */
struct recycler {
    pthread_mutex_t lock;             /* held while an extent is recycled */
    pthread_t thread;                 /* 0: not started */
    atomic_bool paused;               /* the folder goes out of service: stop the work on it */
    atomic_bool ready;                /* the copy may take the place of the log */
    atomic_bool in_vain;              /* the latest copy of pinned records regained too little */
    _Atomic uint64_t moved_ms;        /* time of the latest progress of its present work */
    uint64_t held_since_ms;           /* for volume_waits_until; its thread only */
    struct age_round round;
    atomic_uint expire_turn;          /* tallies_expire_turn() of the latest pass (expire.h) */
    _Atomic uint64_t recycled;        /* extents that were evicted, in this process */
    _Atomic uint64_t copied;          /* bytes of data that were copied, in this process */
};

/* The thread that verifies records in the background (scrub.c). */
struct scrub {
    pthread_mutex_t lock;             /* guards `stopping` */
    pthread_cond_t more;
    bool stopping;
    pthread_t thread;                 /* 0: not started */
    _Atomic int64_t passed_s;         /* wall clock: the end of the latest pass; 0: none yet */
};

/* The state of pinning, and the volume's copy of the table of pins (pinned.h). */
struct pinned {
    pthread_mutex_t lock;             /* guards the bits of ages.h, and the other members */
    pthread_cond_t turned;            /* the committer has taken a turn */
    uint64_t turns;                   /* of the committer */
    _Atomic uint64_t rounds;          /* rises with each opening of the folder, and with each begin
                                       * and end of a pass */
    _Atomic uint64_t bytes;           /* the weight of pinned records */
    uint64_t coming;                  /* ... of those that are appended and not committed */
    uint64_t seen_bytes;              /* ... of those that the running pass has seen */
    _Atomic uint64_t written;         /* version of the table in the file; UINT64_MAX: unknown */
    atomic_bool passing;              /* a pass runs */
    atomic_bool marked;               /* a pass has ended since the folder was opened */
    atomic_bool left_out;             /* no pass has ended here since one that left it out */
    atomic_bool held;                 /* when it was opened, some records had been pinned before */
    atomic_bool over;                 /* a record found no room in the budget */
    atomic_bool unsaved;              /* some files of ages do not have the pinned records */
    /* A pass that was asked for because the budget fell, and the budget then; UINT64_MAX: none. For
     * the committer only. */
    uint64_t asked_pass, asked_budget;
    _Atomic uint64_t unpinned;        /* the weight of records that lost their room to older pins, or
                                       * because the budget became smaller; in this process */
    _Atomic uint64_t lost;            /* the weight of records that were evicted although they were
                                       * pinned; in this process */
};

/* State about metadata that is in RAM, beside the index. */
struct known {
    struct metadata_cache *cache;
    struct names *names;
    struct restated *restated;
    struct names_reader *reader;      /* of names, for other volumes (find_name.h) */
    /* Each counter is raised by a commit that changes metadata of its objects. A thread that reads
     * metadata from the disk into RAM compares the counter before and after. */
    atomic_uint changes[CHANGE_COUNTERS];
    /* Counts metadata that was handed in and is not committed yet. */
    atomic_uint coming[COMING_COUNTERS];
};

/* Work that the committer does in small batches between commits. */
struct upkeep {
    struct leftovers leftovers;
    struct counting counting;
    struct moved moved;
};

struct volume {
    struct volume_options options;
    const uint8_t *secret;            /* of the installation */
    uint32_t number;                  /* in the store */
    struct folder folder;             /* for the committer only */
    struct known known;
    struct events *events;
    struct bans *bans;
    struct index *index;
    struct extents *extents;
    atomic_uint generation;
    struct service service;
    struct space space;
    struct removed removed;
    struct upkeep upkeep;
    struct rule rule;
    struct recycler recycler;
    struct scrub scrub;
    struct pinned pinned;
    struct queue queue;
    struct volume_threads {
        pthread_t committer, watch;   /* 0: not started */
    } threads;
};

static inline atomic_uint *change_counter(struct volume *volume, const struct object_id *id)
{
    return &volume->known.changes[(id->bytes[2] | (unsigned)id->bytes[3] << 8) % CHANGE_COUNTERS];
}

static inline atomic_uint *coming_counter(struct volume *volume, const struct object_id *id)
{
    return &volume->known.coming[(id->bytes[2] | (unsigned)id->bytes[3] << 8) % COMING_COUNTERS];
}

/* True if the folder is open, and no removal was given up since its opening. */
static inline bool volume_is_good(struct volume *volume)
{
    return atomic_load_explicit(&volume->service.open, memory_order_acquire) &&
           !atomic_load_explicit(&volume->service.unproved, memory_order_relaxed);
}

/* Why a folder is out of service, as a text for people. */
#define DISK_SLOW \
    "the folder's disk takes too long to answer; check whether that disk hangs or is overloaded"

/* True if the latest progress of the disk, at `since_ms`, is so long ago that the disk counts as
 * hanging (rule H3 in src/README.md). */
static inline bool volume_hangs_since(const struct volume *volume, uint64_t since_ms)
{
    return mono_ms() >= since_ms + volume->options.commit_ms_max;
}

/* True if reads wait, and none has ended for too long. If a reader hangs itself, it ends no reads. So
 * only a reader that has just looked at its reads may conclude that the disk hangs (io.c). */
static inline bool volume_reads_wait_long(const struct volume *volume)
{
    return atomic_load_explicit(&volume->service.reads, memory_order_acquire) &&
           volume_hangs_since(volume, atomic_load_explicit(&volume->service.read_ms,
                                                           memory_order_relaxed));
}

/* True from the time when a reader found that the disk hangs until all reads have ended. */
static inline bool volume_reads_hang(const struct volume *volume)
{
    return atomic_load_explicit(&volume->service.reads_hang, memory_order_relaxed);
}

static inline bool volume_commit_hangs(const struct volume *volume)
{
    uint64_t since = atomic_load_explicit(&volume->service.busy_since_ms, memory_order_relaxed);
    return since > 0 && volume_hangs_since(volume, since);
}

static inline bool volume_is_late(const struct volume *volume)
{
    return volume_commit_hangs(volume) || volume_reads_hang(volume);
}

static inline bool volume_is_serving(struct volume *volume)
{
    return volume_is_good(volume) && !volume_is_late(volume);
}

/* True if the committer takes removals and purges. It does so too while only reads hang. */
static inline bool volume_takes_removals(struct volume *volume)
{
    return volume_is_good(volume) && !volume_commit_hangs(volume);
}

static inline bool versions_have(const struct store_versions *versions, uint64_t etag_hash,
                                 uint64_t mark)
{
    bool same = versions->etag_hash == etag_hash && versions->mark == mark;
    return versions->which == VERSIONS_ALL || same == (versions->which == VERSIONS_ONE);
}

/* Without it, a recycled extent loses its records. */
static inline bool volume_has_space_for_copy(const struct volume *volume)
{
    uint64_t want = atomic_load(&volume->space.extent_bytes);
    return atomic_load(&volume->space.free_bytes) >=
           atomic_load(&volume->space.reserve_bytes) + want;
}

static inline struct tallies *volume_tallies(const struct volume *volume)
{
    return volume->options.installation->tallies;
}

/* Drops the metadata in RAM if it is of these versions. Any thread. */
void volume_drop_in_ram(struct volume *volume, const struct object_id *id,
                        const struct store_versions *versions);

/* Queues a change for the committer. If too many changes wait, the change is dropped. Any
 * thread. */
void volume_update(struct volume *volume, enum update_kind kind, const struct object_id *id,
                 uint32_t unit, const struct entry *entry);

/* Makes the committer take a turn soon. Any thread. */
void volume_wants_turn(struct volume *volume);

/* To be called when the committer makes progress. */
static inline void volume_still_alive(struct volume *volume)
{
    atomic_store(&volume->service.busy_since_ms, mono_ms());
}

/* To be called when an op begins to wait for the disk, and when it ends. Any thread. Only an answer
 * shows that the disk does not hang. So neither a read that begins while others wait counts, nor
 * one that ends before the kernel has it. */
static inline void volume_read_begins(struct volume *volume)
{
    if (!atomic_load_explicit(&volume->service.reads, memory_order_relaxed))
        atomic_store_explicit(&volume->service.read_ms, mono_ms(), memory_order_relaxed);
    atomic_fetch_add_explicit(&volume->service.reads, 1, memory_order_release);
}

/* The disk has answered an op, which waits for another answer now. */
static inline void volume_read_goes_on(struct volume *volume)
{
    atomic_store_explicit(&volume->service.read_ms, mono_ms(), memory_order_relaxed);
}

static inline void volume_read_ended(struct volume *volume, bool answered)
{
    if (answered)
        volume_read_goes_on(volume);
    bool last = atomic_fetch_sub_explicit(&volume->service.reads, 1, memory_order_acq_rel) == 1;
    if (last && volume_reads_hang(volume))
        atomic_store(&volume->service.reads_hang, false);
}

/* True if dropped extents that readers hold take so much space that no room is made. Any thread. */
bool volume_holds_too_much(const struct volume *volume) MUST_USE;

/* Returns until when a thread that wants the space of dropped extents waits for their readers. Most
 * reads end within milliseconds, and a record that is refused must be fetched again. So the thread
 * waits for HELD_MS. If readers hold the extents for longer, later waits take only `least_ms`,
 * because appends that wait take memory. `since_ms` is the thread's own: the begin of the first
 * wait. The thread sets it to 0 when the space is released. */
#define HELD_MS 500u
static inline uint64_t volume_waits_until(uint64_t *since_ms, unsigned least_ms)
{
    uint64_t now_ms = mono_ms();
    if (!*since_ms)
        *since_ms = now_ms;
    return MAX(now_ms + least_ms, *since_ms + HELD_MS);
}

/* To be called when the recycler, which has its lock, makes progress. */
static inline void recycler_moves(struct volume *volume)
{
    atomic_store(&volume->recycler.moved_ms, mono_ms());
}

/* To be called when a commit has changed the metadata of this object. */
static inline void volume_changed(struct volume *volume, const struct object_id *id)
{
    atomic_fetch_add(change_counter(volume, id), 1);
}

/* As index_get_metadata, but ERR_NOT_FOUND if the metadata was purged. `name` NULL: purged metadata
 * is found, too. Any thread. */
enum err volume_find_metadata(struct volume *volume, const struct object_id *id,
                              const struct object_name *name, uint32_t *ret_unit,
                              struct entry *ret) MUST_USE;
/* True if metadata alone must stay when its record is evicted or expires: a folder in service has
 * units of the object, which nobody finds without metadata. Reads only indexes. Any thread. */
bool volume_keeps_metadata(struct volume *volume, const struct object_id *id);
/* True if a purge covers what this entry names. For the committer, which alone takes purges. */
static inline bool volume_is_purged(struct volume *volume, slice name, const struct entry *entry)
{
    struct ban_set *bans = ban_set_ref(&volume->bans->place);
    bool purged = ban_set_covers(bans, name, entry->extent, entry->ordinal);
    ban_set_unref(&bans);
    return purged;
}

void *commit_run(void *volume);        /* the committer's thread: commit.c */

#endif
