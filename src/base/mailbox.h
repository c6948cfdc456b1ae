/* mailbox.h - messages from one thread to another. SPDX-License-Identifier: Apache-2.0
 *
 * A mailbox belongs to one thread, which waits on the mailbox's descriptor and delivers the mail.
 * Any thread may post. A ticket lets other threads wake its owner. The owner is an object of the
 * mailbox's thread, for example a request. Each of the other threads holds a reference to the
 * ticket, so the ticket may outlive its owner (rule H4 of src/README.md). The owner ends its ticket
 * before the owner is freed. After that, a wake does nothing. All wakes between two deliveries
 * count as one. */
#ifndef BASE_MAILBOX_H
#define BASE_MAILBOX_H

#include "base/base.h"

struct mail {
    struct mail *next;
    void (*deliver)(struct mail *mail);    /* called on the mailbox's thread */
};

struct mailbox;
struct mailbox *mailbox_new(void) MUST_USE;
/* Called by the mailbox's thread alone: delivers all mail and closes the box. Holders of a reference may still call
 * mailbox_post, which then fails. */
void mailbox_free(struct mailbox **box);
struct mailbox *mailbox_ref(struct mailbox *box) MUST_USE;
void mailbox_unref(struct mailbox **box);
int mailbox_fd(const struct mailbox *box);          /* an eventfd, readable when there is mail */
/* The caller must hold a reference, or know that the mailbox's thread has not freed the box yet.
 * Returns false if the box is closed; then the mail still belongs to the caller. */
bool mailbox_post(struct mailbox *box, struct mail *mail);
size_t mailbox_deliver(struct mailbox *box);        /* by its thread; returns the number of mails */
struct ticket;
struct ticket *ticket_new(struct mailbox *box, void (*woken)(void *arg), void *arg) MUST_USE;
struct ticket *ticket_ref(struct ticket *ticket) MUST_USE;    /* for another thread */
void ticket_wake(struct ticket *ticket);            /* any thread that holds a reference */
void ticket_unref(struct ticket **ticket);          /* any thread */
void ticket_end(struct ticket **ticket);            /* owner only: woken() is never called again */

#endif
