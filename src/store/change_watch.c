/* change_watch.c - files that other programs change. SPDX-License-Identifier: Apache-2.0 */
#include "store/change_watch.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/thread.h"
#include "store/extent_inside.h"

#define EVENTS_BYTES 4096

struct watched {
    int number;                       /* the kernel's; it is not used again */
    struct extent *extent;            /* not owned */
};

struct change_watch {
    int events, stop;                 /* inotify; eventfd */
    pthread_t thread;
    pthread_mutex_t lock;
    struct watched *list;             /* under the lock, as the members below */
    size_t count, max;
};

/* ---- the thread ---- */

static void changed(struct change_watch *watch, const struct inotify_event *event)
{
    bool all = event->mask & IN_Q_OVERFLOW;    /* some events are lost */
    if (!all && !(event->mask & IN_MODIFY))
        return;
    pthread_mutex_lock(&watch->lock);
    for (size_t i = 0; i < watch->count; i++)
        if (all || watch->list[i].number == event->wd)
            extent_lend_no_more(watch->list[i].extent);
    pthread_mutex_unlock(&watch->lock);
}

static void read_events(struct change_watch *watch)
{
    _Alignas(struct inotify_event) char bytes[EVENTS_BYTES];
    ssize_t len = read(watch->events, bytes, sizeof(bytes));
    for (ssize_t at = 0; at < len;) {
        const struct inotify_event *event = (const void *)(bytes + at);
        changed(watch, event);
        at += (ssize_t)(sizeof(*event) + event->len);
    }
}

static void *run(void *arg)
{
    struct change_watch *watch = arg;
    struct pollfd fds[] = { { .fd = watch->events, .events = POLLIN },
                            { .fd = watch->stop, .events = POLLIN } };
    while (!fds[1].revents) {
        int ready = poll(fds, countof(fds), -1);
        check(ready > 0 || errno == EINTR);
        if (ready > 0 && fds[0].revents)
            read_events(watch);
    }
    return NULL;
}

/* ---- the locker's thread ---- */

struct change_watch *change_watch_new(void)
{
    int events = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (events < 0)
        return NULL;
    int stop = eventfd(0, EFD_CLOEXEC);
    if (stop < 0) {
        close(events);
        return NULL;
    }
    struct change_watch *watch = must_alloc(sizeof(*watch));
    watch->events = events;
    watch->stop = stop;
    pthread_mutex_init(&watch->lock, NULL);
    check(thread_start(&watch->thread, run, watch, "changes"));
    return watch;
}

void change_watch_free(struct change_watch **watch)
{
    struct change_watch *mine = *watch;
    *watch = NULL;
    if (!mine)
        return;
    check(!mine->count && eventfd_write(mine->stop, 1) == 0);
    pthread_join(mine->thread, NULL);
    close(mine->events);
    close(mine->stop);
    pthread_mutex_destroy(&mine->lock);
    free(mine->list);
    free(mine);
}

bool change_watch_add(struct change_watch *watch, struct extent *extent)
{
    char path[32];
    check(atomic_load(&extent->sealed) && atomic_load(&extent->lock.pages));
    snprintf(path, sizeof(path), "/proc/self/fd/%d", extent_fd(extent));
    pthread_mutex_lock(&watch->lock);    /* the thread finds the first event in the list */
    int number = inotify_add_watch(watch->events, path, IN_MODIFY);
    if (number >= 0) {
        if (watch->count == watch->max) {
            watch->max = MAX(16, 2 * watch->max);
            watch->list = realloc(watch->list, watch->max * sizeof(*watch->list));
            check(watch->list != NULL);
        }
        watch->list[watch->count++] = (struct watched){ number, extent };
    }
    pthread_mutex_unlock(&watch->lock);
    return number >= 0;
}

void change_watch_remove(struct change_watch *watch, struct extent *extent)
{
    pthread_mutex_lock(&watch->lock);
    size_t i = 0;
    while (i < watch->count && watch->list[i].extent != extent)
        i++;
    check(i < watch->count);
    int number = watch->list[i].number;
    watch->list[i] = watch->list[--watch->count];
    /* If a folder was closed and opened again, two extents have one file, and so one number. The
     * call fails if the file is gone, because the kernel then removed the watch. */
    for (i = 0; i < watch->count && watch->list[i].number != number;)
        i++;
    if (i == watch->count)
        (void)inotify_rm_watch(watch->events, number);
    pthread_mutex_unlock(&watch->lock);
}
