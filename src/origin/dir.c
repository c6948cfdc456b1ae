/* dir.c - a POSIX directory that answers like an S3 server. SPDX-License-Identifier: Apache-2.0
 *
 * "dir:/path": each sub-directory of the path is a bucket, the files below it are objects, and a
 * file's path relative to the bucket is its key. Such an origin is read-only. Relative links to
 * files of the same bucket are followed, also in listings; listings do not walk into linked
 * directories. A file that changed less than 2 s ago may change again unnoticed (dir_file.c), so
 * its answer says "cache-control: no-store".
 * The code runs on the threads of dir_pool.c. */
#include "origin/dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "s3/encode.h"
#include "s3/error.h"

#define SCHEME "dir:"
#define FIELDS_MAX 8

/* ---- replies ---- */

struct draft {              /* a reply whose fields are being collected */
    struct dir_call *call;
    int status;
    uint64_t length;
    struct http_field fields[FIELDS_MAX];
    size_t field_count;
};

static void add(struct draft *draft, const char *name, slice value)
{
    check(draft->field_count < FIELDS_MAX);
    draft->fields[draft->field_count++] = (struct http_field){ slice_of(name), value };
}

/* Gives the head to the caller. After a HEAD or a 304 no bytes follow, whatever the length says. */
static void give_head(struct draft *draft)
{
    struct dir_call *call = draft->call;
    enum s3_op op = call->hook.call->op;
    check(draft->status >= 200 && call->at <= call->end);
    bool bodiless = s3_operation(op)->method == S3_HEAD || draft->status == 304;
    if (draft->status != 304)
        add(draft, "content-length",
            arena_printf(&call->keep, "%llu", (unsigned long long)draft->length));
    if (bodiless)
        call->end = call->at;
    struct origin_reply reply = {
        .status = draft->status,
        .has_length = draft->status != 304,
        .length = draft->length,
        .fields = draft->fields,
        .field_count = draft->field_count,
        .first_byte_ns = mono_ns() - call->started_ns,
        .tries = 1,
    };
    hook_head(&call->hook, &reply);
}

static void body_in_memory(struct draft *draft, slice document)
{
    struct dir_call *call = draft->call;
    if (call->fd >= 0)
        close(call->fd);
    call->fd = -1;
    call->memory = document;
    call->at = 0;
    call->end = document.len;
    draft->length = document.len;
    add(draft, "content-type", S("application/xml"));
}

static enum err answer_error(struct draft *draft, enum err err, slice why)
{
    struct dir_call *call = draft->call;
    const struct origin_call *asked = call->hook.call;
    if (err == ERR_IO)    /* errno is that of the failure: only close() and free() came after it */
        call->hook.why = arena_printf(&call->keep, "%s: check the file system of the "
                                      "origin's folder", strerror(errno)).ptr;
    slice resource = asked->key.len
        ? arena_printf(&call->keep, "/%.*s/%.*s", SLICE_ARG(asked->bucket), SLICE_ARG(asked->key))
        : arena_printf(&call->keep, "/%.*s", SLICE_ARG(asked->bucket));
    draft->status = s3_error_of(err)->status;
    if (err != ERR_NOT_MODIFIED)
        body_in_memory(draft, s3_error_xml(&call->keep, err, &(struct s3_fault){ .message = why },
                                           resource, S("")));
    give_head(draft);
    return OK;
}

static enum err answer_document(struct draft *draft, slice document)
{
    draft->status = 200;
    body_in_memory(draft, document);
    give_head(draft);
    return OK;
}

/* ---- operations ---- */

static slice content_type(slice key)
{
    static const struct {
        const char *ending, *type;
    } rows[] = {
        { ".csv", "text/csv" }, { ".gif", "image/gif" }, { ".gz", "application/gzip" },
        { ".html", "text/html" }, { ".jpeg", "image/jpeg" }, { ".jpg", "image/jpeg" },
        { ".json", "application/json" }, { ".mp4", "video/mp4" }, { ".pdf", "application/pdf" },
        { ".png", "image/png" }, { ".svg", "image/svg+xml" }, { ".tar", "application/x-tar" },
        { ".txt", "text/plain" }, { ".webp", "image/webp" }, { ".xml", "application/xml" },
        { ".zip", "application/zip" }, { ".parquet", "application/vnd.apache.parquet" },
    };
    for (size_t i = 0; i < countof(rows); i++) {
        slice ending = slice_of(rows[i].ending);
        if (key.len >= ending.len && slice_eq_nocase(slice_from(key, key.len - ending.len), ending))
            return slice_of(rows[i].type);
    }
    return S("binary/octet-stream");
}

static enum err cut_to_range(struct draft *draft, bool use_range)
{
    struct dir_call *call = draft->call;
    uint64_t size = (uint64_t)call->file.st_size;
    struct s3_range range = use_range ? s3_range_read(call_field(call->hook.call, S("range")))
                                      : (struct s3_range){ .kind = RANGE_NONE };
    bool partial;
    enum err e = s3_range_resolve(&range, size, &call->at, &call->end, &partial);
    if (e) {
        add(draft, "content-range",
            arena_printf(&call->keep, "bytes */%llu", (unsigned long long)size));
        return e;
    }
    if (partial)
        add(draft, "content-range",
            arena_printf(&call->keep, "bytes %llu-%llu/%llu", (unsigned long long)call->at,
                         (unsigned long long)call->end - 1, (unsigned long long)size));
    draft->status = partial ? 206 : 200;
    draft->length = call->end - call->at;
    return OK;
}

