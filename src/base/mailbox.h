/* mailbox.h - messages from one thread to another. SPDX-License-Identifier: Apache-2.0
 *
 * A mailbox belongs to one thread, which waits on its descriptor and empties it. Any thread may
 * post. A ticket is a handle that may outlive its owner (H4). The owner gives references to other
 * threads, which may wake it. When the owner goes, it ends the ticket; a later wake then does
 * nothing. All wakes between two deliveries count as one. */
#ifndef BASE_MAILBOX_H
#define BASE_MAILBOX_H

#include "base/base.h"

struct mail {
    struct mail *next;
    void (*deliver)(struct mail *mail);    /* called on the mailbox's thread */
};

struct mailbox;
struct mailbox *mailbox_new(void) MUST_USE;
/* Owner only: delivers all mail and closes the box. Holders of a reference may still call
 * mailbox_post, which then fails. */
void mailbox_free(struct mailbox **box);
struct mailbox *mailbox_ref(struct mailbox *box) MUST_USE;
void mailbox_unref(struct mailbox **box);
int mailbox_fd(const struct mailbox *box);          /* an eventfd, readable when there is mail */
/* The caller must hold a reference, or know that the owner still exists. Returns false if the box
 * is closed; then the mail still belongs to the caller. */
bool mailbox_post(struct mailbox *box, struct mail *mail);
size_t mailbox_deliver(struct mailbox *box);        /* owner only; returns how many it delivered */
struct ticket;
struct ticket *ticket_new(struct mailbox *box, void (*woken)(void *arg), void *arg) MUST_USE;
struct ticket *ticket_ref(struct ticket *ticket) MUST_USE;    /* for a thread that will wake it */
void ticket_wake(struct ticket *ticket);            /* any thread that holds a reference */
void ticket_unref(struct ticket **ticket);          /* any thread */
void ticket_end(struct ticket **ticket);            /* owner only: woken() is never called again */

#endif
