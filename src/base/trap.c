/* trap.c - calls that may fault without ending the process. SPDX-License-Identifier: Apache-2.0
 *
 * A fault in a trapped call jumps back to trap_run. The call is abandoned where it was: its locks
 * stay locked, and its memory is lost. trap_read traps one kind of fault only: a SIGBUS at an
 * address in the map of a file. Such a fault means that the kernel can't give this page of the
 * file.
 *
 * If no trap catches a fault, our handler does two things. It creates an empty file at each path
 * that trap_note_add was given; a handler may call open(). And it writes the access lines that are
 * still in memory (log_access_last). Then the handler that was installed before ours gets the
 * signal. If there was none, the process ends.
 *
 * SIGABRT is never trapped, because a heap that the C library finds broken can't be repaired.
 * SIGFPE is trapped, because damaged bytes may hold a size of 0, and the called library may divide
 * by that size. */
#include "base/trap.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

struct trap {
    sigjmp_buf back;
    bool reads;              /* true: only faults in `pages` are caught */
    struct pages {
        uintptr_t from, to;
    } pages[2];
};

static _Thread_local struct trap *volatile armed;
static const int signals[] = { SIGBUS, SIGSEGV, SIGFPE, SIGABRT };
static struct sigaction before[countof(signals)];    /* installed before ours */
static _Atomic(char *) notes[TRAP_NOTES];

char *trap_note_add(const char *path)
{
    char *note = must_strndup(path, strlen(path));
    for (size_t i = 0; i < countof(notes); i++) {
        char *none = NULL;
        if (atomic_compare_exchange_strong(&notes[i], &none, note))
            return note;
    }
    free(note);
    return NULL;
}

void trap_note_remove(char **note)
{
    for (size_t i = 0; *note && i < countof(notes); i++) {
        char *mine = *note;
        if (atomic_compare_exchange_strong(&notes[i], &mine, NULL))
            break;
    }
    free(*note);
    *note = NULL;
}

/* Neither a FIFO nor a link with the name of a note may keep the process from its end. */
#define FLAGS (O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)

static void leave_notes(void)
{
    for (size_t i = 0; i < countof(notes); i++) {
        const char *path = atomic_load(&notes[i]);
        int fd = path ? open(path, FLAGS, 0600) : -1;
        if (fd >= 0)
            close(fd);
    }
}

static const struct sigaction *before_us(int signal)
{
    size_t i = 0;
    while (signals[i] != signal)
        i++;
    return &before[i];
}

/* Returns a value above 0 for siglongjmp, or 0 if the trap does not catch this fault. */
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
    leave_notes();
    log_access_last();
    const struct sigaction *other = before_us(signal);
    if (other->sa_flags & SA_SIGINFO)
        other->sa_sigaction(signal, info, context);
    else if (other->sa_handler != SIG_DFL && other->sa_handler != SIG_IGN)
        other->sa_handler(signal);
    else if (sigaction(signal, other, NULL) == 0)
        raise(signal);    /* this ends the process */
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

/* Unblocks our signals after the jump out of the handler. Under the thread sanitizer, all signals
 * are blocked inside a handler, whatever its mask says. A fault with a blocked signal would end the
 * process. */
static void unblock(void)
{
    sigset_t faults;
    sigemptyset(&faults);
    for (size_t i = 0; i < countof(signals); i++)
        sigaddset(&faults, signals[i]);
    check(pthread_sigmask(SIG_UNBLOCK, &faults, NULL) == 0);
}

/* Returns 0 if the call ran to its end, else the value of way_out. */
__attribute__((noinline))
static int run_in(struct trap *trap, trap_call *call, void *ask, int *ret)
{
    check(!armed);
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
    int ignored;
    return trap_read_two(call, ask, (slice[2]){ map }, ret, &ignored);
}

struct copying {
    void *to;
    slice bytes;
    enum copy_use use;
};

static int copy(void *ask)
{
    const struct copying *copying = ask;
    copy_for_use(copying->to, copying->bytes, copying->use);
    return 0;
}

bool trap_copy(void *to, slice bytes, enum copy_use use, int *ret_failed)
{
    const slice maps[] = { { to, bytes.len }, bytes };
    int none;
    return trap_read_two(copy, &(struct copying){ to, bytes, use }, maps, &none, ret_failed);
}

bool trap_copy_to(void *to, const void *from, size_t bytes)
{
    int none;
    struct copying copying = { to, { from, bytes }, COPY_READ_SOON };
    return trap_read(copy, &copying, (slice){ to, bytes }, &none);
}

void trap_spring(void)
{
    check(armed);
    siglongjmp(armed->back, 1);
}
