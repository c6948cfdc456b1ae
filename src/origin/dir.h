/* dir.h - a directory as an origin: what its files share. SPDX-License-Identifier: Apache-2.0
 *
 * dir_pool.c runs the calls, dir.c answers them, dir_list.c writes listings. */
#ifndef ORIGIN_DIR_H
#define ORIGIN_DIR_H

#include <stdatomic.h>
#include <sys/stat.h>

#include "origin/kind.h"

struct dir_pool;
struct dir {
    struct origin origin;
    struct dir_pool *pool;
    int root;                       /* O_PATH */
};

/* One call: a head, then `end - at` bytes that come from a file or lie in memory. */
struct dir_call {
    struct origin_hook hook;
    struct list link;               /* in the pool's queue, or among the parked */
    enum { DIR_QUEUED, DIR_RUNNING, DIR_PARKED } where;    /* pool->lock */
    bool resumed;                   /* pool->lock: a resume that came while it ran */
    _Atomic enum err stopped;       /* OK, or why it must end: read by long work */

    struct arena keep;
    uint64_t started_ns;
    bool headed;
    int fd;                         /* -1: the body lies in `memory` */
    struct stat file;               /* as it was when opened */
    slice memory;
    uint64_t at, end;
};

/* dir_pool.c */
struct dir_pool *dir_pool_new(unsigned threads) MUST_USE;
void dir_pool_stop(struct dir_pool *pool);          /* ends every call; returns when all are done */
void dir_pool_free(struct dir_pool **pool);
void dir_pool_start(struct dir_pool *pool, struct dir_call *take_call);
void dir_pool_resume(struct dir_pool *pool, struct dir_call *call);
void dir_pool_cancel(struct dir_pool *pool, struct dir_call *call);

/* dir.c: the kind */
enum err dir_add(struct dir_pool *pool, const struct origin_options *options, struct arena *keep,
                 struct origin **ret, slice *ret_why) MUST_USE;

/* dir.c: the work of a call, on a pool thread. */
enum err dir_answer(struct dir_call *call) MUST_USE;    /* gives the head; sets up the body */
/* Bytes at call->at, at most `bytes` of them, into or in place of `buffer`. */
enum err dir_read(struct dir_call *call, char *buffer, size_t bytes, slice *ret) MUST_USE;
void dir_call_free(struct dir_call *call);

/* openat2 below `at`, following symbolic links only as far as they stay beneath it. */
int dir_open(int at, const char *path, int flags, bool follow) MUST_USE;
bool dir_is_file_name(slice key);                   /* can it name a file here at all? */
slice dir_etag(struct arena *keep, const struct stat *file) MUST_USE;    /* with its quotes */

/* dir_list.c: documents for bucket, an open directory; ERR_CANCELED once *stopped is set. */
enum err dir_list_objects(struct arena *keep, int bucket, const struct origin_call *call,
                          _Atomic enum err *stopped, slice *ret_document, slice *ret_why) MUST_USE;
enum err dir_list_buckets(struct arena *keep, int root, slice *ret_document) MUST_USE;

#endif
