/* timer.c - what a loop waits for. SPDX-License-Identifier: Apache-2.0
 *
 * Connections wait for one of a few fixed times: each time has a row, appended to at its end, so
 * the oldest is always first and starting or stopping costs two pointers. Timers of any length lie
 * in a binary heap. All by the monotonic clock: the library's own timers follow the wall clock. */
#include "http/inside.h"

#include <stdlib.h>

#include "base/clock.h"

#define WAIT_MS_MAX 10000

struct http_timer {
    struct timers *timers;
    uint64_t due_ms;
    size_t at;    /* in the heap, from 1; 0: not waiting */
    void (*fn)(void *arg);
    void *arg;
};

void timers_init(struct timers *timers, const unsigned row_ms[ROW_COUNT])
{
    *timers = (struct timers){ 0 };
    for (size_t i = 0; i < ROW_COUNT; i++) {
        list_init(&timers->rows[i]);
        timers->row_ms[i] = row_ms[i];
    }
}

void timers_free(struct timers *timers)
{
    for (size_t i = 1; i <= timers->heap_count; i++)
        timers->heap[i]->at = 0;    /* still its owner's to stop */
    free(timers->heap);
    timers->heap = NULL;
    timers->heap_count = timers->heap_cap = 0;
}

void timed_start(struct timers *timers, enum row row, struct timed *timed)
{
    list_del(&timed->link);
    timed->due_ms = mono_ms() + timers->row_ms[row];
    list_add(&timers->rows[row], &timed->link);
}

void timed_stop(struct timed *timed)
{
    list_del(&timed->link);
}

static bool earlier(const struct timers *timers, size_t a, size_t b)
{
    return timers->heap[a]->due_ms < timers->heap[b]->due_ms;
}

static void swap(struct timers *timers, size_t a, size_t b)
{
    struct http_timer *was = timers->heap[a];
    timers->heap[a] = timers->heap[b];
    timers->heap[b] = was;
    timers->heap[a]->at = a;
    timers->heap[b]->at = b;
}

static void rise(struct timers *timers, size_t at)
{
    for (; at > 1 && earlier(timers, at, at / 2); at /= 2)
        swap(timers, at, at / 2);
}

static void sink(struct timers *timers, size_t at)
{
    for (;;) {
        size_t least = at;
        for (size_t child = 2 * at; child <= 2 * at + 1 && child <= timers->heap_count; child++)
            if (earlier(timers, child, least))
                least = child;
        if (least == at)
            return;
        swap(timers, at, least);
        at = least;
    }
}

static void leave_heap(struct http_timer *timer)
{
    struct timers *timers = timer->timers;
    size_t at = timer->at, last = timers->heap_count;
    check(at > 0 && at <= last && timers->heap[at] == timer);
    swap(timers, at, last);
    timers->heap_count--;
    timer->at = 0;
    if (at < last) {
        rise(timers, at);
        sink(timers, at);
    }
}

struct http_timer *http_timer_start(struct http_loop *loop, unsigned ms, void (*fn)(void *arg),
                                    void *arg)
{
    struct timers *timers = &loop->timers;
    struct http_timer *timer = must_alloc(sizeof(*timer));
    if (timers->heap_count + 1 >= timers->heap_cap) {
        timers->heap_cap = timers->heap_cap ? 2 * timers->heap_cap : 64;
        timers->heap = realloc(timers->heap, timers->heap_cap * sizeof(struct http_timer *));
        check(timers->heap != NULL);
    }
    timer->timers = timers;
    timer->due_ms = mono_ms() + ms;
    timer->fn = fn;
    timer->arg = arg;
    timer->at = ++timers->heap_count;
    timers->heap[timer->at] = timer;
    rise(timers, timer->at);
    return timer;
}

void http_timer_stop(struct http_timer **timer)
{
    if (!*timer)
        return;
    if ((*timer)->at)
        leave_heap(*timer);
    free(*timer);
    *timer = NULL;
}

static const struct timed *oldest(const struct timers *timers, size_t row)
{
    const struct list *head = &timers->rows[row];
    return list_empty(head) ? NULL : list_of(head->next, const struct timed, link);
}

int timers_wait_ms(const struct timers *timers)
{
    uint64_t now = mono_ms(), due = now + WAIT_MS_MAX;
    for (size_t row = 0; row < ROW_COUNT; row++)
        if (oldest(timers, row))
            due = MIN(due, oldest(timers, row)->due_ms);
    if (timers->heap_count)
        due = MIN(due, timers->heap[1]->due_ms);
    return due <= now ? 0 : (int)(due - now);
}

bool timers_run(struct timers *timers)
{
    uint64_t now = mono_ms();
    bool any = false;
    for (size_t row = 0; row < ROW_COUNT; row++) {
        for (const struct timed *first; (first = oldest(timers, row)) && first->due_ms <= now;) {
            struct timed *timed = list_of(timers->rows[row].next, struct timed, link);
            list_del(&timed->link);
            conn_timed_out(timed, (enum row)row);
            any = true;
        }
    }
    while (timers->heap_count && timers->heap[1]->due_ms <= now) {
        struct http_timer *timer = timers->heap[1];
        leave_heap(timer);
        timer->fn(timer->arg);    /* may stop it: not touched after */
        any = true;
    }
    return any;
}