static enum err answer_object(struct draft *draft)
{
    struct dir_call *call = draft->call;
    slice query = call->hook.call->query, version = query_get(query, S("versionId")), why = S("");
    if (version.ptr && !slice_eq(version, S("null")))
        return answer_error(draft, ERR_NO_SUCH_KEY, S("This origin is a directory of "
                                                      "files, and has no versions: leave out "
                                                      "versionId"));
    if (query_get(query, S("partNumber")).ptr)
        return ERR_NOT_IMPLEMENTED;
    enum err e = dir_open_file(call, &why);
    if (e)
        return answer_error(draft, e, why);
    bool use_range = true;
    slice etag = dir_etag(&call->keep, &call->file);
    struct s3_conditions conditions = s3_conditions_read(&call->keep, call->hook.call->fields,
                                                         call->hook.call->field_count);
    e = s3_conditions_judge(&conditions, etag, call->file.st_mtim.tv_sec, &use_range);
    if (e && e != ERR_NOT_MODIFIED)
        return answer_error(draft, e, S(""));
    char date[HTTP_DATE_BYTES];
    http_date_write(call->file.st_mtim.tv_sec, date);
    add(draft, "etag", etag);
    add(draft, "last-modified", arena_copy(&call->keep, slice_of(date)));
    if (dir_is_young(&call->file))
        add(draft, "cache-control", S("no-store"));
    if (!e)
        e = cut_to_range(draft, use_range);
    if (e)
        return answer_error(draft, e, S(""));
    add(draft, "accept-ranges", S("bytes"));
    add(draft, "content-type", content_type(call->hook.call->key));
    give_head(draft);
    return OK;
}

static enum err answer_bucket(struct draft *draft)
{
    struct dir_call *call = draft->call;
    slice document = S(""), why = S("");
    int bucket;
    enum err e = dir_open_bucket(call, &bucket);
    if (e)
        return answer_error(draft, e, S(""));
    switch (call->hook.call->op) {
    case S3_HEAD_BUCKET:
        add(draft, "x-amz-bucket-region", S("us-east-1"));
        break;
    case S3_GET_BUCKET_LOCATION:
        document = S("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<LocationConstraint "
                     "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"/>");
        break;
    default:
        e = dir_list_objects(&call->keep, bucket, call->hook.call, &call->stopped, &document, &why);
    }
    close(bucket);
    if (e == ERR_CANCELED)
        return atomic_load(&call->stopped);
    return e ? answer_error(draft, e, why) : answer_document(draft, document);
}

static enum err answer_buckets(struct draft *draft)
{
    struct dir_call *call = draft->call;
    const struct dir *dir = container_of(call->hook.origin, struct dir, origin);
    slice document;
    enum err e = dir_list_buckets(&call->keep, dir->root, &document);
    return e ? answer_error(draft, e, S("")) : answer_document(draft, document);
}

enum err dir_answer(struct dir_call *call)
{
    struct draft draft = { .call = call };
    enum s3_op op = call->hook.call->op;
    switch (op) {
    case S3_GET_OBJECT: case S3_HEAD_OBJECT:
        return answer_object(&draft);
    case S3_LIST_OBJECTS: case S3_LIST_OBJECTS_V2: case S3_HEAD_BUCKET: case S3_GET_BUCKET_LOCATION:
        return answer_bucket(&draft);
    case S3_LIST_BUCKETS: case S3_HEAD_SERVICE:
        return answer_buckets(&draft);
    default:
        return s3_operation(op)->method == S3_GET || s3_operation(op)->method == S3_HEAD
                   ? ERR_NOT_IMPLEMENTED : ERR_READ_ONLY;
    }
}

/* ---- the kind ---- */

static void dir_free(struct origin *origin)
{
    struct dir *dir = container_of(origin, struct dir, origin);
    close(dir->root);
    free(dir);
}

static enum err dir_open_root(void *shared, const struct origin_options *options,
                              struct arena *keep, struct origin **ret, slice *ret_why)
{
    const char *path = options->url + strlen(SCHEME);
    char *real = realpath(path, NULL);
    int root = real ? open(real, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    int probe = root >= 0 ? dir_open(root, ".", O_RDONLY | O_DIRECTORY, true) : -1;
    if (probe < 0) {
        *ret_why = arena_printf(keep, "%s can't be opened (%s): name a folder that Penstock's user "
                                "may read, with a sub-folder for each bucket", path,
                                strerror(errno));
        if (root >= 0)
            close(root);
        free(real);
        return ERR_IO;
    }
    close(probe);
    struct dir *dir = must_alloc(sizeof(*dir));
    slice endpoint = arena_printf(keep, SCHEME "%s", real);
    dir->origin.endpoint = must_strndup(endpoint.ptr, endpoint.len);
    dir->pool = shared;
    dir->root = root;
    free(real);
    *ret = &dir->origin;
    return OK;
}

const struct origin_kind dir_kind = {
    .url = {
        .schemes = { { SCHEME, SCHEME "/FOLDER", 0 } },
        .judge = url_judge_folder, .is_folder = true, .probe = PROBE_OPEN,
    },
    .read_only = true,
    .shared_new = dir_pool_new, .shared_free = dir_pool_free, .open = dir_open_root,
    .start = dir_pool_start, .resume = dir_pool_resume, .cancel = dir_pool_cancel,
    .free = dir_free,
};
