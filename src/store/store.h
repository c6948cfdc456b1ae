/* store.h - what is cached on this node. SPDX-License-Identifier: Apache-2.0
 *
 * The face of the room: heads and bytes of objects, found, read verified, appended, removed. Behind
 * it: extents (append-only files), the LMDB index, one committer thread. Nothing here knows an
 * origin, and nothing here fails a request: a folder that is full, broken, held by another or being
 * opened is "not there", and what can't be proved right is a miss (H2). Threads: finding and
 * reading from any thread (each with its own store_io); appends and removals may be handed in by
 * any thread and end on a thread of the store's. */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include "base/arena.h"
#include "store/disk.h"
#include "store/head.h"

#define UNIT_BYTES 131072u            /* a unit: what is indexed */
#define RECORD_UNITS 8u               /* at most so many consecutive units make a record */
#define RECORD_BYTES_MAX (UNIT_BYTES * RECORD_UNITS)
#define WHOLE_BYTES_MAX RECORD_BYTES_MAX    /* an object up to this is one record, head in front */
#define PIECE_BYTES_MAX 262144u       /* what one store_read hands out at most */

struct store;

struct store_options {
    const char *folder;
    /* 0: 80 % of what is free and of what it holds; derived again when there is more room */
    uint64_t size_bytes;
    uint64_t reserve_bytes;           /* free space of the file system never used; 0: automatic */
    uint32_t extent_bytes;            /* 0: size / 64, between 4 and 64 MiB */
    size_t heads_bytes;               /* RAM for heads */
    size_t pieces_bytes;              /* RAM for pieces that readers hold; 0: no limit of its own */
    size_t queue_bytes_max;           /* bytes of records waiting for the committer */
    uint32_t commit_ms_max;           /* no commit for so long is out of service (H3) */
    uint32_t read_gap_bytes;          /* what may lie between reads that become one */
    /* Past the page cache (O_DIRECT)? Automatic: once there are more bytes of extents than fit into
     * half of memory_bytes, what this process may use. No more of the extents is mapped. */
    enum cold_reads { COLD_BUFFERED, COLD_AUTO, COLD_DIRECT } cold_reads;
    uint64_t memory_bytes;
    enum disk_engine engine;
};

/* OK also when the folder can't be used just now (held by another process, read-only, failing): the
 * store is then out of service and tries again by itself. ERR_FORMAT: the folder holds something
 * that is not ours, or a newer format, or is not a folder: starting anyway would be a mistake. One
 * of ours whose format file is lost begins anew (store_status).
 * *ret_why (in keep) is a sentence for people in all these cases, empty when all is well. */
enum err store_open(const struct store_options *options, struct arena *keep, struct store **ret,
                    slice *ret_why) MUST_USE;
/* Clean stop: empties the queue, commits, writes the clean mark. No store_io may be left. */
void store_close(struct store **store);

/* In whose name all is asked at an endpoint that is not a client's own; empty: not known yet. Told
 * once, before anything is asked: where it is another than last time, no head here counts as one
 * that this name was shown (head->unshared). */
struct store_name {
    slice endpoint, name;
};
void store_names(struct store *store, const struct store_name *list, size_t count);

struct store_status {
    bool serving;
    const char *why;                  /* static text: why not serving; "" */
    /* why the folder began anew when it was last opened, all it held lost; static text, "" */
    const char *anew;
    uint64_t size_bytes, used_bytes, entries, index_bytes, heads_bytes;
    uint64_t free_bytes, reserve_bytes;    /* of the file system: seen less than a second ago */
    uint64_t capacity_bytes;          /* of size_bytes, what the file system has room for */
    bool derived;                     /* no setting says size_bytes */
    uint32_t extents;
};
void store_status(struct store *store, struct store_status *ret);    /* never waits for the disk */

/* The file system that a path lies on: how large it is, and what of it is free for us, now. ERR_IO:
 * that can't be told. */
