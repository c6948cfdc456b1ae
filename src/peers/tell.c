/* tell.c - tells the other nodes of writes. SPDX-License-Identifier: Apache-2.0
 *
 *     peers_will_hint ── (the write) ── peers_hint ──> queue ── deliver.c ──> the other nodes
 *       └─ the first one of a process: the file of hints_file.h
 *
 * A hint goes to the queue (hints.h), and the errand of deliver.c brings it to the nodes. The
 * list of the nodes that have all hints outlives the process (hints_file.h). Threads: any for a
 * hint. The first write of the process starts a thread that writes the file, because a loop must
 * not wait for the disk. */
#include "peers/inside.h"

#include <poll.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "peers/hints_file.h"

#define LAST_MS 1000u                 /* a stop waits so long for nodes that answer */

/* ---- begin and end ---- */

void tell_begin(struct peers *peers)
{
    const struct hints_limits limits = { peers->options.hints_max, PEERS_HINTS_BYTES_MAX,
                                         PEERS_HINTS_KEEP_MS };
    peers->hints.queue = hints_new(&limits);
    hints_file_load(peers->options.store, peers->hints.queue, ageing_ms());
}

static bool some_wait(struct peers *peers)
{
    bool some = false;
    pthread_mutex_lock(&peers->lock);
    list_each(struct node, node, &peers->nodes, link)
        some = some || (node->facts.answers && deliver_waits(peers, node));
    pthread_mutex_unlock(&peers->lock);
    return some;
}

void tell_last(struct peers *peers)
{
    uint64_t until_ms = mono_ms() + LAST_MS;
    while (some_wait(peers) && mono_ms() < until_ms)
        poll(NULL, 0, 10);
}

void tell_end(struct peers *peers)
{
    if (peers->hints.has_marker)
        pthread_join(peers->hints.marker, NULL);
    hints_file_save(peers->options.store, peers->hints.queue);
    hints_free(&peers->hints.queue);
}

/* ---- a hint ---- */

static void *mark(void *arg)
{
    hints_file_mark(((struct peers *)arg)->options.store);
    return NULL;
}

void peers_will_hint(struct peers *peers)
{
    if (!peers || atomic_load_explicit(&peers->hints.marked, memory_order_relaxed) ||
        atomic_exchange(&peers->hints.marked, true))
        return;
    bool started = thread_start(&peers->hints.marker, mark, peers, "peer-mark");
    if (started)
        peers->hints.has_marker = true;
    else
        log_warn("peer_hints_unmarked", "why=\"no thread could be started to note on the disk that "
                 "other nodes must hear of writes. Should this process crash before they have, "
                 "their copies are old for up to ttl: raise the limit of tasks (TasksMax, "
                 "pids.max)\"");
}

/* A version that a client names may be longer than any that an origin has made. */
void peers_hint(struct peers *peers, const struct hint *hint)
{
    struct hint wider = { HINT_WRITE | HINT_BUCKET | (hint->what & HINT_RIGHTS), hint->endpoint,
                          hint->bucket, S(""), S("") };
    if (!peers)
        return;
    hints_add(peers->hints.queue, hint_is_valid(hint) ? hint : &wider, ageing_ms());
    pthread_mutex_lock(&peers->lock);
    deliver_look(peers);
    pthread_mutex_unlock(&peers->lock);
}
