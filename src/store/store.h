/* store.h - the cache folders of this node. SPDX-License-Identifier: Apache-2.0
 *
 * This is the interface of the room. It finds metadata and bytes of objects, reads and verifies
 * them, appends and removes them. Each cache folder is a volume (volume.h), made of extents
 * (append-only files), the LMDB index and one committer thread. Each stripe of 64 MiB of an object
 * lies in one volume, which the route chooses (route.h). The store knows no origin, and it never
 * makes a request fail. If a folder is full, broken, being opened, or held by another process,
 * every look-up in it is a miss, and the other folders go on. Bytes that can't be proved right are
 * a miss, too (rule H2 in src/README.md). Threads: any thread may find and read, with a store_io of
 * its own. Any thread may hand in appends and removals; their done() runs on a thread of the
 * store. */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include "base/arena.h"
#include "base/copy.h"
#include "base/metric_bucket.h"
#include "store/disk.h"
#include "store/metadata.h"

#define UNIT_BYTES 131072u            /* each unit has an entry of its own in the index */
#define RECORD_UNITS 8u               /* the most consecutive units in a record */
/* A larger object is never stored: its units and blocks would not fit into numbers of 32 bits. Only
 * the functions of this header accept such an object. */
#define STORE_OBJECT_BYTES_MAX ((uint64_t)1 << 47)
#define RECORD_BYTES_MAX (UNIT_BYTES * RECORD_UNITS)
/* An object up to this size is one record, with the metadata before the data. */
#define WHOLE_BYTES_MAX RECORD_BYTES_MAX
#define READ_BYTES_MAX 262144u        /* the most bytes of one read into a buffer of the store */

/* Advice at the end of messages about a folder. An operator sets one of the two settings. */
#define SET_ANOTHER "set another folder in cache_dir or cache_dirs"
#define SET_EMPTY "set an empty folder in cache_dir or cache_dirs"

struct store;

struct store_folder {
    const char *path;
    /* 0: 80 % of the free space and of the folder's own bytes; derived again when space grows */
    uint64_t size_bytes;
};

/* The limits of a bucket, or of the keys of a bucket that begin with a prefix. */
struct store_limits {
    slice bucket, prefix;             /* prefix empty: the whole bucket */
    uint64_t quota_bytes;             /* of the objects' bytes in the cache; 0: none */
    uint64_t object_bytes_max;        /* larger objects are not stored; 0: no limit */
    uint64_t expire_ms;               /* evicts records that were not read for this time; 0: none */
    /* HOT: the rule decides. ALWAYS: each record counts as often read. NEVER: none is stored. */
    enum store_admission { ADMISSION_HOT, ADMISSION_ALWAYS, ADMISSION_NEVER } admission;
};

struct store_options {
    const struct store_folder *folders;    /* copied */
    size_t folder_count;              /* 1 to VOLUMES_MAX */
    const struct store_limits *limits;    /* copied; see store_set_limits */
    size_t limit_count;
    uint64_t reserve_bytes;           /* space of the file system that stays free; 0: automatic */
    uint32_t extent_bytes;            /* 0: size / 64, between 4 and 64 MiB */
    size_t metadata_bytes;            /* RAM for metadata */
    size_t held_bytes;                /* RAM for bytes that readers hold; 0: no limit of its own */
    /* H8: bytes of records that wait for a commit or are in one; further records are refused. The
     * folders share it, but each gets 2 MiB at least. */
    size_t queue_bytes_max;
    /* H3: a folder goes out of service if its disk makes no progress for this time, while a commit or
     * reads wait for it. */
    uint32_t commit_ms_max;
    uint64_t scrub_ms;                /* each record is verified once in this time; 0: never */
    uint32_t read_gap_bytes;          /* reads with no larger gap between them become one read */
    /* Whether reads bypass the page cache (O_DIRECT). COLD_AUTO: they do if the extents have more
     * bytes than half of memory_bytes. */
    enum cold_reads { COLD_BUFFERED, COLD_AUTO, COLD_DIRECT } cold_reads;
    uint64_t memory_bytes;            /* of this process; also the limit for maps of extents */
    uint64_t locked_bytes;            /* H8: of extents that stay in memory */
    enum disk_engine engine;
    unsigned pin_percent;             /* of the size, that pinned records may take (pins.h) */
};