struct store_space {
    uint64_t bytes, free_bytes;
};
enum err store_space(const char *path, struct store_space *ret) MUST_USE;
/* What an opening would meet, without opening: OK; ERR_FORMAT: starting would be a mistake;
 * ERR_BUSY: another process holds it; ERR_IO: it can't be used by this user, or now. *ret_why, in
 * keep, says why and what to do. */
enum err store_probe(const char *folder, struct arena *keep, slice *ret_why) MUST_USE;
/* The size that a folder will have when it is opened with options.size_bytes 0. It may be missing;
 * `on` is a path on the file system that it will be on. */
uint64_t store_derived_size(const char *folder, const char *on);

void store_object_id(const struct store *store, const struct object_name *name,
                     struct object_id *ret);

/* ---- reading: each thread that reads has a store_io ---- */

struct store_io;
struct store_io *store_io_new(struct store *store, struct mailbox *box) MUST_USE;
void store_io_free(struct store_io **io);    /* every op ended or dropped; waits for the disk */
void store_io_reap(struct store_io *io);     /* call whenever the mailbox was readable */
/* Between the two, reads that must wait for the disk are gathered; then they start together, in the
 * order they lie in, and neighbours, no further apart than read_gap_bytes, as one. Nothing ends
 * before the plug goes. */
void store_io_plug(struct store_io *io);
void store_io_unplug(struct store_io *io);

/* One lookup or read under way. */
struct store_op;
/* Whoever waits goes: done() is not called any more. Never blocks. Empties *op; accepts NULL. */
void store_op_drop(struct store_op **op);
/* Does it read into its caller's memory? Then that is written to until the read has ended, also if
 * it is dropped: at the latest when store_io_free returns. Accepts NULL. */
bool store_op_writes(const struct store_op *op);

/* The head of an object. OK with *ret, a reference; ERR_NOT_FOUND; or ERR_WAIT with *ret_op: done
 * comes on this thread, with OK and a reference that is the callee's, or ERR_NOT_FOUND. */
typedef void head_done(void *arg, enum err err, struct head *take_head);
enum err store_head(struct store_io *io, const struct object_id *id, const struct object_name *name,
                    head_done *done, void *arg, struct head **ret,
                    struct store_op **ret_op) MUST_USE;

/* A piece of an object's bytes, verified. */
struct piece {
    slice bytes;
    void *owner;                      /* the store's */
};
void piece_release(struct piece *piece);    /* on the thread it was read on; safe on an empty one */
/* Readers hold more than they should: copy what you keep, and little of it. Cheap. */
bool store_pieces_scarce(const struct store_io *io);

/* Object bytes from `offset` on, at most up to `end` and PIECE_BYTES_MAX: as many as lie here in a
 * row, at least one. OK with *ret (it was in the page cache); ERR_NOT_FOUND: the unit of `offset`
 * is not here; ERR_WAIT with *ret_op: done comes with OK, or ERR_GONE when it failed its checks
 * (counted, and the index forgets it), which is a miss.
 *
 * `to`: memory for all up to `end`, or NULL. What has a whole 64 KiB block in it (the object's last
 * one may be short) is read straight there, up to RECORD_BYTES_MAX at once: the piece's bytes are
 * then at `to`, and nobody owns them. Others lie elsewhere, and the caller copies. That memory may
 * be shared with who can't be trusted: bytes that fail there are read once more, elsewhere, before
 * their record is blamed; where it can't be written, that is ERR_FAULT, and no fault of the
 * record's. */
typedef void piece_done(void *arg, enum err err, struct piece take_piece);
enum err store_read(struct store_io *io, const struct head *head, uint64_t offset, uint64_t end,
                    void *to, piece_done *done, void *arg, struct piece *ret,
                    struct store_op **ret_op) MUST_USE;

/* How many units from `first` on, at most `count`, are here for this head. Index only, any
 * thread. */
uint32_t store_has_units(struct store *store, const struct head *head, uint32_t first,
                         uint32_t count);
/* The first unit from `first` on, among `count`, that is here for this head; first + count if
 * none. */
