/* read_ahead.c - the store's reads for one get: the piece it wants now, and those behind it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A disk that waits until a client has taken one piece stands still meanwhile. So a get whose last
 * piece came from the disk reads the next ones while that piece is sent: one at first, and one more
 * each time that the get had to wait for a piece all the same. A slow client therefore holds one
 * piece and the next, and only a client that is faster than the disk holds more.
 *
 * The reads are a queue: each begins where the one before it ends. Nothing is read ahead if the
 * page cache gives the bytes at once, while read buffers are scarce, or into the caller's
 * memory. */
#include "cache/plan.h"

#include "base/metric.h"

static struct ahead_read *read_at(struct read_ahead *ahead, unsigned i)
{
    return &ahead->reads[(ahead->first + i) % AHEAD_READS];
}

static void bytes_came(void *arg, enum err err, struct object_bytes held)
{
    struct ahead_read *read = arg;
    struct read_ahead *ahead = &read->plan->ahead;
    bool awaited = ahead->awaited && read == read_at(ahead, 0);
    read->op = NULL;
    read->err = err;
    read->held = held;
    if (!awaited)
        return;
    ahead->awaited = false;
    read->plan->of->changed(read->plan->of->changed_arg);
}

/* As store_read; OK and ERR_WAIT: it is in the queue. */
static enum err begin(struct plan *plan, uint64_t pos, uint64_t end, struct store_to to)
{
    struct read_ahead *ahead = &plan->ahead;
    check(ahead->count < AHEAD_READS);
    struct ahead_read *read = read_at(ahead, ahead->count);
    *read = (struct ahead_read){ .plan = plan, .pos = pos };
    enum err err = store_read(plan->of->loop->io, plan->metadata, pos, end, to, bytes_came, read,
                              &read->held, &read->op);
    if (err && err != ERR_WAIT)
        return err;
    read->end = pos + (err ? store_op_bytes(read->op) : read->held.bytes.len);
    check(pos < read->end && read->end <= end);
    ahead->disk_was_asked = err == ERR_WAIT;
    ahead->count++;
    return err;
}

enum err read_ahead_take(struct plan *plan, uint64_t end, struct store_to to,
                         struct object_bytes *ret)
{
    struct read_ahead *ahead = &plan->ahead;
    bool was_begun = ahead->count > 0;
    if (!was_begun) {
        enum err err = begin(plan, plan->pos, end, to);
        if (err && err != ERR_WAIT)
            return err;
    }
    struct ahead_read *read = read_at(ahead, 0);
    check(read->pos == plan->pos);
    if (read->op) {
        if (was_begun && !ahead->awaited && ahead->more < AHEAD_READS - 1)
            ahead->more++;
        ahead->awaited = true;
        return ERR_WAIT;
    }
    enum err err = read->err;
    *ret = read->held;
    ahead->first = (ahead->first + 1) % AHEAD_READS;
    ahead->count--;
    if (err || ret->bytes.len < read->end - read->pos)    /* the rest lies behind a hole now */
        read_ahead_drop(plan);
    return err;
}

void read_ahead_go_on(struct plan *plan)
{
    struct read_ahead *ahead = &plan->ahead;
    uint64_t pos = ahead->count ? read_at(ahead, ahead->count - 1)->end : plan->pos;
    while (ahead->disk_was_asked && ahead->count <= ahead->more && pos < plan->end &&
           !store_held_bytes_scarce(plan->of->loop->io)) {
        enum err err = begin(plan, pos, plan->end, (struct store_to){ NULL, plan->of->lends,
                                                                plan->of->asker.ahead,
                                                                plan->of->asker.among });
        if (err && err != ERR_WAIT)
            return;
        metric_add(M_CACHE_READ_AHEAD, 1);
        pos = read_at(ahead, ahead->count - 1)->end;
    }
}

void read_ahead_drop(struct plan *plan)
{
    struct read_ahead *ahead = &plan->ahead;
    for (; ahead->count > 0; ahead->count--) {
        struct ahead_read *read = read_at(ahead, ahead->count - 1);
        store_op_drop(&read->op);
        object_bytes_release(&read->held);
    }
    ahead->awaited = false;
}