/* Returns OK even if a folder can't be used now, because it is read-only, failing, or held by
 * another process: the folder is then out of service, and the store tries it again by itself.
 * Returns ERR_FORMAT if starting would be a mistake, because a folder has foreign files or a newer
 * format, or is no folder. A cache folder without its format file begins anew (store_status).
 * ret_whys has room for a sentence for each folder, in keep: why the folder is not in service, or
 * empty. */
enum err store_open(const struct store_options *options, struct arena *keep, struct store **ret,
                    slice *ret_whys) MUST_USE;
/* Returns why not more extents are locked in memory: static text, for people. Any thread. */
const char *store_locked_why(const struct store *store) MUST_USE;
/* Clean stop: empties the queue, commits, writes the clean mark. No store_io may be left. */
void store_close(struct store **store);

/* The owner of Penstock's own credentials at each endpoint; empty: not known yet. To be called
 * once, before any call to an origin. If an owner has changed since the last time, the metadata
 * from its endpoint is unshared (metadata->unshared). */
struct store_name {
    slice endpoint, name;
};
void store_names(struct store *store, const struct store_name *list, size_t count);

/* The figures of one folder for the status document. One call fills them all. */
struct store_status {
    bool serving;
    const char *folder;               /* its path; the store's */
    const char *why;                  /* static text: why the folder is out of service; or "" */
    /* static text: why the latest opening dropped all objects and began anew; or "" */
    const char *anew;
    uint64_t faults;                  /* how often the folder went out of service */
    uint64_t size_bytes, used_bytes, entries, index_bytes, metadata_bytes;
    uint64_t live_bytes;              /* of objects, at most half a second ago; less while the records
                                       * of earlier processes are counted */
    uint64_t free_bytes, reserve_bytes;    /* of the file system, less than a second ago */
    uint64_t capacity_bytes;          /* the part of size_bytes that the file system has room for */
    bool derived;                     /* no setting gives size_bytes */
    uint64_t pinned_bytes, pin_budget_bytes;    /* the weight of pinned records; its limit */
    uint32_t extents;
    struct store_work {               /* since the process began */
        uint64_t appended_bytes;
        uint64_t copied_bytes;        /* of these, bytes of data that the recycler copied */
        uint64_t evicted;             /* extents */
        uint64_t bad_blocks;          /* reads whose checksum failed, and extents_damaged */
        int64_t scrubbed_s;           /* wall clock: end of the latest full scrub; 0: none */
    } work;
};
/* Reads of records lately, and how many of them were hits, or would have been in a cache of another
 * size, by an estimate (what_if.h). A record has at most 1 MiB of an object. Sums of all folders; 0
 * as long as too few records were read again. Any thread. */
struct store_what_if {
    double reads, hits, half_hits, double_hits, fourfold_hits;
};
void store_what_if(struct store *store, struct store_what_if *ret);
size_t store_folder_count(const struct store *store);
/* Adds the bytes and objects of each bucket to ret[METRIC_BUCKETS_MAX], by the numbers of the
 * buckets (metric_bucket). Any thread; waits for no disk. */
void store_bucket_holds(struct store *store, struct bucket_holds *ret);
/* Both never wait for a disk. store_status is the sum of all folders: serving if one of them is.
 * folder, why and anew are those of the first folder that is out of service, else those of the
 * first folder. */
void store_folder_status(struct store *store, size_t folder, struct store_status *ret);
void store_status(struct store *store, struct store_status *ret);
/* Returns static text: why all that the folder had counts as purged, since its latest opening; or
 * "". */
const char *store_folder_emptied(struct store *store, size_t folder);
/* True if the folder could not be read at the start, and may have been in use alone before. Then all
 * that the other folders have is unproved. */
bool store_folder_is_unread(const struct store *store, size_t folder);
/* The same for a folder that the settings no longer have. */
bool store_folder_left(const struct store *store);
/* Returns the bytes that were unpinned since the process began, because the pin budget of the folder
 * had no room for them and for older pins. */
