/* queue.c - which share runs next. SPDX-License-Identifier: Apache-2.0
 *
 * A session is a connection of a client; a share is a part of the list of items that the client
 * asked for. Sessions with waiting shares form a line. The first session gives one share to a
 * worker and goes to the end of the line. A share is about a mebibyte, or one larger item. So a
 * list of sixteen thousand items delays a single item of another session by one share. A session
 * whose items wait for the origin does not block other sessions, because the number of its items in
 * progress is limited (the constant "fill_gets" in base/config.def). If many such sessions have
 * filled a worker, a session without an item in progress still gets one share there.
 * Threads: any; one lock guards the line. */
#include "base/metric.h"
#include "local/inside.h"

void queue_put(struct local *local, struct session *session, struct share *share)
{
    pthread_mutex_lock(&local->lock);
    list_add(&session->shares, &share->link);
    if (list_empty(&session->turn))
        list_add(&local->waiting, &session->turn);
    atomic_fetch_add(&local->shares_waiting, 1);
    pthread_mutex_unlock(&local->lock);
}

/* The caller holds the lock. */
static bool may_begin(struct local *local, const struct session *session, bool full)
{
    struct share *share = list_of(session->shares.next, struct share, link);
    unsigned most = full ? 1 : local->options.gets_max * local->worker_count;
    if (atomic_load(&session->running) < most || atomic_load(&share->fill->canceled))
        return true;
    if (!share->passed_over)
        metric_add(full ? M_FILL_THREAD_GETS : M_FILL_GETS, 1);
    share->passed_over = true;
    return false;
}

struct share *queue_take(struct local *local, bool full)
{
    struct share *share = NULL;
    if (!atomic_load(&local->shares_waiting))
        return NULL;
    pthread_mutex_lock(&local->lock);
    list_each_safe(struct session, session, &local->waiting, turn) {
        if (!may_begin(local, session, full))
            continue;
        check(!list_empty(&session->shares));
        share = list_of(list_take(&session->shares), struct share, link);
        list_del(&session->turn);
        if (!list_empty(&session->shares))
            list_add(&local->waiting, &session->turn);
        atomic_fetch_add(&session->running, (unsigned)share->count);
        atomic_fetch_sub(&local->shares_waiting, 1);
        break;
    }
    pthread_mutex_unlock(&local->lock);
    return share;
}

/* Begins with the worker after `but`, so that keepers do not all wake the same worker. */
void queue_call(struct local *local, const struct worker *but, unsigned count)
{
    unsigned first = but ? but->number + 1 : 0;
    for (unsigned i = 0; i < local->worker_count && count; i++) {
        struct worker *worker = &local->workers[(first + i) % local->worker_count];
        if (worker == but)
            continue;
        ticket_wake(worker->look);
        count--;
    }
}
