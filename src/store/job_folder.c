/* job_folder.c - the place of the files of jobs in a cache folder. SPDX-License-Identifier: Apache-2.0
 *
 * The descriptor of a cache folder belongs to the committer, which closes it when the folder goes
 * out of service. It pauses the recycler before that. So under the recycler's lock, and while the
 * recycler is not paused, the folder stays open. */
#include "store/job_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "store/inside.h"

#define JOBS "jobs"

/* Returns the descriptor, or -1 with errno. The name of a new folder is on the disk before the
 * folder has files. */
static int open_inner(int folder)
{
    bool is_new = mkdirat(folder, JOBS, 0700) == 0;
    if (!is_new && errno != EEXIST)
        return -1;
    if (is_new && fsync(folder) != 0) {
        int error = errno;
        unlinkat(folder, JOBS, AT_REMOVEDIR);
        errno = error;
        return -1;
    }
    return openat(folder, JOBS, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

enum err store_job_folder(struct store *store, size_t folder, int *ret)
{
    check(folder < store->volume_count);
    struct volume *volume = store->volumes[folder];
    enum err err = ERR_IO;
    pthread_mutex_lock(&volume->recycler.lock);
    if (atomic_load(&volume->service.open) && !atomic_load(&volume->recycler.paused)) {
        *ret = open_inner(volume->folder.fd);
        err = *ret < 0 ? file_err(errno) : OK;
    }
    pthread_mutex_unlock(&volume->recycler.lock);
    return err;
}
