/* digest.c - bodies are hashed off the loops. SPDX-License-Identifier: Apache-2.0
 *
 * A signed body of 1 GiB takes a second of SHA-256: one thread does nothing else, so that no hit
 * waits for it. Small bodies are hashed where they are. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"
#include "front/inside.h"
#include "s3/checksum.h"

#define INLINE_BYTES 65536u

struct digests {
    struct mailbox *box;
    pthread_t thread;
    atomic_bool stopping;
};

struct digest {
    struct mail mail;
    struct mailbox *back;
    slice bytes;
    uint8_t sha256[32];
    void (*done)(void *arg, const uint8_t sha256[32]);
    void (*lost)(void *arg);
    void *arg;
};

static void *run(void *arg)
{
    struct digests *digests = arg;
    while (!atomic_load(&digests->stopping))
        mailbox_wait(digests->box, 1000);
    return NULL;
}

static void nothing(struct mail *mail)
{
    free(mail);
}

struct digests *digests_new(void)
{
    struct digests *digests = must_alloc(sizeof(*digests));
    digests->box = mailbox_new();
    check(thread_start(&digests->thread, run, digests, "digest"));
    return digests;
}

void digests_free(struct digests **digests)
{
    if (!*digests)
        return;
    struct mail *wake = must_alloc(sizeof(*wake));
    wake->deliver = nothing;
    atomic_store(&(*digests)->stopping, true);
    mailbox_post((*digests)->box, wake);
    pthread_join((*digests)->thread, NULL);
    mailbox_free(&(*digests)->box);
    free(*digests);
    *digests = NULL;
}

static void hash(struct digest *digest)
{
    uint8_t sum[CHECKSUM_BYTES_MAX];
    checksum_of(CHECKSUM_SHA256, digest->bytes, sum);
    memcpy(digest->sha256, sum, sizeof(digest->sha256));
}

static void deliver(struct mail *mail)    /* on the loop again */
{
    struct digest *digest = container_of(mail, struct digest, mail);
    digest->done(digest->arg, digest->sha256);
    mailbox_unref(&digest->back);
    free(digest);
}

static void work(struct mail *mail)    /* on the digests' thread */
{
    struct digest *digest = container_of(mail, struct digest, mail);
    hash(digest);
    digest->mail.deliver = deliver;
    if (!mailbox_post(digest->back, &digest->mail)) {
        digest->lost(digest->arg);    /* the loop is gone, and the request with it */
        mailbox_unref(&digest->back);
        free(digest);
    }
}

void digest_start(struct digests *digests, struct mailbox *box, slice bytes,
                  void (*done)(void *arg, const uint8_t sha256[32]), void (*lost)(void *arg),
                  void *arg)
{
    struct digest *digest = must_alloc(sizeof(*digest));
    check(box && done && lost);
    *digest = (struct digest){ .mail = { .deliver = work }, .back = mailbox_ref(box),
                               .bytes = bytes, .done = done, .lost = lost, .arg = arg };
    if (bytes.len > INLINE_BYTES) {
        mailbox_post(digests->box, &digest->mail);
        return;
    }
    hash(digest);
    deliver(&digest->mail);
}
