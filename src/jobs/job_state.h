/* job_state.h - a job as its files have it. SPDX-License-Identifier: Apache-2.0
 *
 * A job brings the objects of a prefix, or of a list of keys, into the cache. It outlives the
 * process by two files in the folder jobs/ of a cache folder (penstock-format(5)): its state, which
 * is replaced again and again, and its list, which is written once. The functions here encode and
 * decode both. They do no I/O; any thread may call them. */
#ifndef JOBS_JOB_STATE_H
#define JOBS_JOB_STATE_H

#include "s3/items.h"

#define JOB_WINDOW_DEFAULT (2 * GIB)
#define JOB_RANGES_MAX 16u            /* H8: ranges of each object */
#define JOB_FAILURES_MAX 100u         /* H8: failures that are listed; all are counted */
#define JOB_FILE_MAX (512 * KIB)      /* more than any state file has */
#define JOB_LIST_MAX (64 * MIB)       /* H8: the file of a list; the body that brings it */

enum job_mode {
    JOB_WARM,                         /* brings all items, as fast as the origin allows */
    /* Readers will read the items in this order. The job keeps a window of bytes ahead of them. */
    JOB_FOLLOW,
    JOB_MODES
};

/* The task of a job. It never changes. */
struct job_spec {
    slice owner;                      /* an access key; empty: a lent key. Never a secret */
    slice bucket, prefix;
    enum job_mode mode;
    uint64_t window;                  /* bytes; of JOB_FOLLOW, which is by_list */
    bool by_list;                     /* the keys are those of the list, not those of the prefix */
    bool pins;                        /* the prefix is to be pinned first; not in the file */
    uint64_t listed;                  /* the number of items in the list */
    /* The bytes of each object that are wanted, as in a Range header; none: the whole object. */
    struct s3_range ranges[JOB_RANGES_MAX];
    size_t range_count;
};

enum job_state {
    JOB_RUNNING,
    JOB_DONE,                         /* every item is in the cache, or is counted as failed */
    JOB_CANCELED,                     /* a client canceled it */
    JOB_FULL,                         /* the cache does not keep what the job brings */
    JOB_REFUSED,                      /* its owner is gone, or may not list the prefix */
    JOB_FAILED,                       /* its other items can't be found, or it took 7 days */
    JOB_UNREAD,                       /* of JOB_FOLLOW: what it brings is not read */
    JOB_STATES
};

const char *job_state_name(enum job_state state);    /* "running", "done" ... */
const char *job_mode_name(enum job_mode mode);       /* "warm", "follow" */

/* Counts of items. Each item is a hit, was fetched, was skipped, or has failed. */
struct job_sums {
    uint64_t objects, bytes;          /* of hits and fetched items: the bytes that were wanted */
    uint64_t hits;                    /* all bytes were in the cache already */
    uint64_t fetched, origin_bytes;   /* items that lacked bytes; those that the origin sent */
    uint64_t not_kept;                  /* of the fetched items: the cache did not keep all bytes */
    uint64_t failed;
    uint64_t skipped;                 /* of JOB_FOLLOW: nobody is expected to read them any more */
    uint64_t peers_bytes;             /* bytes of fetched items that other nodes sent */
};

/* Of JOB_FOLLOW: what its readers did with the items. */
struct job_readers {
    uint64_t read;                    /* items that were read */
    uint64_t unread_bytes;            /* bytes that the job brought, and the readers have passed */
};

/* All items before the cursor are in the sums, and no other item. */
struct job_cursor {
    slice after;                      /* of a prefix: the last key before the cursor */
    uint64_t block;                   /* of a list: the offset of a block in the file ... */
    uint32_t row;                     /* ... and the number of rows in it before the cursor */
};

struct job_failure {
    slice key, code;                  /* S3's error code */
    int status;
};

struct job_file {
    uint64_t id;
    struct job_spec spec;
    enum job_state state;
    slice why;                        /* why it ended: a sentence for people, or empty */
    int64_t began_s, ended_s;         /* wall clock; ended_s 0: it runs */
    struct job_sums sums;
    struct job_readers readers;
    struct job_cursor cursor;
    struct job_failure *failures;     /* the first ones */
    size_t failure_count;
};

/* Reads the id of a job: 16 hex digits. Returns false for any other text. */
bool job_id_read(slice text, uint64_t *ret) MUST_USE;

/* Encodes the state, in keep. */
slice job_file_encode(const struct job_file *file, struct arena *keep);
/* Returns OK with slices in `bytes`, and failures in keep; ERR_FORMAT for the layout of a later
 * version; or ERR_GONE for damaged bytes. */
enum err job_file_decode(slice bytes, struct arena *keep, struct job_file *ret) MUST_USE;

/* ---- blocks of a list ---- */

#define JOB_BLOCK_MAX (64 * KIB)
struct job_block {
    size_t len, count;                /* bytes and rows so far */
    char bytes[JOB_BLOCK_MAX];
};

void job_block_begin(struct job_block *block);
/* Adds an item, which is ITEM_WHOLE or ITEM_SPAN without a version or condition. Returns false if
 * the block has no room; the caller then ends it and begins another. */
bool job_block_add(struct job_block *block, const struct item *item) MUST_USE;
/* Returns the bytes of the block as they go to the file. */
slice job_block_end(struct job_block *block);
/* Reads the block that `bytes` begins with. Returns OK with items in keep, whose keys lie in
 * `bytes`, and the size of the block; or ERR_GONE for damaged bytes. */
enum err job_block_decode(slice bytes, struct arena *keep, struct items *ret,
                          size_t *ret_bytes) MUST_USE;

#endif