uint64_t store_folder_unpinned(struct store *store, size_t folder);
/* Returns the bytes that were evicted since the process began, although they were pinned. */
uint64_t store_folder_pins_lost(struct store *store, size_t folder);
/* Returns the number of files in extents/ that can't be used: they are of another program or folder,
 * or damaged. 0 if the folder is out of service. */
uint32_t store_folder_unusable(struct store *store, size_t folder);
/* Returns the number of extents of the folder whose table of contents was found damaged or
 * unreadable since the process began. Sets *ret_last to the number of the latest of them. */
uint32_t store_folder_damaged(struct store *store, size_t folder, uint32_t *ret_last);

/* Reads the size of a path's file system, and the bytes and files (inodes) that are free for this
 * process now. Returns OK, or ERR_IO if the file system does not give them. */
struct store_space {
    uint64_t bytes, free_bytes;
    uint64_t free_files;              /* UINT64_MAX: the file system has no such limit */
};
enum err store_space(const char *path, struct store_space *ret) MUST_USE;
/* Finds the result that an opening would have, without opening the folder. Returns OK; ERR_FORMAT
 * if starting would be a mistake; ERR_BUSY if another process holds the folder; ERR_DENIED if this
 * user lacks a right that another user may have; ERR_IO if nobody can use the folder now. *ret_why,
 * in keep, says why and what to do. */
enum err store_probe(const char *folder, struct arena *keep, slice *ret_why) MUST_USE;
/* Returns true if the folder has a secret of an installation: its format file can be read. */
bool store_has_secret(const char *folder);
/* Returns false if both folders have a secret, and the secrets differ. The folders belong to two
 * installations then, and the second one is not used. `first` may be NULL. */
bool store_is_of(const char *folder, const char *first);
/* Returns true if both folders have the same volume id: one is a copy of the other. A start uses
 * only the first of them. */
bool store_is_copy_of(const char *folder, const char *other);
/* Returns the size that a folder will get if it is opened with options.size_bytes 0. The folder may
 * be missing; `on` is a path on its future file system. */
uint64_t store_derived_size(const char *folder, const char *on);

/* Sets ret to the id of the cache folders together. It stays the same as long as one of them can be
 * read at the start, and a copy of a folder has the same. */
void store_installation_id(const struct store *store, uint8_t ret[16]);
void store_object_id(const struct store *store, const struct object_name *name,
                     struct object_id *ret);

/* ---- reading: each thread that reads has a store_io ---- */

struct store_io;
struct store_io *store_io_new(struct store *store, struct mailbox *box) MUST_USE;
/* Every op must have ended or been dropped. Waits for the disk. */
void store_io_free(struct store_io **io);
void store_io_reap(struct store_io *io);     /* call whenever the mailbox was readable */
/* From plug to unplug, reads that need the disk are gathered. Then they start together, in their
 * order on the disk. Neighbours no further apart than read_gap_bytes become one read. None of the
 * gathered reads ends before unplug. */
void store_io_plug(struct store_io *io);
void store_io_unplug(struct store_io *io);

/* One look-up or read in progress. */
struct store_op;
/* Drops the op: done() will not be called. Never blocks. Sets *op to NULL; accepts NULL. */
void store_op_drop(struct store_op **op);
/* True if the op reads into its caller's memory. The disk may write to that memory until the read
 * ends, also if the op is dropped; at the latest until store_io_free returns. Accepts NULL. */
bool store_op_writes(const struct store_op *op);
/* Returns the number of bytes that a read will bring if it ends with OK. */
uint64_t store_op_bytes(const struct store_op *op);

/* Finds the metadata of an object. Returns OK with a reference in *ret; ERR_NOT_FOUND; or ERR_WAIT
 * with *ret_op. done() is then called on this thread, with OK and a reference that it owns, or with
 * ERR_NOT_FOUND. */
typedef void metadata_done(void *arg, enum err err, struct metadata *take_metadata);
enum err store_metadata(struct store_io *io, const struct object_id *id,
                        const struct object_name *name, metadata_done *done, void *arg,
                        struct metadata **ret, struct store_op **ret_op) MUST_USE;