uint32_t store_next_unit(struct store *store, const struct head *head, uint32_t first,
                         uint32_t count);

/* ---- writing ---- */

/* Bytes of extents that there may be now. Any thread; cheap. */
uint64_t store_capacity(struct store *store);

/* May these bytes be stored? Asked once, when a fill starts. */
bool store_admits(struct store *store, const struct object_id *id, uint64_t bytes);

/* A finished record. The caller fills it in and keeps it, the head and the bytes until done(),
 * which comes exactly once, on the committer's thread: OK when it is committed and can be found,
 * ERR_CHANGED when may_publish said no, ERR_FULL, ERR_IO. */
struct store_append {
    struct head *head;
    uint32_t first_unit;
    /* whole units; short only at the object's end. Empty with with_head: the head alone */
    slice bytes;
    /* commit the head too; with all bytes of a small object: one WHOLE record */
    bool with_head;
    /* Asked by the committer inside the transaction that publishes (H7). NULL: yes. */
    bool (*may_publish)(const struct store_append *append);
    void (*done)(struct store_append *append, enum err err);
    struct list link;                 /* the store's */
};
/* ERR_LIMIT (queue full), ERR_IO (out of service), ERR_STOPPING: nothing was taken, done() won't
 * come. */
enum err store_append(struct store *store, struct store_append *append) MUST_USE;

/* Removes the head of each id (a purge, or H7's first step): closes the batch at once, done() when
 * it is committed, with OK; or with ERR_IO when the folder went out of service, which is as good:
 * nothing of it is served, and it comes back only unproved, and unshared. */
struct store_removal {
    const struct object_id *ids;
    size_t count;
    bool refused;                     /* the store's: the head stays, and says so */
    bool bucket;                      /* the store's: its id is a bucket's, see store_restate */
    void (*done)(struct store_removal *removal, enum err err);    /* on a thread of the store's */
    struct list link;                 /* the store's */
};
void store_remove(struct store *store, struct store_removal *removal);
/* What is said of the objects of a bucket may change (its id: of the name without key). The next
 * process must know: done() as of a removal, when that is on disk. Any head of them that this process
 * has no word of is restated, from then on. */
void store_restate(struct store *store, struct store_removal *removal);
/* Is there a head of this object, here or on its way in? Any thread; cheap. */
bool store_knows(struct store *store, const struct object_id *id);

/* What the origin said of an object's current version, by a HEAD or a line of a listing. */
struct store_vouch {
    uint64_t etag_hash, size;
    int64_t modified_s;
    slice fields;                     /* as a head has them; ptr NULL: a listing tells none */
    int64_t when_s;                   /* wall clock when it was asked */
    /* Of a listing: its bucket (the id of a name without key), and when that was last restated in
     * this process (0: it was not). What the origin has not vouched for since then is CHANGED. */
    int64_t after_s;
    const struct object_id *bucket;   /* NULL: of a HEAD */
};
/* RENEWED: it is the one we have, CHANGED: it is not, or its fields are others, or it can't be seen
 * in RAM whether they are. Index and RAM only. An unproved head stays so until a commit has said
 * otherwise. */
enum store_renewal { STORE_RENEWED, STORE_ABSENT, STORE_CHANGED };
enum store_renewal store_renew(struct store *store, const struct object_id *id,
                               const struct store_vouch *vouch);

/* Raises head->shown of the version that `only` is of (NULL: of any), and what is kept of it beside
 * when it was last vouched for; the answer is the highest that is known. Index and RAM only; any
 * thread. A head that is read just now is told too, or read again. `forgive`: that it is no refusal
 * goes to disk, with some later commit. */
uint32_t store_shown(struct store *store, const struct object_id *id, const struct head *only,
                     uint32_t shown, bool forgive);
/* The shared identity has been refused this object, and store_shown told: so that the next process
 * knows, too, each head of it that is here counts as unshared on disk, as store_remove would remove
 * it. False: there is none that does not; done() won't come. */
bool store_refuse(struct store *store, struct store_removal *removal) MUST_USE;

#endif
