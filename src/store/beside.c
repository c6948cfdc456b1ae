/* beside.c - a transaction of the index between two commits. SPDX-License-Identifier: Apache-2.0 */
#include "store/beside.h"

#include "base/metric.h"
#include "store/account.h"
#include "store/removal.h"

enum err beside_commit(struct volume *volume, beside_publish *publish,
                       void (*settle)(struct volume *volume, void *arg), void *arg)
{
    removals_take(volume);
    enum err e = index_begin(volume->index);
    if (!e)
        e = publish(volume, arg);
    if (!e)
        e = removals_publish(volume, volume->removed.done);
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
    removals_end(volume);
    return OK;
}