/* Bytes of an object, read and verified, held until they are released. */
struct object_bytes {
    slice bytes;
    void *owner;                      /* the store's */
};
/* True if the bytes lie in the map of a file. */
bool object_bytes_are_lent(const struct object_bytes *held);
/* The same, and finds the file, which has them at this offset. The descriptor is valid
 * until object_bytes_release. */
bool object_bytes_file(const struct object_bytes *held, int *ret_fd, uint64_t *ret_offset);
/* Copies these bytes of *held, which may lie in the map of a file. Returns ERR_IO if the file was
 * truncated, so that they are gone, or ERR_FAULT if `to` is a map and can't be written. */
enum err object_bytes_copy(const struct object_bytes *held, slice bytes, void *to,
                           enum copy_use use) MUST_USE;
/* To be called on the thread that read the bytes. `held` may be empty. */
void object_bytes_release(struct object_bytes *held);
/* True if readers hold more than they should: a caller should then copy a little, and release the
 * rest. Cheap. */
bool store_held_bytes_scarce(const struct store_io *io);

/* Which records count. Staged records go soon (struct store_append). */
enum store_records { RECORDS_ALL, RECORDS_NOT_STAGED };

/* Where a read puts the bytes. */
struct store_to {
    void *memory;                     /* the caller's memory for them; NULL: none */
    /* The bytes may lie in the map of a file (object_bytes_file). The caller only gives them to the
     * kernel, or copies them with object_bytes_copy, because a program that touches them ends with
     * SIGBUS if the file was truncated. */
    bool lends;
    /* A job reads, ahead of its reader: it is no use of the record. */
    bool ahead;
    enum store_records among;
};

/* Reads bytes of an object from `offset` on, up to `end` and at most READ_BYTES_MAX. Returns as
 * many as the store has in a row, at least one.
 *   OK with *ret            the bytes were in the page cache
 *   ERR_NOT_FOUND           the store does not have the unit of `offset`
 *   ERR_WAIT with *ret_op   done() is called with OK, or with ERR_GONE if the bytes fail their
 *                           checks: a miss, which is counted, and the index forgets the entry.
 *                           Also ERR_GONE if the read was given up, or if the kernel refused it: a
 *                           miss, and the entry stays
 *
 * If to.memory is set, it has room for all bytes up to `end`. A read with a whole 64 KiB block in it (the
 * object's last block may be short) goes directly to that memory, up to RECORD_BYTES_MAX at once.
 * The held bytes are then there, and have no owner. The bytes of any other read lie elsewhere,
 * and the caller copies them. A process that can't be trusted may share this memory. So if
 * bytes fail their checks there, they are read once more, elsewhere, before the record counts as
 * bad. done() gets ERR_FAULT if the memory can't be written; the record is not bad then. If to.lends
 * is set, up to RECORD_BYTES_MAX come at once; they may lie in a map even if to.memory is set. */
typedef void object_bytes_done(void *arg, enum err err, struct object_bytes take_bytes);
enum err store_read(struct store_io *io, const struct metadata *metadata, uint64_t offset,
                    uint64_t end, struct store_to to, object_bytes_done *done, void *arg,
                    struct object_bytes *ret, struct store_op **ret_op) MUST_USE;

/* Returns the number of consecutive units from `first` on, at most `count`, that the store has for
 * this metadata in these records. Reads only the index. Any thread. */
uint64_t store_has_units(struct store *store, const struct metadata *metadata, uint64_t first,
                         uint64_t count, enum store_records among);
/* Returns the first of the `count` units from `first` on that the store has for this metadata, or
 * first + count if it has none of them. Costs a look-up in the index for every 64 MiB, and one for
 * each unit that does not count: of another version, or staged. After 2,048 look-ups the search ends: the store then has no unit
 * before the one that is returned. */
uint64_t store_next_unit(struct store *store, const struct metadata *metadata, uint64_t first,
                         uint64_t count, enum store_records among);

/* ---- purges (purge.h) ----
 *
 * A caller that will store metadata or bytes calls store_compared() before it asks the origin, and
 * keeps the result. If the name is purged after that, the metadata or bytes must not be served to a
 * new reader. */

