/* errand.c - work that belongs to one thread and is woken there.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Each errand has a ticket in the mailbox of its thread (mailbox.h); to wake the errand is to post
 * this ticket. If an errand is woken several times before its thread reads the mailbox, woken() is
 * called once. Timers are a list sorted by time. Most timers are set to a fixed time from now. If
 * that time is long, their place is near the end of the list; if it is short, near the start. So
 * the search for the place starts at the end that is nearer in time. */
#include "origin/errand.h"

#define WAIT_MS_MAX 1000

static void arrive(void *arg)
{
    struct errand *errand = arg;
    if (list_empty(&errand->link))
        list_add(&errand->of->all, &errand->link);
    errand->woken(errand);
}

void errand_enter(struct errands *of, struct errand *errand)
{
    check(errand->woken && !errand->ticket);
    errand->of = of;
    list_init(&errand->link);
    list_init(&errand->timer);
    atomic_fetch_add(&of->live, 1);
    errand->ticket = ticket_new(of->box, arrive, errand);
    ticket_wake(errand->ticket);
}

void errand_wake(struct errand *errand)
{
    check(errand->ticket);    /* it has entered, and has not left */
    ticket_wake(errand->ticket);
}

static uint64_t due_ms(struct list *timer)
{
    return list_of(timer, struct errand, timer)->due_ms;
}

/* Returns the first timer that is later, or the head of the list. */
static struct list *later(struct list *timers, uint64_t at_ms)
{
    struct list *next = timers;
    if (list_empty(timers))
        return timers;
    uint64_t first_ms = due_ms(timers->next), last_ms = due_ms(timers->prev);
    if (at_ms < first_ms + (last_ms - first_ms) / 2) {
        for (next = timers->next; due_ms(next) <= at_ms; next = next->next)
            ;    /* ends at the last timer at the latest, which is later */
    } else {
        while (next->prev != timers && due_ms(next->prev) > at_ms)
            next = next->prev;
    }
    return next;
}

void errand_due(struct errand *errand, uint64_t at_ms)
{
    check(errand->ticket);
    list_del(&errand->timer);
    errand->due_ms = at_ms;
    if (at_ms != UINT64_MAX)    /* list_add adds in front of a timer as it does in front of a head */
        list_add(later(&errand->of->timers, at_ms), &errand->timer);
}

bool errand_stopping(const struct errand *errand)
{
    return atomic_load_explicit(&errand->of->stopping, memory_order_relaxed);
}

void errand_leave(struct errand *errand)
{
    check(errand->ticket);    /* an errand leaves only once */
    list_del(&errand->timer);
    list_del(&errand->link);
    ticket_end(&errand->ticket);
    check(atomic_fetch_sub(&errand->of->live, 1) > 0);
}

void errands_init(struct errands *of)
{
    *of = (struct errands){ .box = mailbox_new() };
    list_init(&of->all);
    list_init(&of->timers);
}

void errands_end(struct errands *of)
{
    check(atomic_load(&of->live) == 0 && list_empty(&of->all) && list_empty(&of->timers));
    mailbox_free(&of->box);
}

void errands_stop(struct errands *of)
{
    atomic_store(&of->stopping, true);
}

bool errands_over(const struct errands *of)
{
    return atomic_load(&of->stopping) && atomic_load(&of->live) == 0;
}

/* woken() may end its own errand and wake others, but it can't end others. So `due` stays valid. */
static void wake_the_due(struct errands *of, uint64_t now_ms)
{
    struct list due;
    list_init(&due);
    list_each_safe(struct errand, errand, &of->timers, timer) {
        if (errand->due_ms > now_ms)
            break;
        list_del(&errand->timer);
        list_add(&due, &errand->timer);
    }
    while (!list_empty(&due)) {
        struct errand *errand = list_of(list_take(&due), struct errand, timer);
        errand->woken(errand);
    }
}

void errands_run(struct errands *of, uint64_t now_ms)
{
    if (atomic_load(&of->stopping) && !of->stop_woken) {
        of->stop_woken = true;
        list_each_safe(struct errand, errand, &of->all, link)
            errand->woken(errand);
    }
    mailbox_deliver(of->box);
    wake_the_due(of, now_ms);
}

int errands_wait_ms(const struct errands *of, uint64_t now_ms)
{
    if (list_empty(&of->timers))
        return WAIT_MS_MAX;
    uint64_t first_ms = list_of(of->timers.next, struct errand, timer)->due_ms;
    return first_ms > now_ms ? (int)MIN(first_ms - now_ms, (uint64_t)WAIT_MS_MAX) : 0;
}
