/* test_mailbox.c - a mailbox whose last reference goes while a post is in progress.
 * SPDX-License-Identifier: Apache-2.0
 *
 * This file's write() stands in for that of libc. It stops the thread that posts just before it
 * writes to the mailbox's eventfd. */
#include "unit.h"

#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mailbox.h"

static atomic_int stopped_fd = -1;    /* a write to this descriptor stops */
static sem_t writing, may_write;
static atomic_bool was_open;          /* the descriptor was open when the write went on */
static bool posted;

ssize_t write(int fd, const void *bytes, size_t len)
{
    if (fd == atomic_load(&stopped_fd)) {
        sem_post(&writing);
        while (sem_wait(&may_write))
            ;
        atomic_store(&was_open, fcntl(fd, F_GETFD) >= 0);
    }
    return syscall(SYS_write, fd, bytes, len);
}

/* As in front/cached.c: the mail has the only reference of the thread that posts. */
struct job {
    struct mail mail;
    struct mailbox *box;
};

static void deliver(struct mail *mail)
{
    struct job *job = container_of(mail, struct job, mail);
    mailbox_unref(&job->box);
    free(job);
}

static void *post(void *arg)
{
    struct job *job = arg;
    job->mail.deliver = deliver;
    posted = mailbox_post(job->box, &job->mail);
    return NULL;
}

TEST(a_post_never_writes_to_a_descriptor_that_was_closed)
{
    struct mailbox *box = mailbox_new();
    struct job *job = calloc(1, sizeof(*job));
    int fd = mailbox_fd(box);
    pthread_t thread;
    ok(sem_init(&writing, 0, 0) == 0 && sem_init(&may_write, 0, 0) == 0);
    job->box = mailbox_ref(box);
    atomic_store(&stopped_fd, fd);
    ok(pthread_create(&thread, NULL, post, job) == 0);
    while (sem_wait(&writing))
        ;
    mailbox_free(&box);    /* delivers the mail, and so drops both references */
    sem_post(&may_write);
    pthread_join(thread, NULL);
    ok(posted && atomic_load(&was_open));
    ok(fcntl(fd, F_GETFD) < 0);    /* closed at the end of the post */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_post_never_writes_to_a_descriptor_that_was_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