/* The newest purge. Any thread; one atomic load. */
uint64_t store_compared(const struct store *store);
/* True if a purge after the note has this name. Any thread; cheap if there was no purge. */
bool store_is_purged(struct store *store, const struct object_name *name, uint64_t compared);

/* ---- writing ---- */

/* Bytes that all extents together may have now. Any thread; cheap. */
uint64_t store_capacity(struct store *store);

/* Returns true if the object's folder is in service, and its disk keeps up with the appends. To be
 * called once, when a fill starts. */
bool store_takes(struct store *store, const struct object_id *id);
bool store_keeps_up(struct store *store, const struct object_id *id);    /* the same, at any time */
/* Replaces the limits of buckets and prefixes. Any thread. */
void store_set_limits(struct store *store, const struct store_limits *rows, size_t count);
/* Returns false if the limits of the bucket or prefix forbid to store this object: the admission is
 * NEVER, or the object is too large. False for an object above STORE_OBJECT_BYTES_MAX, too. */
bool store_allows(struct store *store, const struct metadata *metadata);
/* Returns true if the record that has this unit may be stored (admission). To be called once for
 * each fetched record, when its flight begins: the call counts as a touch of the record. */
bool store_admits(struct store *store, const struct metadata *metadata, uint64_t unit);
/* The same for a record that is fetched ahead of its reader, whose read will be the touch.
 * *ret_staged: the record is not admitted, but may be staged (store_append.staged). */
bool store_admits_ahead(struct store *store, const struct metadata *metadata, uint64_t unit,
                        bool *ret_staged);
/* Returns the most bytes of one get that are staged: more would push themselves out. */
uint64_t store_staged_max(const struct store *store);
/* Sets the bytes that jobs keep ahead of readers; 0: there is no such job. One thread. */
void store_keep_ahead(struct store *store, uint64_t bytes);
/* Returns true if metadata of this object may be stored without bytes. At the quota of the bucket
 * or prefix, or while its bytes are counted, only newer metadata of an object that the store knows
 * may be stored. */
bool store_admits_metadata(struct store *store, const struct metadata *metadata);

/* A finished record. The caller fills in this struct, and keeps it, the metadata and the bytes
 * until done() is called, once, on the committer's thread. done() gets OK if the record is
 * committed and can be found, ERR_CHANGED if may_publish returned false, ERR_FULL or ERR_IO. */
struct store_append {
    struct metadata *metadata;
    uint32_t first_unit;
    /* Whole units; the last one is short only at the object's end. May be empty if with_metadata:
     * then only the metadata is stored. */
    slice bytes;
    /* True: the recycler makes room for the record if necessary. False: the record is stored only
     * if there is room, or if store_admits has made the recycler make room. */
    bool must;
    /* The record is for a reader that comes soon. Its bytes lie in the staging extent, and go some
     * time after they were read, or at the next opening of the folder (stage.h). Its metadata lies
     * in the log and stays, unless both are one WHOLE record; it asks for room as `must` does. */
    bool staged;
    /* A staged record: clients have read it already. */
    bool read;
    /* The record is fetched ahead of its reader. If it is admitted, and finds no room, it is staged. */
    bool ahead;
    /* store_compared() before the origin was asked. If a purge came since, nothing is stored. */
    uint64_t compared;
    /* Commit the metadata, too. With all bytes of a small object it becomes one WHOLE record. */
    bool with_metadata;
    /* A committer calls it inside the transaction that publishes a record (H7). If metadata and
     * bytes lie in two folders, two threads call it. NULL: always true. */
    bool (*may_publish)(const struct store_append *append);
    void (*done)(struct store_append *append, enum err err);
    struct list link;                 /* the store's */
    uint16_t tally;                   /* the store's */
};
/* The bytes must lie in one stripe. ERR_LIMIT (the queue is full), ERR_IO (out of service),
 * ERR_FULL (the quota of the bucket or prefix has no room), ERR_STOPPING: the append was not taken,
 * and done() will not come. */
enum err store_append(struct store *store, struct store_append *append) MUST_USE;

