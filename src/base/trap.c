/* trap.c - a call that may fault, and a caller that lives on. SPDX-License-Identifier: Apache-2.0
 *
 * A fault in a trapped call jumps back to trap_run, past whatever the call was doing: its locks
 * stay locked, its memory is lost. So does a fault of the disk where a file's map is read, and no
 * other there. Other faults go to whoever handled them before, or end the process; first the
 * handler leaves the note, which takes nothing but open(), and writes the access lines that wait.
 * SIGABRT is never trapped: a heap that the C library finds broken is beyond repair. SIGFPE is: a
 * size of 0 is divided by. */
#include "base/trap.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

struct trap {
    sigjmp_buf back;
    bool reads;              /* catches what fails in these pages alone */
    struct pages {
        uintptr_t from, to;
    } pages[2];
};

static _Thread_local struct trap *volatile armed;
static const int signals[] = { SIGBUS, SIGSEGV, SIGFPE, SIGABRT };
static struct sigaction before[countof(signals)];    /* who had them until we came */
static char note_path[4096];          /* empty: none */

void trap_note(const char *path)
{
    if (snprintf(note_path, sizeof(note_path), "%s", path ? path : "") >= (int)sizeof(note_path))
        note_path[0] = '\0';
}

static void leave_note(void)
{
    int fd = note_path[0] ? open(note_path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (fd >= 0)
        close(fd);
}

static const struct sigaction *before_us(int signal)
{
    size_t i = 0;
    while (signals[i] != signal)
        i++;
    return &before[i];
}

/* Where the call is left for, above 0; 0: it is not. */
static int way_out(const struct trap *trap, int signal, const siginfo_t *info)
{
    uintptr_t at = (uintptr_t)info->si_addr;
    if (!trap || signal == SIGABRT)
        return 0;
    if (!trap->reads)
        return 1;
    for (int i = 0; i < (int)countof(trap->pages); i++)
        if (signal == SIGBUS && at >= trap->pages[i].from && at < trap->pages[i].to)
            return 1 + i;
    return 0;
}

static void faulted(int signal, siginfo_t *info, void *context)
{
    int way = way_out(armed, signal, info);
    if (way)
        siglongjmp(armed->back, way);
    leave_note();
    log_access_last();
    const struct sigaction *other = before_us(signal);
    if (other->sa_flags & SA_SIGINFO)
        other->sa_sigaction(signal, info, context);
    else if (other->sa_handler != SIG_DFL && other->sa_handler != SIG_IGN)
        other->sa_handler(signal);
    else if (sigaction(signal, other, NULL) == 0)
        raise(signal);    /* ends the process */
}

static void install_for(int signal, struct sigaction *ret_before)
{
    struct sigaction action = { .sa_flags = SA_SIGINFO | SA_NODEFER };
    action.sa_sigaction = faulted;
    sigemptyset(&action.sa_mask);
    struct sigaction now;
    check(sigaction(signal, NULL, &now) == 0);
    if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == faulted)
        return;
    *ret_before = now;
    check(sigaction(signal, &action, NULL) == 0);
}

void trap_install(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < countof(signals); i++)
        install_for(signals[i], &before[i]);
    pthread_mutex_unlock(&lock);
}

/* We left by a jump from inside the handler: what was blocked there may come again. The thread
 * sanitizer blocks everything, whatever our mask says, and a blocked fault ends the process. */
static void unblock(void)
{
    sigset_t faults;
    sigemptyset(&faults);
    for (size_t i = 0; i < countof(signals); i++)
        sigaddset(&faults, signals[i]);
    check(pthread_sigmask(SIG_UNBLOCK, &faults, NULL) == 0);
}

/* 0: it ran to its end; else the way out. */
__attribute__((noinline))
static int run_in(struct trap *trap, trap_call *call, void *ask, int *ret)
{
    int way = sigsetjmp(trap->back, 0);
    if (way) {
        armed = NULL;
        unblock();
        return way;
    }
    armed = trap;
    *ret = call(ask);
    armed = NULL;
    return 0;
}

bool trap_run(trap_call *call, void *ask, int *ret)
{
    struct trap trap = { .reads = false };
    return run_in(&trap, call, ask, ret) == 0;
}

static struct pages pages_of(slice map)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)map.ptr;
    return (struct pages){ from / page * page, (from + map.len + page - 1) / page * page };
}

bool trap_read_two(trap_call *call, void *ask, const slice maps[2], int *ret, int *ret_failed)
{
    struct trap trap = { .reads = true, .pages = { pages_of(maps[0]), pages_of(maps[1]) } };
    int way = run_in(&trap, call, ask, ret);
    if (way)
        *ret_failed = way - 1;
    return way == 0;
}

bool trap_read(trap_call *call, void *ask, slice map, int *ret)
{
    struct trap trap = { .reads = true, .pages = { pages_of(map) } };
    return run_in(&trap, call, ask, ret) == 0;
}

struct copying {
    void *to;
    const void *from;
    size_t bytes;
};

static int copy(void *ask)
{
    const struct copying *copying = ask;
    memcpy(copying->to, copying->from, copying->bytes);
    return 0;
}

bool trap_copy_to(void *to, const void *from, size_t bytes)
{
    int none;
    return trap_read(copy, &(struct copying){ to, from, bytes }, (slice){ to, bytes }, &none);
}

void trap_spring(void)
{
    check(armed);
    siglongjmp(armed->back, 1);
}
