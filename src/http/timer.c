/* timer.c - the timers of a loop. SPDX-License-Identifier: Apache-2.0
 *
 * A loop's timers have few different lengths. Each length has a row. A timer is added at the end of
 * its row, so the first timer of a row is always the oldest. Starting or stopping a timer changes a
 * few pointers. To find the next timer that is due, the loop looks at one timer of each row. The
 * first rows belong to connections. Each further row is made with the first timer of its length,
 * and stays. All timers use the monotonic clock. libh2o's own timers are not used, because they
 * follow the wall clock. The first timer that starts in a turn of the loop reads the clock; the
 * others of that turn take the same time, so they are due earlier by at most one turn. */
#include "http/inside.h"

#include <stdlib.h>

#include "base/clock.h"

#define WAIT_MS_MAX 10000

static struct timer_row *add_row(struct timers *timers, unsigned ms)
{
    struct timer_row *row = must_alloc(sizeof(*row));
    row->ms = ms;
    list_init(&row->waiting);
    timers->rows = realloc(timers->rows, (timers->count + 1) * sizeof(struct timer_row *));
    check(timers->rows != NULL);
    timers->rows[timers->count++] = row;
    return row;
}

void timers_init(struct timers *timers, const unsigned row_ms[ROW_COUNT])
{
    *timers = (struct timers){ 0 };
    for (size_t i = 0; i < ROW_COUNT; i++)
        add_row(timers, row_ms[i]);
}

void timers_free(struct timers *timers)
{
    for (size_t i = 0; i < timers->count; i++) {
        struct list *waiting = &timers->rows[i]->waiting;
        while (!list_empty(waiting))
            list_del(waiting->next);    /* the owner must still stop, and so free, the timer */
        free(timers->rows[i]);
    }
    free(timers->rows);
    *timers = (struct timers){ 0 };
}

static void start(struct timers *timers, struct timer_row *row, struct http_timer *timer)
{
    check(timer->fn != NULL);
    if (!timers->now_ms)
        timers->now_ms = mono_ms();
    list_del(&timer->link);
    timer->due_ms = timers->now_ms + row->ms;
    list_add(&row->waiting, &timer->link);
}

void timer_start(struct timers *timers, enum row row, struct http_timer *timer)
{
    start(timers, timers->rows[row], timer);
}

void timers_shorten(struct timers *timers, enum row row, unsigned ms)
{
    struct timer_row *of = timers->rows[row];
    uint64_t latest_ms = mono_ms() + ms;
    of->ms = MIN(of->ms, ms);
    list_each(struct http_timer, timer, &of->waiting, link)
        timer->due_ms = MIN(timer->due_ms, latest_ms);    /* the order of the row stays */
}

static struct timer_row *row_of(struct timers *timers, unsigned ms)
{
    for (size_t i = ROW_COUNT; i < timers->count; i++)
        if (timers->rows[i]->ms == ms)
            return timers->rows[i];
    return add_row(timers, ms);
}

struct http_timer *http_timer_start(struct http_loop *loop, unsigned ms, void (*fn)(void *arg),
                                    void *arg)
{
    struct http_timer *timer = must_alloc(sizeof(*timer));
    timer->fn = fn;
    timer->arg = arg;
    list_init(&timer->link);
    start(&loop->timers, row_of(&loop->timers, ms), timer);
    return timer;
}

void http_timer_stop(struct http_timer **timer)
{
    if (!*timer)
        return;
    list_del(&(*timer)->link);
    free(*timer);
    *timer = NULL;
}

/* Returns the timer of a row that is due first, or NULL if none waits. */
static struct http_timer *oldest(const struct timer_row *row)
{
    return list_empty(&row->waiting) ? NULL : list_of(row->waiting.next, struct http_timer, link);
}

int timers_end_turn(struct timers *timers)
{
    uint64_t now = mono_ms(), due = now + WAIT_MS_MAX;
    timers->now_ms = 0;
    for (size_t i = 0; i < timers->count; i++)
        if (oldest(timers->rows[i]))
            due = MIN(due, oldest(timers->rows[i])->due_ms);
    return due <= now ? 0 : (int)(due - now);
}

bool timers_run(struct timers *timers)
{
    uint64_t now = timers->now_ms = mono_ms();    /* a timer that fn starts is due after now */
    struct http_timer *timer;
    bool any = false;
    for (size_t i = 0; i < timers->count; i++) {
        while ((timer = oldest(timers->rows[i])) && timer->due_ms <= now) {
            list_del(&timer->link);
            timer->fn(timer->arg);    /* fn may free the timer, so this is its last use */
            any = true;
        }
    }
    return any;
}
