/* doctor_disk.c - how fast the disks of the cache folders are. SPDX-License-Identifier: Apache-2.0
 *
 * Reads bypass the page cache (O_DIRECT), at random places of the largest extent: 32 reads of 128
 * KiB, one after the other, as a reader of small objects waits for them. A folder without extents
 * gets a file without a name (O_TMPFILE), which the kernel removes however this process ends. The
 * index is read through the page cache, as LMDB's map is. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/doctor.h"
#include "store/store.h"

#define READS 32u
#define READ_BYTES 131072u
#define ALIGN 4096u
#define TIME_MS 2000u
#define TEMP_BYTES (4 * MIB)
#define TEMP_ROOM (256 * MIB)           /* free bytes, beyond the reserve, for a temporary file */
#define SLOW_MS 10.0                    /* 128 KiB take a disk with spinning plates as long */
#define INDEX_READ 4096u
#define INDEX_SLOW_MS 5.0

struct reads {
    double ms[READS];
    unsigned count;
    uint64_t took_ns;
    bool cached;                        /* the file system has no O_DIRECT */
};

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(struct reads *reads)
{
    qsort(reads->ms, reads->count, sizeof(reads->ms[0]), by_size);
    return reads->ms[reads->count / 2];
}

/* Reads random pieces of a file until there are READS of them, or the time is over. */
static bool read_pieces(int fd, uint64_t bytes, size_t piece, struct reads *ret)
{
    void *memory = NULL;
    check(posix_memalign(&memory, ALIGN, piece) == 0);
    uint64_t begin = mono_ns(), random = begin, places = MAX(1u, bytes / piece);
    ret->count = 0;
    while (ret->count < READS && mono_ns() - begin < TIME_MS * UINT64_C(1000000)) {
        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        uint64_t from = mono_ns();
        if (pread(fd, memory, piece, (off_t)((random >> 33) % places * piece)) < 0)
            break;
        ret->ms[ret->count++] = (double)(mono_ns() - from) / 1e6;
    }
    ret->took_ns = MAX(mono_ns() - begin, 1);
    free(memory);
    return ret->count > 0;
}

/* ---- a file to read ---- */

