/* span.c - spans, and the queue in which they wait for their export.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     loop-N, origin-N ── span_end ──> queue ── spans_take ──> traces
 *
 * The queue is one array. The exporter swaps it for an empty one, so the lock is held only for the
 * copy of one span. The exporter sleeps while the queue is empty: the first span wakes it. */
#include "base/span.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/metric.h"

#define GATHER_NS 1000000000u

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct span *spans;             /* NULL: spans are dropped */
    size_t count, most;
    bool finished;
} queue = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

/* ---- one span ---- */

void span_begin(struct span *ret, const struct trace *trace, enum span_kind kind,
                const char *method, const char *operation)
{
    check(trace->given && trace->recorded);
    *ret = (struct span){ .flags = trace->flags, .remote = trace->remote, .kind = kind,
                          .method = method, .operation = operation,
                          .began_ns = clock_ns(CLOCK_REALTIME), .began_mono_ns = mono_ns() };
    memcpy(ret->id, trace->id, sizeof(ret->id));
    memcpy(ret->span_id, trace->span_id, sizeof(ret->span_id));
    memcpy(ret->parent_id, trace->parent_id, sizeof(ret->parent_id));
}

void span_text(struct span *span, const char *name, slice value)
{
    if (!span || span->attribute_count == SPAN_ATTRIBUTES ||
        value.len > SPAN_TEXT_BYTES - span->text_len)
        return;
    span->attributes[span->attribute_count++] = (struct span_attribute){
        .name = name, .at = (uint16_t)span->text_len, .len = (uint16_t)value.len, .is_text = true };
    for (size_t i = 0; i < value.len; i++)
        span->text[span->text_len++] =
            value.ptr[i] >= ' ' && value.ptr[i] <= '~' ? value.ptr[i] : '?';
}

void span_number(struct span *span, const char *name, uint64_t value)
{
    if (span && span->attribute_count < SPAN_ATTRIBUTES)
        span->attributes[span->attribute_count++] = (struct span_attribute){
            .name = name, .number = (int64_t)MIN(value, (uint64_t)INT64_MAX) };
}

void span_link(struct span *span, const struct trace *to)
{
    if (!span || !to->given)
        return;
    if (to->recorded && !memcmp(to->parent_id, span->span_id, sizeof(span->span_id)))
        return;
    for (unsigned i = 0; i < span->link_count; i++)    /* a reader may join a fetch again */
        if (!memcmp(span->links[i].span_id, to->span_id, sizeof(to->span_id)))
            return;
    if (span->link_count == SPAN_LINKS) {
        span->links_dropped++;
        return;
    }
    struct span_link *link = &span->links[span->link_count++];
    memcpy(link->id, to->id, sizeof(link->id));
    memcpy(link->span_id, to->span_id, sizeof(link->span_id));
}

void span_end(struct span *span)
{
    span->took_ns = mono_ns() - span->began_mono_ns;
    pthread_mutex_lock(&queue.lock);
    bool has_room = queue.spans && queue.count < queue.most;
    if (has_room)
        queue.spans[queue.count++] = *span;
    if (has_room && (queue.count == 1 || queue.count == queue.most / 2))
        pthread_cond_signal(&queue.changed);
    pthread_mutex_unlock(&queue.lock);
    metric_add(M_SPANS_DROPPED, !has_room);
}

/* ---- the queue ---- */

void spans_begin(size_t most)
{
    check(most > 0 && !queue.spans);
    pthread_mutex_lock(&queue.lock);
    queue.spans = must_alloc(most * sizeof(*queue.spans));
    queue.most = most;
    queue.count = 0;
    queue.finished = false;
    pthread_mutex_unlock(&queue.lock);
}

size_t spans_take(struct span **spans)
{
    pthread_mutex_lock(&queue.lock);
    while (!queue.count && !queue.finished)
        pthread_cond_wait(&queue.changed, &queue.lock);
    uint64_t until_ns = mono_ns() + GATHER_NS;
    while (queue.count < queue.most / 2 && !queue.finished && mono_ns() < until_ns)
        cond_wait_until(&queue.changed, &queue.lock, until_ns);
    struct span *taken = queue.spans;
    size_t count = queue.count;
    queue.spans = *spans;
    queue.count = 0;
    pthread_mutex_unlock(&queue.lock);
    *spans = taken;
    return count;
}

void spans_pause(uint64_t ms)
{
    uint64_t until_ns = mono_ns() + ms * 1000000u;
    pthread_mutex_lock(&queue.lock);
    while (!queue.finished && mono_ns() < until_ns)
        cond_wait_until(&queue.changed, &queue.lock, until_ns);
    pthread_mutex_unlock(&queue.lock);
}

void spans_finish(void)
{
    pthread_mutex_lock(&queue.lock);
    queue.finished = true;
    pthread_cond_broadcast(&queue.changed);
    pthread_mutex_unlock(&queue.lock);
}

bool spans_are_finished(void)
{
    pthread_mutex_lock(&queue.lock);
    bool finished = queue.finished;
    pthread_mutex_unlock(&queue.lock);
    return finished;
}

void spans_free(void)
{
    pthread_mutex_lock(&queue.lock);
    free(queue.spans);
    queue.spans = NULL;
    queue.count = queue.most = 0;
    pthread_mutex_unlock(&queue.lock);
}
