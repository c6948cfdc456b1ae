/* count_locks.c - counts which thread takes which lock, where. SPDX-License-Identifier: Apache-2.0
 *
 * A library for LD_PRELOAD that stands before the calls of libc that take a lock. The environment
 * variable COUNT_LOCKS_FILE names a file of zero bytes, which a test reads at any time:
 *
 *   blocks in use, then THREADS blocks of { thread, rows in use, calls not counted, ROWS rows }
 *
 * A row is one lock taken by one thread at one place of the program. Numbers are native. Each
 * thread writes only its own block, so counting makes no two threads wait for each other. */
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define THREADS 256u
#define ROWS 511u

struct row {
    uint64_t lock, place;             /* place: an address in the program's file */
    _Atomic uint64_t count;
};

struct block {
    _Atomic uint64_t thread, rows, lost;
    struct row row[ROWS];
};

struct file {
    _Atomic uint64_t blocks;
    struct block block[THREADS];
};

static struct file *file;
static uintptr_t program;             /* where the program's file is mapped */
static _Thread_local struct block *mine;

static int first_object(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    (void)arg;
    program = info->dlpi_addr;
    return 1;
}

__attribute__((constructor)) static void open_file(void)
{
    const char *path = getenv("COUNT_LOCKS_FILE");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *map = MAP_FAILED;
    if (fd >= 0)
        map = mmap(NULL, sizeof(struct file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    dl_iterate_phdr(first_object, NULL);
    if (map != MAP_FAILED)
        file = map;
}

static void count(const void *lock, const void *caller)
{
    uint64_t place = (uintptr_t)caller - program, i = 0;
    if (!file)
        return;
    if (!mine) {
        uint64_t n = atomic_fetch_add(&file->blocks, 1);
        if (n >= THREADS)
            abort();    /* the test must not take a part for the whole */
        mine = &file->block[n];
        atomic_store(&mine->thread, (uint64_t)gettid());
    }
    uint64_t rows = atomic_load_explicit(&mine->rows, memory_order_relaxed);
    while (i < rows && (mine->row[i].lock != (uintptr_t)lock || mine->row[i].place != place))
        i++;
    if (i == ROWS) {
        atomic_fetch_add(&mine->lost, 1);
        return;
    }
    mine->row[i].lock = (uintptr_t)lock;
    mine->row[i].place = place;
    atomic_fetch_add_explicit(&mine->row[i].count, 1, memory_order_relaxed);
    if (i == rows)
        atomic_store(&mine->rows, rows + 1);
}

#define COUNTED(name, type)                                                                    \
    int name(type *lock)                                                                       \
    {                                                                                          \
        static _Atomic(int (*)(type *)) real;                                                  \
        int (*call)(type *) = atomic_load(&real);                                              \
        if (!call) {                                                                           \
            call = (int (*)(type *))(uintptr_t)dlsym(RTLD_NEXT, #name);                        \
            atomic_store(&real, call);                                                         \
        }                                                                                      \
        count((const void *)(uintptr_t)lock, __builtin_return_address(0));                     \
        return call(lock);                                                                     \
    }

COUNTED(pthread_mutex_lock, pthread_mutex_t)
COUNTED(pthread_mutex_trylock, pthread_mutex_t)
COUNTED(pthread_rwlock_rdlock, pthread_rwlock_t)
COUNTED(pthread_rwlock_tryrdlock, pthread_rwlock_t)
COUNTED(pthread_rwlock_wrlock, pthread_rwlock_t)
COUNTED(pthread_rwlock_trywrlock, pthread_rwlock_t)
COUNTED(pthread_spin_lock, volatile int)
