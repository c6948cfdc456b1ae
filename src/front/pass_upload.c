/* pass_upload.c - the request body of a write, on its way to the origin.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The body goes to the origin from memory or the page cache. If the page cache has lost bytes of
 * the body, the upload pauses, and a thread started for this purpose reads them from the disk. The
 * origin's thread does not read the disk, because it has other calls, and the disk may hang.
 * Threads: the origin's thread calls read_body; run_body_read has a thread of its own. */
#include <stdlib.h>

#include "base/thread.h"
#include "front/passing.h"

#define BODY_READ_AHEAD_BYTES (4 * MIB)    /* read by one thread, in parts */
#define BODY_PART_BYTES (256 * KIB)

/* The bytes of a body that one thread brings into the page cache. */
struct body_read {
    struct pass *pass;            /* a reference, which keeps the upload */
    struct http_body *hold;       /* a reference to the body of the upload */
    size_t at, end;
};

static void *run_body_read(void *arg)
{
    struct body_read *read = arg;
    struct pass *pass = read->pass;
    char *buffer = malloc(BODY_PART_BYTES);
    bool good = buffer != NULL;
    for (size_t part; good && read->at < read->end; read->at += part) {
        part = MIN(read->end - read->at, BODY_PART_BYTES);
        good = http_body_read(read->hold, read->at, buffer, part);
    }
    free(buffer);
    if (!good)
        atomic_store(&pass->upload.lost, true);
    atomic_store(&pass->upload.reading, false);
    origin_resume(&pass->request.origin);
    http_body_unref(&read->hold);
    pass_unref(pass);
    free(read);
    return NULL;
}

/* Returns false if no thread could be started. */
static bool start_body_read(struct pass *pass, size_t at)
{
    pthread_t thread;
    struct upload *upload = &pass->upload;
    struct body_read *read = must_alloc(sizeof(*read));
    size_t end = MIN(at + BODY_READ_AHEAD_BYTES, upload->at + upload->source.length);
    *read = (struct body_read){ pass_ref(pass), http_body_ref(upload->hold), at, end };
    atomic_store(&upload->reading, true);
    if (thread_start(&thread, run_body_read, read, "body-read")) {
        pthread_detach(thread);
        return true;
    }
    atomic_store(&upload->reading, false);
    http_body_unref(&read->hold);
    pass_unref(pass);
    free(read);
    return false;
}

static size_t read_body(void *arg, uint64_t offset, char *ret, size_t bytes)
{
    struct pass *pass = arg;
    struct upload *upload = &pass->upload;
    check(pass->magic == PASS_MAGIC && offset <= upload->source.length);
    size_t part = MIN(bytes, upload->source.length - offset), at = upload->at + offset;
    if (atomic_load(&upload->reading))
        return ORIGIN_LATER;
    if (!atomic_load(&upload->lost) && http_body_read_now(upload->hold, at, ret, part))
        return part;
    if (!atomic_load(&upload->lost) && start_body_read(pass, at))
        return ORIGIN_LATER;
    atomic_store(&upload->lost, true);
    return 0;
}

void pass_upload_begin(struct pass *pass)
{
    pass->upload.source = (struct origin_body){ .read = read_body, .arg = pass };
    pass->request.origin.body = &pass->upload.source;
    pass->upload.in_intake = true;
}
