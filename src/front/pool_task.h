/* pool_task.h - a call whose work waits for disks, so a thread of a pool does it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A task begins and ends on the loop of its call. Between pool_task_start and the answer it belongs
 * to a thread of its pool, and the loop may only note that the client has left. The work of a task
 * then goes on, unless it looks at pool_task_is_over. */
#ifndef FRONT_POOL_TASK_H
#define FRONT_POOL_TASK_H

#include "base/arena.h"
#include "base/list.h"
#include "base/mailbox.h"
#include "s3/error.h"
#include "store/walk.h"

struct front;
struct call;

/* A disk that hangs may block both threads of POOL_WALK. So work that must not wait for walks has
 * pools of its own. These pools end before POOL_WALK, because their tasks may go on in
 * POOL_WALK. */
enum pool { POOL_LIST, POOL_PURGE, POOL_PIN, POOL_JOB, POOL_WALK, POOLS };

struct pool_task;
struct pool_task_kind {
    enum pool pool;
    void (*work)(struct pool_task *task);      /* on a thread of the pool */
    void (*walk)(struct pool_task *task);      /* see pool_task.walks. May be NULL */
    /* On the loop. Called only while the client is there. Ends the task, or starts it again. */
    void (*answer)(struct pool_task *task);
    void (*free)(struct pool_task *task);      /* frees the kind's own members. May be NULL */
};

struct pool_task {
    struct list link;
    struct mail mail;
    struct mailbox *box;
    const struct pool_task_kind *kind;
    struct front *front;
    struct call *call;                /* NULL: the client has left. For the loop alone */
    unsigned client;                  /* the number of the call's client */
    bool walks;                       /* set by `work`: `walk` is next, on a thread of POOL_WALK */
    atomic_bool gone;
    struct arena keep;                /* lives as long as the task */
};

/* Makes a task of this size. Its struct begins with struct pool_task, and the rest is zero.
 * Returns NULL if the client has as many calls in the pool, or in the pool of its walk, as it
 * may have (rule H8 in src/README.md); the client has then got an error answer. */
void *pool_task_new(struct call *call, const struct pool_task_kind *kind, size_t bytes) MUST_USE;
void pool_task_free(struct pool_task **task);    /* on the loop, or after the loop has ended */
/* Gives the task to its pool. From now on, the task handles a client that leaves. */
void pool_task_start(struct pool_task *task);
/* True if the client has left. `arg` is the task. Any thread. */
bool pool_task_is_over(void *arg);
/* Walks through the objects of one endpoint for the task (store/walk.h) until the client leaves,
 * and adds the gaps of this walk to *gaps. */
enum err pool_task_walk(struct pool_task *task, struct walk_ask *ask,
                        struct walk_gaps *gaps) MUST_USE;

/* These two functions answer the call, and free the task. `body` is lines of JSON. */
void pool_task_reply(struct pool_task *task, slice body);
void pool_task_refuse(struct pool_task *task, enum err err, slice detail);

#endif