/* Opens the largest extent of the folder. Returns -1 if there is none worth reading. */
static int open_largest(struct doctor *doctor, const char *folder, uint64_t *ret_bytes)
{
    const char *path = arena_printf(doctor->keep, "%s/extents", folder).ptr;
    DIR *dir = opendir(path);
    struct dirent *entry;
    struct stat st;
    const char *largest = NULL;
    *ret_bytes = 0;
    while (dir && (entry = readdir(dir))) {
        if (fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISREG(st.st_mode) || (uint64_t)st.st_size <= *ret_bytes)
            continue;
        *ret_bytes = (uint64_t)st.st_size;
        largest = arena_printf(doctor->keep, "%s/%s", path, entry->d_name).ptr;
    }
    if (dir)
        closedir(dir);
    if (!largest || *ret_bytes < READ_BYTES)
        return -1;
    return open(largest, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
}

/* Makes a file without a name. Returns -1 if there is no room for it, or no right. */
static int open_temporary(const char *folder, uint64_t reserve, uint64_t *ret_bytes)
{
    struct store_space space;
    if (store_space(folder, &space) != OK || space.free_bytes < reserve + TEMP_ROOM)
        return -1;
    int fd = open(folder, O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
    char *bytes = must_alloc(TEMP_BYTES);
    memset(bytes, 0x5a, TEMP_BYTES);
    bool good = fd >= 0 && pwrite(fd, bytes, TEMP_BYTES, 0) == (ssize_t)TEMP_BYTES &&
                fdatasync(fd) == 0;
    free(bytes);
    if (fd >= 0 && !good)
        close(fd);
    *ret_bytes = TEMP_BYTES;
    return good ? fd : -1;
}

/* Turns the page cache off for this file, or empties it of the file if that is not possible. */
static void bypass(int fd, struct reads *reads)
{
    int flags = fcntl(fd, F_GETFL);
    char *page = NULL;
    check(posix_memalign((void **)&page, ALIGN, ALIGN) == 0);
    reads->cached = fcntl(fd, F_SETFL, flags | O_DIRECT) != 0 || pread(fd, page, ALIGN, 0) < 0;
    free(page);
    if (!reads->cached)
        return;
    (void)!fcntl(fd, F_SETFL, flags);
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
}

/* ---- findings ---- */

static void add_disk(struct doctor *doctor, slice place, struct reads *reads)
{
    double ms = median(reads);
    double rate = (double)reads->count * READ_BYTES / 1e6 / ((double)reads->took_ns / 1e9);
    struct finding *finding = doctor_add(
        doctor, place, arena_printf(doctor->keep, "128 KiB in %.2f ms, %.0f MB/s%s", ms, rate,
                                    reads->cached ? " (partly from memory)" : ""),
        arena_printf(doctor->keep, "below %g ms (NVMe: 1 ms)", SLOW_MS));
    doctor_judge(finding, ms, SLOW_MS,
                 S("Reads of the cache that are not in memory wait for this disk. Put the cache "
                   "folder on a local NVMe disk (cache_dir, or cache_dirs for several disks), and "
                   "look for other programs that use the disk (iostat -x)."));
}

static void add_index(struct doctor *doctor, slice place, const char *folder)
{
    const char *path = arena_printf(doctor->keep, "%s/index/data.mdb", folder).ptr;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat st;
    struct reads reads = { .count = 0 };
    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size >= (off_t)INDEX_READ &&
        read_pieces(fd, (uint64_t)st.st_size, INDEX_READ, &reads)) {
        double ms = median(&reads);
        slice size = show_bytes(doctor->keep, (uint64_t)st.st_size);
        struct finding *finding = doctor_add(
            doctor, place, arena_printf(doctor->keep, "%.*s, a page in %.3f ms", SLICE_ARG(size),
                                        ms),
            arena_printf(doctor->keep, "below %g ms (in memory: 0.1 ms)", INDEX_SLOW_MS));
        doctor_judge(finding, ms, INDEX_SLOW_MS,
                     S("Each look-up of an object reads some pages of the index, and they come "
                       "from a slow disk. Leave more memory to the page cache, or put the cache "
                       "folder on a faster disk."));
    }
    close(fd);
}

static void measure(struct doctor *doctor, const char *folder, slice place, slice index)
{
    struct reads reads = { .count = 0 };
    uint64_t bytes;
    bool there = access(folder, F_OK) == 0;
    int fd = open_largest(doctor, folder, &bytes);
    if (fd < 0)
        fd = open_temporary(folder, doctor->config->cache_reserve_bytes, &bytes);
    if (fd >= 0)
        bypass(fd, &reads);
    if (fd >= 0 && read_pieces(fd, bytes, READ_BYTES, &reads))
        add_disk(doctor, place, &reads);
    else
        doctor_add(doctor, place, !there ? S("the cache folder does not exist yet")
                   : S("the folder can't be read by this user, or has no room"),
                   S(""))->grade = UNKNOWN;
    if (fd >= 0)
        close(fd);
    add_index(doctor, index, folder);
}

void doctor_disks(struct doctor *doctor)
{
    const struct config *config = doctor->config;
    bool many = config->folder_count > 1;
    for (size_t i = 0; i < config->folder_count && doctor->count + 20 < FINDINGS_MAX; i++) {
        const char *folder = config->folders[i].path;
        slice name = many ? show_text(doctor->keep, slice_of(folder)) : S("");
        measure(doctor, folder, arena_printf(doctor->keep, "disk%s%.*s", many ? " " : "",
                                             SLICE_ARG(name)),
                arena_printf(doctor->keep, "index%s%.*s", many ? " " : "", SLICE_ARG(name)));
    }
}
