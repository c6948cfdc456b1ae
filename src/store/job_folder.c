/* job_folder.c - the place of files of other rooms in a cache folder.
 * SPDX-License-Identifier: Apache-2.0
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

/* Returns the descriptor, or -1 with errno. The name of a new folder is on the disk before the
 * folder has files. */
static int open_inner(int folder, const char *inner)
{
    bool is_new = mkdirat(folder, inner, 0700) == 0;
    if (!is_new && errno != EEXIST)
        return -1;
    if (is_new && fsync(folder) != 0) {
        int error = errno;
        unlinkat(folder, inner, AT_REMOVEDIR);
        errno = error;
        return -1;
    }
    return openat(folder, inner, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static enum err open_of(struct store *store, size_t folder, const char *inner, int *ret)
{
    check(folder < store->volume_count);
    struct volume *volume = store->volumes[folder];
    enum err err = ERR_IO;
    pthread_mutex_lock(&volume->recycler.lock);
    if (atomic_load(&volume->service.open) && !atomic_load(&volume->recycler.paused)) {
        *ret = open_inner(volume->folder.fd, inner);
        err = *ret < 0 ? file_err(errno) : OK;
    }
    pthread_mutex_unlock(&volume->recycler.lock);
    return err;
}

enum err store_job_folder(struct store *store, size_t folder, int *ret)
{
    return open_of(store, folder, "jobs", ret);
}

enum err store_peer_folder(struct store *store, size_t folder, int *ret)
{
    return open_of(store, folder, "peers", ret);
}
