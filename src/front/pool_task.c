/* pool_task.c - a call whose work waits for disks, so a thread of a pool does it.
 * SPDX-License-Identifier: Apache-2.0
 *
 *   loop: pool_task_new ──> pool_task_start ──> thread: work ──> mail to the loop ──> answer
 *                                                        └─> thread of POOL_WALK: walk ─┘
 *
 * Each pool has few threads, and a limit of calls that run or wait (rule H8 in src/README.md). The
 * limits are rows of a table. Calls are counted before the origin has said whether their client may
 * list, so each client has a share.
 * A stop of Penstock waits for the work of all pools. If the loop has ended by then, the thread
 * frees the task. */
#include "front/pool_task.h"

#include <stdlib.h>

#include "base/metric.h"
#include "base/workers.h"
#include "front/inside.h"

#define THREADS_MAX 2u

static const struct {
    const char *name;
    unsigned places;                  /* from pool_task_new to pool_task_free; see places.h */
    enum metric limited;
} rows[POOLS] = {
    [POOL_LIST] = { "list", 32, M_WALKS_LIMITED },
    [POOL_WALK] = { "walk", 32, M_WALKS_LIMITED },
    [POOL_PURGE] = { "purge", PLACES_MAX, M_PURGES_LIMITED },
    [POOL_PIN] = { "pin", 32, M_PINS_LIMITED },
    [POOL_JOB] = { "job", 32, M_JOBS_LIMITED },
};

/* ---- on a thread of the pool ---- */

bool pool_task_is_over(void *arg)
{
    return atomic_load_explicit(&((struct pool_task *)arg)->gone, memory_order_relaxed);
}

enum err pool_task_walk(struct pool_task *task, struct walk_ask *ask, struct walk_gaps *gaps)
{
    struct walk_gaps more;
    ask->is_over = pool_task_is_over;
    ask->arg = task;
    enum err err = store_walk(cache_store(task->front->options.cache), ask, &more);
    for (size_t i = 0; i < countof(gaps->folders); i++)
        gaps->folders[i] |= more.folders[i];
    gaps->extents = MAX(gaps->extents, more.extents);
    gaps->unnamed = MAX(gaps->unnamed, more.unnamed);
    gaps->any |= more.any;
    return err;
}

static void deliver(struct mail *mail)    /* runs on the loop */
{
    struct pool_task *task = container_of(mail, struct pool_task, mail);
    if (!task->call) {
        pool_task_free(&task);
        return;
    }
    task->call->gone = NULL;
    task->kind->answer(task);
}

static bool work(struct list *link)
{
    struct pool_task *task = list_of(link, struct pool_task, link);
    bool walked = task->walks;
    (walked ? task->kind->walk : task->kind->work)(task);
    if (task->walks && !walked) {
        check(task->kind->walk);
        workers_put(task->front->pools[POOL_WALK].workers, &task->link);
        return true;
    }
    task->mail.deliver = deliver;
    if (!mailbox_post(task->box, &task->mail))
        pool_task_free(&task);    /* the loop is gone, and the request with it */
    return true;
}

void pools_begin(struct front *front)
{
    for (size_t i = 0; i < POOLS; i++) {
        front->pools[i].workers = workers_new(THREADS_MAX, rows[i].name, work);
        check(front->pools[i].workers);
        places_init(&front->pools[i].places);
    }
}

void pools_end(struct front *front)
{
    for (size_t i = 0; i < POOLS; i++)
        workers_free(&front->pools[i].workers);
}

/* ---- on the loop of the call ---- */

static bool take(struct front *front, enum pool pool, unsigned client)
{
    bool taken = places_take(&front->pools[pool].places, rows[pool].places, client);
    metric_add(rows[pool].limited, taken ? 0 : 1);
    return taken;
}

static bool take_all(struct front *front, const struct pool_task_kind *kind, unsigned client)
{
    if (!take(front, kind->pool, client))
        return false;
    if (!kind->walk || take(front, POOL_WALK, client))
        return true;
    places_give_back(&front->pools[kind->pool].places, client);
    return false;
}

void *pool_task_new(struct call *call, const struct pool_task_kind *kind, size_t bytes)
{
    check(bytes >= sizeof(struct pool_task));
    check(!kind->walk || kind->pool != POOL_WALK);
    if (!take_all(call->front, kind, call->client->number)) {
        reply_error(call, ERR_SLOW_DOWN, S(""));
        return NULL;
    }
    struct pool_task *task = must_alloc(bytes);
    task->kind = kind;
    task->front = call->front;
    task->call = call;
    task->client = call->client->number;
    task->box = mailbox_ref(http_loop_mailbox(http_request_loop(call->http)));
    return task;
}

void pool_task_free(struct pool_task **task)
{
    struct pool_task *mine = *task;
    *task = NULL;
    if (!mine)
        return;
    if (mine->kind->free)
        mine->kind->free(mine);
    places_give_back(&mine->front->pools[mine->kind->pool].places, mine->client);
    if (mine->kind->walk)
        places_give_back(&mine->front->pools[POOL_WALK].places, mine->client);
    mailbox_unref(&mine->box);
    arena_free(&mine->keep);
    free(mine);
}

static void gone(void *arg)
{
    struct pool_task *task = arg;
    task->call = NULL;
    atomic_store(&task->gone, true);
}

void pool_task_start(struct pool_task *task)
{
    task->call->gone = gone;
    task->call->gone_arg = task;
    workers_put(task->front->pools[task->kind->pool].workers, &task->link);
}

void pool_task_reply(struct pool_task *task, slice body)
{
    struct fields fields = { .keep = task->call->keep };
    fields_add(&fields, S("content-type"), S("application/x-ndjson"));
    fields_add(&fields, S("x-amz-request-id"), task->call->id);
    reply_whole(task->call, 200, &fields, body);
    pool_task_free(&task);
}

void pool_task_refuse(struct pool_task *task, enum err err, slice detail)
{
    reply_error(task->call, err, detail);
    pool_task_free(&task);
}
