/* file.c - whole small files. SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

bool file_read(const char *path, size_t max, struct arena *keep, slice *ret)
{
    struct text text = text_in(keep);
    char piece[4096];
    ssize_t got = -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && text.len <= max && (got = read(fd, piece, sizeof(piece))) > 0)
        text_add(&text, (slice){ piece, (size_t)got });
    int error = got < 0 ? errno : EFBIG;
    text_char(&text, '\0');
    *ret = (slice){ text.ptr, text.len - 1 };
    if (fd >= 0)
        close(fd);
    errno = error;
    return got == 0;
}
