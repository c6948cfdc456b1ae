/* beside.c - a transaction of the index between two commits. SPDX-License-Identifier: Apache-2.0 */
#include "store/beside.h"

#include "base/metric.h"
#include "store/account.h"
#include "store/removal.h"

/* Forgets the committed removals, unless appends wait: a removal is made again after the appends
 * that came before it (removal.c). */
static void end_removals(struct volume *volume)
{
    pthread_mutex_lock(&volume->queue.lock);
    bool waits = !list_empty(&volume->queue.appends);
    pthread_mutex_unlock(&volume->queue.lock);
    if (!waits)
        removals_end(volume);
}

enum err beside_commit(struct volume *volume, beside_publish *publish,
                       void (*settle)(struct volume *volume, void *arg), void *arg)
{
    removals_take(volume);
    enum err e = index_begin(volume->index);
    if (!e)
        e = publish(volume, arg);
    if (!e)
        e = removals_publish(volume, false);
    if (!e)
        e = account_commit(volume);
    index_abort(volume->index);
    volume_still_alive(volume);
    if (e)
        return e;
    metric_add(M_STORE_COMMITS, 1);
    if (settle)
        settle(volume, arg);
    removals_settle(volume);
    removals_answer(volume, OK);
    end_removals(volume);
    return OK;
}
