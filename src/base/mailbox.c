/* mailbox.c - messages from one thread to another. SPDX-License-Identifier: Apache-2.0
 *
 * A mailbox is a lock-free stack. Its owner takes the whole stack and reverses it, so the mail of
 * one sender arrives in the order in which it was posted. Only a post that finds the stack empty
 * writes to the eventfd. */
#include "base/mailbox.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define MAILBOX_MAGIC 0x6d61696cu
struct mailbox {
    unsigned magic;
    _Atomic(struct mail *) newest;
    atomic_uint refs;
    int fd;
};

static struct mail closed;    /* the value of `newest` in a closed mailbox */

struct mailbox *mailbox_new(void)
{
    struct mailbox *box = must_alloc(sizeof(*box));
    box->magic = MAILBOX_MAGIC;
    box->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    atomic_init(&box->refs, 1);
    check(box->fd >= 0);
    return box;
}

struct mailbox *mailbox_ref(struct mailbox *box)
{
    check(box->magic == MAILBOX_MAGIC);
    check(atomic_fetch_add_explicit(&box->refs, 1, memory_order_relaxed) > 0);
    return box;
}

void mailbox_unref(struct mailbox **box)
{
    struct mailbox *mine = *box;
    *box = NULL;
    if (!mine)
        return;
    check(mine->magic == MAILBOX_MAGIC);
    if (atomic_fetch_sub_explicit(&mine->refs, 1, memory_order_acq_rel) > 1)
        return;
    mine->magic = 0;
    close(mine->fd);
    free(mine);
}

int mailbox_fd(const struct mailbox *box)
{
    return box->fd;
}

/* Returns false if the box is closed. Sets *ret_first if the stack was empty; then the owner must
 * be woken. */
static bool push(struct mailbox *box, struct mail *mail, bool *ret_first)
{
    struct mail *newest = atomic_load_explicit(&box->newest, memory_order_relaxed);
    do {
        if (newest == &closed)
            return false;
        mail->next = newest;
    } while (!atomic_compare_exchange_weak_explicit(&box->newest, &newest, mail,
                                                    memory_order_release, memory_order_relaxed));
    *ret_first = !newest;
    return true;
}

bool mailbox_post(struct mailbox *box, struct mail *mail)
{
    bool first = false;
    check(box->magic == MAILBOX_MAGIC && mail->deliver);
    /* The delivery may drop the caller's reference, and the owner may free the box. This reference
     * keeps the descriptor open until it was written to. */
    struct mailbox *held = mailbox_ref(box);
    bool posted = push(box, mail, &first);
    if (first) {
        uint64_t one = 1;
        /* If the counter is full, the descriptor is readable already. */
        (void)!write(held->fd, &one, sizeof(one));
    }
    mailbox_unref(&held);
    return posted;
}

static size_t deliver_all(struct mail *newest)
{
    struct mail *oldest = NULL;
    while (newest) {
        struct mail *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    size_t delivered = 0;
    while (oldest) {
        struct mail *next = oldest->next;    /* deliver may free the mail */
        oldest->deliver(oldest);
        oldest = next;
        delivered++;
    }
    return delivered;
}

size_t mailbox_deliver(struct mailbox *box)
{
    check(box->magic == MAILBOX_MAGIC);
    uint64_t count;
    (void)!read(box->fd, &count, sizeof(count));
    return deliver_all(atomic_exchange_explicit(&box->newest, NULL, memory_order_acquire));
}

void mailbox_free(struct mailbox **box)
{
    if (!*box)
        return;
    while (mailbox_deliver(*box))
        ;
    deliver_all(atomic_exchange_explicit(&(*box)->newest, &closed, memory_order_acq_rel));
    mailbox_unref(box);
}

#define TICKET_MAGIC 0x7469636bu
struct ticket {
    unsigned magic;
    struct mail mail;
    atomic_uint refs;
    atomic_bool posted;
    struct mailbox *box;
    void (*woken)(void *arg);    /* NULL after the end; only the owner's thread uses it */
    void *arg;
};

static void ticket_deliver(struct mail *mail)
{
    struct ticket *ticket = container_of(mail, struct ticket, mail);
    check(ticket->magic == TICKET_MAGIC);
    atomic_store(&ticket->posted, false);    /* now, so that a wake during the call posts again */
    if (ticket->woken)
        ticket->woken(ticket->arg);
    ticket_unref(&ticket);
}

struct ticket *ticket_new(struct mailbox *box, void (*woken)(void *arg), void *arg)
{
    struct ticket *ticket = must_alloc(sizeof(*ticket));
    check(woken != NULL);
    ticket->magic = TICKET_MAGIC;
    ticket->mail.deliver = ticket_deliver;
    atomic_init(&ticket->refs, 1);
    ticket->box = mailbox_ref(box);
    ticket->woken = woken;
    ticket->arg = arg;
    return ticket;
}

struct ticket *ticket_ref(struct ticket *ticket)
{
    check(ticket->magic == TICKET_MAGIC);
    check(atomic_fetch_add_explicit(&ticket->refs, 1, memory_order_relaxed) > 0);
    return ticket;
}

void ticket_wake(struct ticket *ticket)
{
    if (atomic_exchange(&ticket->posted, true))
        return;
    struct ticket *posted = ticket_ref(ticket);
    if (!mailbox_post(ticket->box, &posted->mail))
        ticket_unref(&posted);
}

void ticket_unref(struct ticket **ticket)
{
    struct ticket *mine = *ticket;
    *ticket = NULL;
    if (!mine)
        return;
    check(mine->magic == TICKET_MAGIC);
    if (atomic_fetch_sub_explicit(&mine->refs, 1, memory_order_acq_rel) > 1)
        return;
    mine->magic = 0;
    mailbox_unref(&mine->box);
    free(mine);
}

void ticket_end(struct ticket **ticket)
{
    if (!*ticket)
        return;
    check((*ticket)->magic == TICKET_MAGIC && (*ticket)->woken);
    (*ticket)->woken = NULL;
    ticket_unref(ticket);
}
