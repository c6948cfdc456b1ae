/* dir.c - a POSIX directory that answers like an S3 server. SPDX-License-Identifier: Apache-2.0
 *
 * "dir:/path": its sub-directories are buckets, the files beneath them are objects, their relative
 * paths are keys. Read-only. What a client names is resolved by openat2 beneath the bucket: "..",
 * absolute symbolic links and links that lead out of the bucket find nothing. A key that is no file
 * name here ("a//b", "./x", "x/", a component of more than 255 bytes) is a 404 that says so.
 * Links to files are followed, also in listings; listings do not walk into linked directories.
 *
 * Nothing locks a file while it is read, so it is compared (fstat) after every block, before the
 * block is handed out: a file that changed ends in ERR_ORIGIN_CUT, never in two versions mixed. A
 * write within the same clock tick would go unseen, so a file that was touched less than 2 s ago is
 * answered with "cache-control: no-store". Everything here runs on threads of dir_pool.c. */
#include "origin/dir.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "s3/encode.h"
#include "s3/error.h"

#define YOUNG_NS (2 * (int64_t)1000000000)
#define FIELDS_MAX 8

/* ---- files ---- */

int dir_open(int at, const char *path, int flags, bool follow)
{
    struct open_how how = {
        .flags = (uint64_t)(flags | O_CLOEXEC | (flags & O_PATH ? 0 : O_NOCTTY)),
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | (follow ? 0 : RESOLVE_NO_SYMLINKS),
    };
    long fd;
    int tries = 0;
    do    /* EAGAIN: somebody renamed a directory on our way */
        fd = syscall(SYS_openat2, at, path, &how, sizeof(how));
    while (fd < 0 && (errno == EINTR || (errno == EAGAIN && ++tries < 16)));
    return (int)fd;
}

bool dir_is_file_name(slice key)
{
    if (key.len == 0 || key.len >= PATH_MAX || slice_has(key, '\0'))
        return false;
    for (slice rest = key; rest.ptr;) {
        slice part = slice_cut(&rest, '/');
        if (part.len == 0 || part.len > NAME_MAX || slice_eq(part, S(".")) ||
            slice_eq(part, S("..")))
            return false;
    }
    return true;
}

static int64_t stat_ns(struct timespec when)
{
    return (int64_t)when.tv_sec * 1000000000 + when.tv_nsec;
}

/* It must change with the file and must not look like an MD5, which clients would verify: "-1" is
 * how S3 marks a digest of digests. */
slice dir_etag(struct arena *keep, const struct stat *file)
{
    uint64_t facts[] = { (uint64_t)file->st_dev, (uint64_t)file->st_ino, (uint64_t)file->st_size,
                         (uint64_t)stat_ns(file->st_mtim), (uint64_t)stat_ns(file->st_ctim) };
    uint8_t digest[32];
    struct sha256 *sha256 = sha256_new();
    sha256_add(sha256, (slice){ (const char *)facts, sizeof(facts) });
    sha256_end(&sha256, digest);
    char hex[32];
    hex_write(digest, 16, hex);
    return arena_printf(keep, "\"%.32s-1\"", hex);
}

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           stat_ns(a->st_mtim) == stat_ns(b->st_mtim) && stat_ns(a->st_ctim) == stat_ns(b->st_ctim);
}

static enum err err_of_errno(int error, enum err missing)
{
    switch (error) {
    case ENOENT: case ENOTDIR: case ELOOP: case EXDEV: case ENAMETOOLONG: case ENXIO: case EINVAL:
        return missing;
    case EACCES: case EPERM:
        return ERR_DENIED;
    case EMFILE: case ENFILE: case ENOMEM: case EAGAIN:
        return ERR_SLOW_DOWN;
    default:
        return ERR_IO;
    }
}

static enum err open_bucket(const struct dir_call *call, int *ret_fd)
{
    const struct dir *dir = container_of(call->hook.origin, struct dir, origin);
    slice bucket = call->hook.call->bucket;
    char name[NAME_MAX + 1];
    if (!dir_is_file_name(bucket) || slice_has(bucket, '/') || bucket.len > NAME_MAX)
        return ERR_NO_SUCH_BUCKET;
    snprintf(name, sizeof(name), "%.*s", SLICE_ARG(bucket));
    int fd = dir_open(dir->root, name, O_RDONLY | O_DIRECTORY, true);
    if (fd < 0)
        return err_of_errno(errno, ERR_NO_SUCH_BUCKET);
    *ret_fd = fd;
    return OK;
}

