/* mailbox.h - how a thread is told something by another. SPDX-License-Identifier: Apache-2.0
 *
 * A mailbox belongs to one thread, which waits on its descriptor and empties it; anybody may
 * post. A ticket is the handle that may have died (H4): whoever waits hands out tickets, and
 * ends them when it goes; a wake that comes later finds nobody and does nothing. Wakes between
 * two deliveries are one. */
#ifndef BASE_MAILBOX_H
#define BASE_MAILBOX_H

#include "base/base.h"

struct mail {
    struct mail *next;
    void (*deliver)(struct mail *mail);    /* on the mailbox's thread */
};

struct mailbox;
struct mailbox *mailbox_new(void) MUST_USE;
/* Owner only: what was posted is delivered, what comes later finds it closed. Those who hold a
 * reference may still post, in vain. */
void mailbox_free(struct mailbox **box);
struct mailbox *mailbox_ref(struct mailbox *box) MUST_USE;
void mailbox_unref(struct mailbox **box);
int mailbox_fd(const struct mailbox *box);          /* an eventfd: readable when there is mail */
/* Any thread that holds a reference, or knows that the owner is there. false: it is closed, the
 * mail is yours. */
bool mailbox_post(struct mailbox *box, struct mail *mail);
size_t mailbox_deliver(struct mailbox *box);        /* owner only; returns how many it delivered */
/* Owner only: sleeps until there is mail or timeout_ms has passed (-1: for ever), delivers it.
 * For threads that have no event loop of their own. */
size_t mailbox_wait(struct mailbox *box, int timeout_ms);

struct ticket;
struct ticket *ticket_new(struct mailbox *box, void (*woken)(void *arg), void *arg) MUST_USE;
struct ticket *ticket_ref(struct ticket *ticket) MUST_USE;    /* for whoever will wake it */
void ticket_wake(struct ticket *ticket);            /* any thread that holds a reference */
void ticket_unref(struct ticket **ticket);          /* any thread */
void ticket_end(struct ticket **ticket);            /* owner only: woken() is not called any more */

#endif
