/* memory_memfd.c - memfds as registered memory. SPDX-License-Identifier: Apache-2.0
 *
 * The memfd is mapped here, and items are read straight into it. The memfd must be sealed against
 * shrinking. Otherwise its owner could cut off pages during a fill, and the fill's access to these
 * pages would be a fault (SIGBUS). The memfd must have all its pages: if a fill made a page, the
 * kernel would charge it to this process, and so to the limit of its container (holes.h).
 * Threads: as memory.h says. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "local/holes.h"
#include "local/inside.h"

/* map() makes the page table entries of the first POPULATE_BYTES of a map at once (0.1 s). For each
 * later page, the first access makes the entry. No page is allocated in either case: the memfd has
 * all its pages already. */
#define POPULATE_BYTES GIB

static const char *why_off(const struct local *local)
{
    (void)local;
    return NULL;
}

static bool bad(struct trouble *ret, const char *sentence)
{
    return refused(ret, 422, "bad_descriptor", slice_of(sentence));
}

static bool has_holes(struct trouble *ret)
{
    return bad(ret, "the memfd has holes: allocate all its pages with fallocate");
}

static bool judge_file(int fd, uint64_t bytes, struct trouble *ret_why)
{
    struct stat file;
    struct statfs fs;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || fstat(fd, &file) != 0 || fstatfs(fd, &fs) != 0 || !S_ISREG(file.st_mode))
        return bad(ret_why, "the descriptor is not a memfd: make the memory with memfd_create");
    if (fs.f_type == HUGETLBFS_MAGIC)    /* a write faults if no huge page is free */
        return bad(ret_why, "a memfd of huge pages can't be registered: create the memfd "
                            "without MFD_HUGETLB");
    if (!(seals & F_SEAL_SHRINK))
        return refused(ret_why, 422, "unsealed_memfd",
                       S("the memfd could shrink while Penstock writes to it: add the seal "
                         "F_SEAL_SHRINK"));
    if (seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE))
        return bad(ret_why, "the memfd has a seal against writing: create a memfd without "
                            "F_SEAL_WRITE and F_SEAL_FUTURE_WRITE");
    if ((uint64_t)file.st_size < bytes)
        return bad(ret_why, "the memfd is smaller than \"bytes\": enlarge it, or lower \"bytes\"");
    /* The memfd may be larger than `bytes`. The whole file must have its pages, because st_blocks
     * gives only their number, and not where the holes are. */
    return file.st_blocks * 512 >= file.st_size || has_holes(ret_why);
}

/* Maps the memfd, and, if the kernel allows it, watches the map for holes before the first page is
 * touched. */
static bool map(int holes, int fd, uint64_t bytes, char **ret, struct trouble *ret_why)
{
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED)
        return refused(ret_why, 503, "SlowDown", S("Penstock could not map the memfd, probably "
                       "because its process has too many mappings: unregister a buffer, or raise "
                       "the sysctl vm.max_map_count"));
    if (holes >= 0 && !holes_watch(holes, base, bytes)) {
        munmap(base, bytes);
        return refused(ret_why, 503, "SlowDown", S("Penstock could not watch the memfd for holes "
                       "(userfaultfd), probably for lack of memory: unregister a buffer, or try "
                       "again later"));
    }
    if (madvise(base, MIN(bytes, POPULATE_BYTES), MADV_POPULATE_WRITE) != 0 && errno == EFAULT) {
        munmap(base, bytes);
        return has_holes(ret_why);
    }
    madvise(base, bytes, MADV_DONTFORK);
    *ret = base;
    return true;
}

static enum err take(struct buffer *buffer, const struct memory_offer *memory, int *fds,
                     size_t fd_count, struct trouble *ret_why)
{
    int holes = buffer->session->worker->local->holes_fd;
    bool good = fd_count == 1 ? judge_file(fds[0], memory->bytes, ret_why)
                              : bad(ret_why, "a memfd buffer needs exactly one file descriptor");
    return good && map(holes, fds[0], memory->bytes, &buffer->base, ret_why) ? OK
                                                                             : ERR_BAD_ARGUMENT;
}

static enum err release(struct buffer *buffer)
{
    munmap(buffer->base, buffer->bytes);
    return OK;
}

const struct memory_kind memory_memfd = { why_off, take, release };