static enum err open_file(struct dir_call *call, slice *ret_why)
{
    slice key = call->hook.call->key;
    int bucket, fd;
    enum err e = open_bucket(call, &bucket);
    if (e)
        return e;
    if (dir_is_file_name(key)) {
        fd = dir_open(bucket, arena_copy(&call->keep, key).ptr, O_RDONLY | O_NONBLOCK, true);
    } else {
        *ret_why = S("This origin is a directory of files, and the key is no file name");
        fd = -1;
        errno = ENOENT;
    }
    int error = errno;
    close(bucket);
    if (fd < 0)
        return err_of_errno(error, ERR_NO_SUCH_KEY);
    if (fstat(fd, &call->file) != 0 || !S_ISREG(call->file.st_mode)) {
        close(fd);
        *ret_why = S("The key does not name a regular file");
        return ERR_NO_SUCH_KEY;
    }
    call->fd = fd;
    return OK;
}

/* ---- replies ---- */

struct draft {              /* a reply while its fields are gathered */
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

/* Hands out the head. HEAD and 304 tell a length, but no bytes follow. */
static void give_head(struct draft *draft)
{
    struct dir_call *call = draft->call;
    enum s3_op op = call->hook.call->op;
    bool bodiless = op == S3_HEAD_OBJECT || op == S3_HEAD_BUCKET || draft->status == 304;
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
    slice resource = asked->key.len
        ? arena_printf(&call->keep, "/%.*s/%.*s", SLICE_ARG(asked->bucket), SLICE_ARG(asked->key))
        : arena_printf(&call->keep, "/%.*s", SLICE_ARG(asked->bucket));
    draft->status = s3_error_of(err)->status;
    if (err == ERR_NOT_MODIFIED)
        call->end = call->at;
    else
        body_in_memory(draft, s3_error_xml(&call->keep, err, why, resource, S("")));
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

/* "bytes=first-last", "first-" or "-suffix"; anything else is no range (RFC 9110). */
static struct s3_range read_range(slice value)
{
    struct s3_range none = { .kind = RANGE_NONE }, range = { .kind = RANGE_SPAN, .last = UINT64_MAX };
    if (!slice_starts(value, S("bytes=")))
        return none;
    slice last = slice_trim(slice_from(value, 6));
    if (!slice_has(last, '-'))
        return none;
    slice first = slice_cut(&last, '-');
    if (first.len == 0) {
        range.kind = RANGE_SUFFIX;
        return slice_u64(last, &range.suffix) ? range : none;
    }
    if (!slice_u64(first, &range.first) || (last.len && !slice_u64(last, &range.last)) ||
        range.last < range.first)
        return none;
    return range;
}

static int64_t date_of(const struct origin_call *asked, slice name)
{
    slice value = call_field(asked, name);
    return value.ptr ? http_date_read(value) : -1;
}

static enum err judge(const struct dir_call *call, slice etag, bool *ret_use_range)
{
    const struct origin_call *asked = call->hook.call;
    struct s3_conditions conditions = {
        .if_match = call_field(asked, S("if-match")),
        .if_none_match = call_field(asked, S("if-none-match")),
        .if_range = call_field(asked, S("if-range")),
        .if_modified_since = date_of(asked, S("if-modified-since")),
        .if_unmodified_since = date_of(asked, S("if-unmodified-since")),
    };
    return s3_conditions_judge(&conditions, etag, call->file.st_mtim.tv_sec, ret_use_range);
}

/* A write that leaves no trace in the times is possible within a tick of the file system's clock. */
static bool is_young(const struct stat *file)
{
    int64_t now = (int64_t)clock_ns(CLOCK_REALTIME);
    return now - MAX(stat_ns(file->st_mtim), stat_ns(file->st_ctim)) < YOUNG_NS;
}

static enum err cut_to_range(struct draft *draft, bool use_range)
{
    struct dir_call *call = draft->call;
    uint64_t size = (uint64_t)call->file.st_size;
    struct s3_range range = use_range ? read_range(call_field(call->hook.call, S("range")))
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

/* The value of a query parameter as sent; ptr NULL if it is absent. */
static slice param(slice query, slice name)
{
    while (query.len) {
        slice value = slice_cut(&query, '&'), key = slice_cut(&value, '=');
        if (slice_eq(key, name))
            return value.ptr ? value : S("");
    }
    return (slice){ NULL, 0 };
}

static enum err answer_object(struct draft *draft)
{
    struct dir_call *call = draft->call;
    slice version = param(call->hook.call->query, S("versionId")), why = S("");
    if (version.ptr && !slice_eq(version, S("null")))
        return answer_error(draft, ERR_NO_SUCH_KEY, S("This origin keeps no versions"));
    if (param(call->hook.call->query, S("partNumber")).ptr)
        return ERR_NOT_IMPLEMENTED;
    enum err e = open_file(call, &why);
    if (e)
        return answer_error(draft, e, why);
    bool use_range = true;
    slice etag = dir_etag(&call->keep, &call->file);
    e = judge(call, etag, &use_range);
    if (e && e != ERR_NOT_MODIFIED)
        return answer_error(draft, e, S(""));
    char date[HTTP_DATE_BYTES];
    http_date_write(call->file.st_mtim.tv_sec, date);
    add(draft, "etag", etag);
    add(draft, "last-modified", arena_copy(&call->keep, slice_of(date)));
    if (is_young(&call->file))
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
    enum err e = open_bucket(call, &bucket);
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
    switch (call->hook.call->op) {
    case S3_GET_OBJECT: case S3_HEAD_OBJECT:
        return answer_object(&draft);
    case S3_LIST_OBJECTS: case S3_LIST_OBJECTS_V2: case S3_HEAD_BUCKET: case S3_GET_BUCKET_LOCATION:
        return answer_bucket(&draft);
    case S3_LIST_BUCKETS:
        return answer_buckets(&draft);
    case S3_LIST_UPLOADS: case S3_LIST_PARTS:
        return ERR_NOT_IMPLEMENTED;
    default:
        return ERR_READ_ONLY;
    }
}

enum err dir_read(struct dir_call *call, char *buffer, size_t bytes, slice *ret)
{
    bytes = MIN(bytes, call->end - call->at);
    if (call->fd < 0) {
        *ret = slice_sub(call->memory, call->at, bytes);
        return OK;
    }
    ssize_t got;
    do
        got = pread(call->fd, buffer, bytes, (off_t)call->at);
    while (got < 0 && errno == EINTR);
    struct stat now;
    if (got <= 0 || fstat(call->fd, &now) != 0 || !same_file(&now, &call->file))
        return ERR_ORIGIN_CUT;
    *ret = (slice){ buffer, (size_t)got };
    return OK;
}

void dir_call_free(struct dir_call *call)
{
    if (call->fd >= 0)
        close(call->fd);
    arena_free(&call->keep);
    free(call);
}

/* ---- the kind ---- */

static void dir_start(struct origin *origin, struct origin_call *asked)
{
    struct dir *dir = container_of(origin, struct dir, origin);
    struct dir_call *call = must_alloc(sizeof(*call));
    call->fd = -1;
    hook_on(&call->hook, origin, asked);
    dir_pool_start(dir->pool, call);
}

static void dir_resume(struct origin_hook *hook)
{
    struct dir *dir = container_of(hook->origin, struct dir, origin);
    dir_pool_resume(dir->pool, container_of(hook, struct dir_call, hook));
}

static void dir_cancel(struct origin_hook *hook)
{
    struct dir *dir = container_of(hook->origin, struct dir, origin);
    dir_pool_cancel(dir->pool, container_of(hook, struct dir_call, hook));
}

static void dir_free(struct origin *origin)
{
    struct dir *dir = container_of(origin, struct dir, origin);
    close(dir->root);
    free(dir);
}

static const struct origin_kind dir_kind = {
    .read_only = true, .start = dir_start, .resume = dir_resume, .cancel = dir_cancel,
    .free = dir_free,
};

enum err dir_add(struct dir_pool *pool, const struct origin_options *options, struct arena *keep,
                 struct origin **ret, slice *ret_why)
{
    const char *path = options->url + strlen("dir:");
    char *real = realpath(path, NULL);
    int root = real ? open(real, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    int probe = root >= 0 ? dir_open(root, ".", O_RDONLY | O_DIRECTORY, true) : -1;
    if (probe < 0) {
        *ret_why = arena_printf(keep, "%s: %s; the folders of that folder are the buckets", path,
                                errno == ENOSYS ? "this kernel has no openat2 (Linux 5.6 or later)"
                                                : strerror(errno));
        if (root >= 0)
            close(root);
        free(real);
        return ERR_IO;
    }
    close(probe);
    struct dir *dir = must_alloc(sizeof(*dir));
    dir->origin.kind = &dir_kind;
    slice identity = arena_printf(keep, "dir:%s", real);
    dir->origin.identity = must_strndup(identity.ptr, identity.len);
    dir->pool = pool;
    dir->root = root;
    free(real);
    *ret = &dir->origin;
    return OK;
}
