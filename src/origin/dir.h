/* dir.h - a directory as an origin: declarations of its files. SPDX-License-Identifier: Apache-2.0
 *
 * dir_pool.c runs the calls. dir.c answers them with objects (dir_file.c) and with listings
 * (dir_list.c). dir_walk.c finds the keys of a listing. dir_open.c opens files and folders. */
#ifndef ORIGIN_DIR_H
#define ORIGIN_DIR_H

#include <sys/stat.h>

#include "origin/kind.h"

struct dir_pool;
struct dir {
    struct origin origin;
    struct dir_pool *pool;
    int root;                       /* the folder, opened with O_PATH */
};

/* One call. Its answer is a head, then the bytes from `at` to `end` of a file or of memory. */
struct dir_call {
    struct origin_hook hook;
    struct list link, of_pool;      /* the pool's queue; all calls of the pool */
    bool parked;                    /* neither queued nor running; guarded by pool->lock */
    bool resumed;                   /* resumed while it ran; guarded by pool->lock */
    _Atomic enum err stopped;       /* OK, or the error to end with; long work polls this */

    struct arena keep;
    uint64_t started_ns;
    bool headed;
    int fd;                         /* -1: the body lies in `memory` */
    struct stat file;               /* state of the file when it was opened */
    slice memory;
    uint64_t at, end;
};

/* dir_pool.c: functions of the kind (kind.h). */
void *dir_pool_new(unsigned threads) MUST_USE;
void dir_pool_free(void *take_pool);    /* ends every call, and waits for all of them */
void dir_pool_start(struct origin *origin, struct origin_call *asked);
void dir_pool_resume(struct origin_hook *hook);
void dir_pool_cancel(struct origin_hook *hook);

/* dir.c. dir_answer runs on a thread of the pool. */
enum err dir_answer(struct dir_call *call) MUST_USE;    /* gives the head, prepares the body */

/* dir_file.c. dir_open_bucket and dir_open_file fail with ERR_NO_SUCH_BUCKET, ERR_NO_SUCH_KEY
 * (*ret_why may say more), ERR_DENIED, ERR_SLOW_DOWN (no descriptors or no memory left) or
 * ERR_IO. */
enum err dir_open_bucket(const struct dir_call *call, int *ret_fd) MUST_USE;
enum err dir_open_file(struct dir_call *call, slice *ret_why) MUST_USE;    /* sets fd and file */
/* Reads at most `bytes` bytes at call->at. *ret lies in `buffer`, or in the call's own memory.
 * Returns ERR_ORIGIN_CUT if the file has changed since it was opened, or can't be read. */
enum err dir_read(struct dir_call *call, char *buffer, size_t bytes, slice *ret) MUST_USE;
bool dir_is_file_name(slice key);                   /* true if a file could have this name */
bool dir_is_young(const struct stat *file);         /* true if changed less than 2 s ago */
slice dir_etag(struct arena *keep, const struct stat *file) MUST_USE;    /* with its quotes */

/* dir_open.c. Opens for reading only what lies beneath `at`. If `follow` is set, symbolic links are
 * followed as long as they stay beneath `at`. Returns -1 and errno on failure. */
int dir_open(int at, const char *path, int flags, bool follow) MUST_USE;

/* dir_list.c makes XML documents. `bucket` is an open directory. Returns ERR_CANCELED when *stopped
 * was set. */
enum err dir_list_objects(struct arena *keep, int bucket, const struct origin_call *call,
                          _Atomic enum err *stopped, slice *ret_document, slice *ret_why) MUST_USE;
enum err dir_list_buckets(struct arena *keep, int root, slice *ret_document) MUST_USE;

#endif