/* Which of the versions that an object may have. */
struct store_versions {
    enum { VERSIONS_ALL, VERSIONS_ONE, VERSIONS_OTHERS } which;    /* OTHERS: all but this one */
    uint64_t etag_hash, mark;         /* as in metadata_is_of */
};
struct store_versions store_version_of(const struct metadata *metadata);
struct store_versions store_versions_but(const struct metadata *metadata);

/* Removes the metadata of each id: before a write (H7), or because the origin contradicts the
 * metadata. Metadata of another version than these stays. The running commits end at once. done() gets OK when the removal is committed in each
 * folder that has one of the ids, or ERR_IO if one of these folders went out of service. ERR_IO is
 * as safe as OK: that folder serves no metadata until it is back in service, and the metadata is
 * then unproved and unshared. */
struct store_removal {
    const struct object_id *ids;
    size_t count;
    struct store_versions versions;
    bool refused;                     /* set by the store: the metadata stays, marked as refused */
    bool bucket;                      /* set by the store: the id is a bucket's (store_restate) */
    /* Nobody waits for done(). If the folder hangs, the removal is made when the folder goes on; but if
     * too many of them wait, they count as removals that somebody waits for. */
    bool unawaited;
    void (*done)(struct store_removal *removal, enum err err);    /* on a thread of the store */
    struct list link;                 /* the store's */
};
void store_remove(struct store *store, struct store_removal *removal);
/* For a call that may change the metadata of all objects in a bucket. The id is that of the name
 * without a key. The next process must know of the call, so done() is called as for a removal, when
 * a note is on disk. From then on the metadata of these objects is restated, unless the origin has
 * confirmed it to this process. An id of all zeros stands for every bucket. */
void store_restate(struct store *store, struct store_removal *removal);
/* True if the store has metadata of this object, or will have it soon. Metadata that was purged
 * counts only if `name` is NULL. Any thread; cheap. */
bool store_knows(struct store *store, const struct object_id *id, const struct object_name *name);
/* True if the store has metadata of one of these versions of the object, in a folder that is in
 * service. True also if nobody can tell: metadata of the object is on its way into the index, or the
 * folder hangs. Any thread; cheap. */
bool store_may_have(struct store *store, const struct object_id *id,
                    const struct store_versions *versions);

/* The origin's answer about an object's current version, from a HEAD or from a line of a
 * listing. */
struct store_vouch {
    uint64_t etag_hash, size;
    int64_t modified_s;
    slice fields;                     /* as in metadata->fields; ptr NULL: from a listing */
    int64_t when_s;                   /* ageing_s() when the request was sent */
    /* For a listing: its bucket (the id of a name without a key), and when the bucket was last
     * restated in this process (0: never). Metadata that the origin has not confirmed since then is
     * CHANGED. */
    int64_t after_s;
    const struct object_id *bucket;   /* NULL: from a HEAD */
    const struct object_name *name;   /* of the object; NULL: purged metadata is renewed, too */
};
/* RENEWED: the store has this version. CHANGED: the store has another version or other fields, or
 * RAM is not enough to know. ABSENT: the store has no version. Reads only index and RAM. Unproved
 * metadata stays unproved until a commit proves it. */
enum store_renewal { STORE_RENEWED, STORE_ABSENT, STORE_CHANGED };
enum store_renewal store_renew(struct store *store, const struct object_id *id,
                               const struct store_vouch *vouch);

/* Raises metadata->granted of the version of `only` (NULL: of any version), and its copy in the
 * extent's table. Returns the highest value known. Reads only index and RAM; any thread. If a
 * thread is reading the metadata from the disk, that metadata is raised, too, or read again. If
 * `forgive`, a later commit removes an earlier refusal from the disk. */
uint32_t store_grant(struct store *store, const struct object_id *id, const struct metadata *only,
                     uint32_t granted, bool forgive);
/* For a refusal of this object to the shared identity, after store_grant has noted it in RAM. Marks
 * all metadata of the object as unshared on disk, for the next process. done() is called as for
 * store_remove. Returns false if there is no metadata to mark; done() is not called then. */
bool store_refuse(struct store *store, struct store_removal *removal) MUST_USE;

#endif
