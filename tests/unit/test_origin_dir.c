/* test_origin_dir.c - a directory that answers like an S3 server.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The tests run twice: the second time, the kernel refuses openat2 (dir_open.c). */
#include "origin_unit.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "refuse_unit.h"

static char tree[32], outside[32];
static struct origins *all;
static struct origin *origin;

static const char *path_of(const char *fmt, ...) PRINTF_LIKE(1, 2);
static const char *path_of(const char *fmt, ...)
{
    static char path[8192];
    int len = snprintf(path, sizeof(path), "%s/", tree);
    va_list args;
    va_start(args, fmt);
    vsnprintf(path + len, sizeof(path) - (size_t)len, fmt, args);
    va_end(args);
    return path;
}

static void age(const char *path)
{
    struct timespec times[2] = { { .tv_sec = 1000000000 }, { .tv_sec = 1000000000 } };
    ok(utimensat(AT_FDCWD, path, times, 0) == 0);
}

static bool write_file(const char *path, size_t bytes)
{
    FILE *file = fopen(path, "w");
    if (!file)
        return false;
    for (size_t i = 0; i < bytes; i++)
        fputc((int)((i * 2654435761u) >> 13 & 0xff), file);
    fclose(file);
    age(path);
    return true;
}

static bool right_bytes(slice got, size_t first)
{
    for (size_t i = 0; i < got.len; i++)
        if ((unsigned char)got.ptr[i] != ((first + i) * 2654435761u >> 13 & 0xff))
            return false;
    return true;
}

static int remove_one(const char *path, const struct stat *file, int type, struct FTW *ftw)
{
    return remove(path);
}

static int setup(void **state)
{
    struct arena keep = { 0 };
    slice why;
    strcpy(tree, "/tmp/penstock-dir-XXXXXX");
    strcpy(outside, "/tmp/penstock-out-XXXXXX");
    ok(mkdtemp(tree) && mkdtemp(outside));
    ok(mkdir(path_of("bucket"), 0700) == 0 && mkdir(path_of("bucket/sub"), 0700) == 0);
    ok(write_file(path_of("bucket/small.txt"), 10) && write_file(path_of("bucket/empty"), 0));
    ok(write_file(path_of("bucket/sub/large"), 3 * MIB + 17));
    all = origins_new(1);
    struct origin_options options = {
        .name = "d", .url = arena_printf(&keep, "dir:%s/", tree).ptr,
    };
    ok(origins_add(all, &options, &keep, &origin, &why) == OK);
    slice endpoint = arena_printf(&keep, "dir:%s", tree);
    same(origin_endpoint(origin), endpoint);
    ok(origin_is_read_only(origin));
    arena_free(&keep);
    return 0;
}

static int teardown(void **state)
{
    origins_free(&all);
    ok(all == NULL);
    nftw(tree, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    nftw(outside, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return 0;
}

static struct watched *ask_with(enum s3_op op, slice key, slice query, const char *name,
                                const char *value)
{
    struct watched *watched = watch_new(op, S("bucket"), key, query);
    struct http_field field = { slice_of(name), slice_of(value) };
    watched->call.fields = &field;
    watched->call.field_count = name ? 1 : 0;
    origin_start(origin, &watched->call);
    ok(watch_wait(watched, FOR_DONE));
    return watched;
}

static struct watched *ask(enum s3_op op, slice key, slice query)
{
    return ask_with(op, key, query, NULL, NULL);
}

static bool has(slice text, const char *part)
{
    return text.len && memmem(text.ptr, text.len, part, strlen(part)) != NULL;
}

TEST(an_object_comes_whole_with_its_head)
{
    struct watched *watched = ask(S3_GET_OBJECT, S("sub/large"), S(""));
    ok(watched->err == OK && watched->status == 200 && watched->length == 3 * MIB + 17);
    ok(watched->body.len == 3 * MIB + 17 && right_bytes(text_slice(&watched->body), 0));
    same(watch_get(watched, S("content-length")), S("3145745"));
    same(watch_get(watched, S("last-modified")), S("Sun, 09 Sep 2001 01:46:40 GMT"));
    same(watch_get(watched, S("accept-ranges")), S("bytes"));
    same(watch_get(watched, S("content-type")), S("binary/octet-stream"));
    slice etag = watch_get(watched, S("etag"));
    ok(etag.len == 36 && etag.ptr[0] == '"' && slice_ends(etag, S("-1\"")));
    struct watched *head = ask(S3_HEAD_OBJECT, S("sub/large"), S(""));
    ok(head->err == OK && head->status == 200 && head->bodies == 0 && head->length == 3 * MIB + 17);
    same(watch_get(head, S("etag")), etag);
    watch_free(&head);
    watch_free(&watched);
    watched = ask(S3_GET_OBJECT, S("empty"), S(""));
    ok(watched->err == OK && watched->status == 200 && watched->length == 0 && !watched->bodies);
    watch_free(&watched);
}

TEST(ranges_are_cut_as_s3_cuts_them)
{
    static const struct {
        const char *range;
        int status;
        uint64_t first, bytes;
        const char *content_range;
    } rows[] = {
        { "bytes=0-0", 206, 0, 1, "bytes 0-0/3145745" },
        { "bytes=262143-524289", 206, 262143, 262147, "bytes 262143-524289/3145745" },
        { "bytes=3145740-", 206, 3145740, 5, "bytes 3145740-3145744/3145745" },
        { "bytes=3145740-9999999", 206, 3145740, 5, "bytes 3145740-3145744/3145745" },
        { "bytes=-7", 206, 3145738, 7, "bytes 3145738-3145744/3145745" },
        { "bytes=5-4", 200, 0, 3145745, NULL },
        { "lines=1-2", 200, 0, 3145745, NULL },
        { "bytes=3145745-", 416, 0, 0, "bytes */3145745" },
    };
    for (size_t i = 0; i < countof(rows); i++) {
        struct watched *watched = ask_with(S3_GET_OBJECT, S("sub/large"), S(""), "Range",
                                           rows[i].range);
        ok(watched->err == OK && watched->status == rows[i].status);
        same(watch_get(watched, S("content-range")), slice_of(rows[i].content_range));
        if (rows[i].status == 416)
            ok(has(text_slice(&watched->body), "<Code>InvalidRange</Code>"));
        else
            ok(watched->body.len == rows[i].bytes && watched->length == rows[i].bytes &&
               right_bytes(text_slice(&watched->body), rows[i].first));
        watch_free(&watched);
    }
}

TEST(conditions_are_judged)
{
    struct watched *head = ask(S3_HEAD_OBJECT, S("small.txt"), S(""));
    char etag[64];
    snprintf(etag, sizeof(etag), "%.*s", SLICE_ARG(watch_get(head, S("etag"))));
    watch_free(&head);
    struct watched *watched = ask_with(S3_GET_OBJECT, S("small.txt"), S(""), "if-match", etag);
    ok(watched->status == 200 && watched->body.len == 10);
    watch_free(&watched);
    watched = ask_with(S3_GET_OBJECT, S("small.txt"), S(""), "if-match", "\"other\"");
    ok(watched->err == OK && watched->status == 412);
    ok(has(text_slice(&watched->body), "<Code>PreconditionFailed</Code>"));
    watch_free(&watched);
    watched = ask_with(S3_GET_OBJECT, S("small.txt"), S(""), "if-none-match", etag);
    ok(watched->err == OK && watched->status == 304 && !watched->bodies && !watched->has_length);
    same(watch_get(watched, S("etag")), slice_of(etag));
    watch_free(&watched);
}

TEST(a_file_that_was_just_written_is_not_for_caches)
{
    ok(write_file(path_of("bucket/young"), 3));    /* old by mtime, but its ctime is now */
    struct watched *watched = ask(S3_GET_OBJECT, S("young"), S(""));
    same(watch_get(watched, S("cache-control")), S("no-store"));
    watch_free(&watched);
    sleep(2);
    usleep(100000);
    watched = ask(S3_GET_OBJECT, S("young"), S(""));
    ok(watch_get(watched, S("cache-control")).ptr == NULL);
    watch_free(&watched);
}

TEST(a_key_that_is_no_file_name_is_not_found)
{
    char long_name[300];
    memset(long_name, 'x', sizeof(long_name));
    const slice keys[] = {
        S("sub//large"), S("./small.txt"), S("sub/../small.txt"), S("../bucket/small.txt"), S(".."),
        S("."), S("sub/"), S("small.txt/"), S("/small.txt"), S("sub/."), S("small\0.txt"),
        { long_name, 256 } };
    for (size_t i = 0; i < countof(keys); i++) {
        struct watched *watched = ask(S3_GET_OBJECT, keys[i], S(""));
        ok(watched->err == OK && watched->status == 404);
        ok(has(text_slice(&watched->body), "<Code>NoSuchKey</Code>"));
        ok(has(text_slice(&watched->body), "the key is not a valid file name"));
        watch_free(&watched);
    }
    struct watched *watched = ask(S3_GET_OBJECT, S("sub"), S(""));
    ok(watched->status == 404 && has(text_slice(&watched->body), "regular file"));
    watch_free(&watched);
    watched = ask(S3_HEAD_OBJECT, S("none"), S(""));
    ok(watched->err == OK && watched->status == 404 && !watched->bodies);
    watch_free(&watched);
    watched = watch_new(S3_GET_OBJECT, S("nobucket"), S("x"), S(""));
    origin_start(origin, &watched->call);
    ok(watch_wait(watched, FOR_DONE) && watched->status == 404);
    ok(has(text_slice(&watched->body), "<Code>NoSuchBucket</Code>"));
    watch_free(&watched);
}

TEST(nothing_outside_the_bucket_can_be_read)
{
    char secret[256], link_to[300];
    snprintf(secret, sizeof(secret), "%s/secret", outside);
    ok(write_file(secret, 5));
    ok(mkdir(path_of("other"), 0700) == 0 && write_file(path_of("other/x"), 5));
    ok(symlink(secret, path_of("bucket/absolute")) == 0);
    snprintf(link_to, sizeof(link_to), "../../%s/secret", strrchr(outside, '/') + 1);
    ok(symlink(link_to, path_of("bucket/relative")) == 0);
    ok(symlink(outside, path_of("bucket/folder")) == 0);
    ok(symlink("../other/x", path_of("bucket/neighbour")) == 0);
    ok(symlink("/proc/self/exe", path_of("bucket/magic")) == 0);
    ok(symlink("round", path_of("bucket/round")) == 0);
    ok(symlink("../small.txt", path_of("bucket/sub/fine")) == 0);
    ok(symlink(outside, path_of("linked")) == 0);
    static const char *const keys[] = { "absolute", "relative", "folder/secret", "neighbour",
                                        "magic", "round" };
    for (size_t i = 0; i < countof(keys); i++) {
        struct watched *watched = ask(S3_GET_OBJECT, slice_of(keys[i]), S(""));
        ok(watched->err == OK && watched->status == 404);
        watch_free(&watched);
    }
    struct watched *watched = ask(S3_GET_OBJECT, S("sub/fine"), S(""));
    ok(watched->status == 200 && watched->body.len == 10);
    watch_free(&watched);
    watched = ask(S3_LIST_OBJECTS_V2, S(""), S("list-type=2"));
    ok(has(text_slice(&watched->body), "<Key>sub/fine</Key>"));
    for (size_t i = 0; i < countof(keys); i++)
        ok(!has(text_slice(&watched->body), keys[i]));
    watch_free(&watched);
    watched = watch_new(S3_GET_OBJECT, S("linked"), S("secret"), S(""));
    origin_start(origin, &watched->call);
    ok(watch_wait(watched, FOR_DONE) && watched->status == 404);
    watch_free(&watched);
    watched = watch_new(S3_GET_OBJECT, S(".."), S("bucket/small.txt"), S(""));
    origin_start(origin, &watched->call);
    ok(watch_wait(watched, FOR_DONE) && watched->status == 404);
    watch_free(&watched);
}

TEST(there_are_no_versions_and_no_parts)
{
    struct watched *watched = ask(S3_GET_OBJECT, S("small.txt"), S("versionId=null"));
    ok(watched->err == OK && watched->status == 200 && watched->body.len == 10);
    watch_free(&watched);
    watched = ask(S3_GET_OBJECT, S("small.txt"), S("x-id=GetObject&versionId=abc"));
    ok(watched->err == OK && watched->status == 404);
    ok(has(text_slice(&watched->body), "has no versions"));
    watch_free(&watched);
    watched = ask(S3_HEAD_OBJECT, S("small.txt"), S("partNumber=1"));
    ok(watched->err == ERR_NOT_IMPLEMENTED && watched->heads == 0);
    watch_free(&watched);
}

static void change_file(struct watched *watched)
{
    if (watched->bodies != 2)
        return;
    int fd = open(path_of("bucket/changing"), O_WRONLY);
    ok(fd >= 0 && pwrite(fd, "other", 5, 2 * MIB) == 5);
    close(fd);
}

static void replace_file(struct watched *watched)
{
    if (watched->bodies != 2)
        return;
    ok(write_file(path_of("new"), 5));
    ok(rename(path_of("new"), path_of("bucket/changing")) == 0);
}

TEST(a_file_that_changes_while_it_is_read_ends_the_call)
{
    ok(write_file(path_of("bucket/changing"), 3 * MIB));
    struct watched *watched = watch_new(S3_GET_OBJECT, S("bucket"), S("changing"), S(""));
    watched->on_body = change_file;
    origin_start(origin, &watched->call);
    ok(watch_wait(watched, FOR_DONE));
    ok(watched->err == ERR_ORIGIN_CUT && watched->body.len == 512 * KIB);
    watch_free(&watched);
    ok(write_file(path_of("bucket/changing"), 3 * MIB));
    watched = watch_new(S3_GET_OBJECT, S("bucket"), S("changing"), S(""));
    watched->on_body = replace_file;    /* the open file loses its name, which changes its ctime */
    origin_start(origin, &watched->call);
    ok(watch_wait(watched, FOR_DONE));
    ok(watched->err == ERR_ORIGIN_CUT || watched->body.len == 3 * MIB);
    ok(right_bytes(text_slice(&watched->body), 0));
    watch_free(&watched);
    unlink(path_of("bucket/changing"));
}

TEST(pauses_lose_and_repeat_nothing)
{
    for (int at = -1; at <= 13; at++)
        for (int inside = 0; inside < 2; inside++) {
            struct watched *watched = get_with_pauses(origin, S("sub/large"), at, inside);
            ok(watched->body.len == 3 * MIB + 17 && right_bytes(text_slice(&watched->body), 0));
            watch_free(&watched);
        }
}

static enum err unwanted(struct origin_call *call, bool again)
{
    check(!again);
    return ERR_CANCELED;
}

TEST(what_nobody_wants_any_more_is_not_looked_for)
{
    struct watched *watched = watch_new(S3_GET_OBJECT, S("bucket"), S("small.txt"), S(""));
    watched->call.may_send = unwanted;
    origin_start(origin, &watched->call);
    ok(watch_wait(watched, FOR_DONE) && watched->err == ERR_CANCELED && watched->heads == 0);
    watch_free(&watched);
}

TEST(a_cancel_at_any_step_ends_the_call_once)
{
    for (int at = 0; at <= 14; at++) {
        struct watched *watched = watch_new(S3_GET_OBJECT, S("bucket"), S("sub/large"), S(""));
        watched->cancel_at = at;
        origin_start(origin, &watched->call);
        if (at == 0)
            origin_cancel(&watched->call);
        ok(watch_wait(watched, FOR_DONE));
        ok(watched->err == ERR_CANCELED || (at == 0 && watched->err == OK) ||
           (at > 13 && watched->err == OK));
        ok(at == 0 || watched->bodies < at || at > 13);
        origin_cancel(&watched->call);    /* too late: nothing happens */
        origin_resume(&watched->call);
        watch_free(&watched);
    }
    struct watched *watched = watch_new(S3_GET_OBJECT, S("bucket"), S("sub/large"), S(""));
    watched->pause_at = 3;
    origin_start(origin, &watched->call);
    ok(watch_wait(watched, FOR_PAUSE));
    origin_cancel(&watched->call);
    ok(watch_wait(watched, FOR_DONE) && watched->err == ERR_CANCELED && watched->bodies == 3);
    watch_free(&watched);
}

TEST(a_parked_call_holds_no_thread)
{
    struct watched *parked[64];
    for (size_t i = 0; i < countof(parked); i++) {
        parked[i] = watch_new(S3_GET_OBJECT, S("bucket"), S("small.txt"), S(""));
        parked[i]->pause_at = 1;
        origin_start(origin, &parked[i]->call);
    }
    for (size_t i = 0; i < countof(parked); i++)
        ok(watch_wait(parked[i], FOR_PAUSE));
    struct watched *watched = ask(S3_GET_OBJECT, S("small.txt"), S(""));
    ok(watched->err == OK);
    watch_free(&watched);
    for (size_t i = 0; i < countof(parked); i++) {
        origin_resume(&parked[i]->call);
        ok(watch_wait(parked[i], FOR_DONE) && parked[i]->err == OK && parked[i]->body.len == 10);
        watch_free(&parked[i]);
    }
}

TEST(whatever_writes_is_refused)
{
    static const enum s3_op ops[] = { S3_PUT_OBJECT, S3_DELETE_OBJECT, S3_DELETE_OBJECTS,
                                      S3_CREATE_UPLOAD, S3_UPLOAD_PART, S3_COMPLETE_UPLOAD };
    for (size_t i = 0; i < countof(ops); i++) {
        struct watched *watched = ask(ops[i], S("small.txt"), S(""));
        ok(watched->err == ERR_READ_ONLY && watched->heads == 0);
        watch_free(&watched);
    }
}

TEST(buckets_are_told_and_asked_for)
{
    struct watched *watched = ask(S3_LIST_BUCKETS, S(""), S(""));
    ok(watched->status == 200 && has(text_slice(&watched->body), "<Name>bucket</Name>"));
    watch_free(&watched);
    watched = ask(S3_HEAD_BUCKET, S(""), S(""));
    ok(watched->err == OK && watched->status == 200 && !watched->bodies);
    watch_free(&watched);
    watched = ask(S3_GET_BUCKET_LOCATION, S(""), S("location"));
    ok(watched->status == 200 && has(text_slice(&watched->body), "<LocationConstraint"));
    watch_free(&watched);
    watched = ask(S3_LIST_OBJECTS_V2, S(""), S("list-type=2&max-keys=x"));
    ok(watched->status == 400 && has(text_slice(&watched->body), "<Code>InvalidArgument</Code>") &&
       has(text_slice(&watched->body), "max-keys must be"));
    watch_free(&watched);
    watched = ask(S3_LIST_OBJECTS_V2, S(""), S("list-type=2&continuation-token=nonsense"));
    ok(watched->status == 400 && has(text_slice(&watched->body), "continuation-token is not one"));
    watch_free(&watched);
    watched = ask(S3_LIST_OBJECTS_V2, S(""), S("list-type=2&prefix=100%"));
    ok(watched->status == 400 && has(text_slice(&watched->body), "two hex digits"));
    watch_free(&watched);
    watched = ask(S3_LIST_OBJECTS_V2, S(""),
                  S("list-type=2&prefix=su&encoding-type=url&max-keys=0"));
    ok(watched->status == 200 && has(text_slice(&watched->body), "<IsTruncated>false"));
    watch_free(&watched);
}

TEST(a_failure_of_the_folder_says_why)
{
    struct arena keep = { 0 };
    struct origin_health health;
    struct rlimit limit, none = { 0 };
    ok(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    none.rlim_max = limit.rlim_max;
    ok(setrlimit(RLIMIT_NOFILE, &none) == 0);
    struct watched *watched = ask(S3_LIST_BUCKETS, S(""), S(""));
    ok(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    ok(watched->err == OK && watched->status == 500);
    origin_health(origin, &keep, &health);
    same(health.why, S("the origin answered 500: Too many open files: check the file system of "
                       "the origin's folder"));
    watch_free(&watched);
    arena_free(&keep);
}

static atomic_int items_left = -1;    /* until readdir fails; -1: it does not fail */

/* Takes the place of the C library's function. */
struct dirent *readdir(DIR *dir)
{
    static struct dirent *(*_Atomic next)(DIR *dir);
    if (atomic_load(&items_left) == 0) {
        errno = EIO;
        return NULL;
    }
    if (atomic_load(&items_left) > 0)
        atomic_fetch_sub(&items_left, 1);
    if (!atomic_load(&next))
        atomic_store(&next, (struct dirent *(*)(DIR *))dlsym(RTLD_NEXT, "readdir"));
    return atomic_load(&next)(dir);
}

/* Buckets and objects would seem to be gone. */
TEST(a_folder_that_can_t_be_listed_to_its_end_is_no_shorter_list)
{
    static const enum s3_op ops[] = { S3_LIST_BUCKETS, S3_LIST_OBJECTS_V2 };
    for (size_t i = 0; i < countof(ops); i++)
        for (int items = 0; items < 3; items++) {
            atomic_store(&items_left, items);
            struct watched *watched = ask(ops[i], S(""), S(""));
            atomic_store(&items_left, -1);
            ok(watched->err == OK && watched->status == 500);
            watch_free(&watched);
        }
}

/* ---- listings against a model that knows every key ---- */

#define KEYS 400
static char keys[KEYS][256];
static size_t key_count;

static int key_order(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void make_tree(unsigned *seed)
{
    static const char *const parts[] = { "a", "b", "a-", "a.b", "A", "\xc3\xa9", "zz", "a0", "ab" };
    nftw(path_of("listed"), remove_one, 16, FTW_DEPTH | FTW_PHYS);
    ok(mkdir(path_of("listed"), 0700) == 0);
    key_count = 0;
    for (int i = 0; i < 150; i++) {
        char key[256] = "";
        int depth = rand_r(seed) % 4;
        for (int k = 0; k <= depth; k++) {
            if (k) {
                mkdir(path_of("listed/%s", key), 0700);    /* sometimes it stays empty */
                strcat(key, "/");
            }
            strcat(key, parts[rand_r(seed) % countof(parts)]);
        }
        struct stat file;
        if (rand_r(seed) % 8 == 0 || stat(path_of("listed/%s", key), &file) == 0)
            continue;
        if (write_file(path_of("listed/%s", key), (size_t)rand_r(seed) % 5))
            strcpy(keys[key_count++], key);
    }
    qsort(keys, key_count, sizeof(keys[0]), key_order);
}

struct told {
    char items[KEYS][256];      /* keys, then prefixes */
    size_t count;
};

static bool rolled(const char *key, const char *prefix, const char *delimiter, char *ret)
{
    const char *found = *delimiter ? strstr(key + strlen(prefix), delimiter) : NULL;
    strcpy(ret, key);
    if (found)
        ret[(size_t)(found - key) + strlen(delimiter)] = '\0';
    return found != NULL;
}

static void model(const char *prefix, const char *delimiter, const char *after, struct told *ret)
{
    char item[256], last[256] = "";
    ret->count = 0;
    for (int want_rolled = 0; want_rolled < 2; want_rolled++)
        for (size_t i = 0; i < key_count; i++) {
            if (strncmp(keys[i], prefix, strlen(prefix)) || (*after && strcmp(keys[i], after) <= 0))
                continue;
            bool is_rolled = rolled(keys[i], prefix, delimiter, item);
            if (is_rolled != want_rolled ||
                (is_rolled && (!strcmp(item, last) || !strcmp(item, after))))
                continue;
            strcpy(ret->items[ret->count++], item);
            strcpy(last, item);
        }
}

static void collect(slice document, const char *before, struct told *ret)
{
    const char *at = document.ptr, *end = at + document.len;
    while ((at = memmem(at, (size_t)(end - at), before, strlen(before)))) {
        at += strlen(before);
        slice rest = { at, (size_t)(end - at) }, item = slice_cut(&rest, '<');
        snprintf(ret->items[ret->count++], 256, "%.*s", SLICE_ARG(item));
    }
}

static slice element_of(slice document, const char *name)
{
    const char *at = memmem(document.ptr, document.len, name, strlen(name));
    if (!at)
        return (slice){ NULL, 0 };
    slice rest = slice_from(document, (size_t)(at - document.ptr) + strlen(name));
    return slice_cut(&rest, '<');
}

/* Pages through a listing; true if it told what the model tells. */
static bool lists_as_model(bool v2, const char *prefix, const char *delimiter, const char *after,
                           unsigned max)
{
    static struct told want, got, prefixes;
    char query[2048], next[1024] = "";
    model(prefix, delimiter, after, &want);
    got.count = prefixes.count = 0;
    snprintf(next, sizeof(next), "%s=%s", v2 ? "start-after" : "marker", after);
    for (int page = 0; page < 1000; page++) {
        snprintf(query, sizeof(query), "%sprefix=%s&delimiter=%s&max-keys=%u&%s",
                 v2 ? "list-type=2&" : "", prefix, delimiter, max, next);
        struct watched *watched = watch_new(v2 ? S3_LIST_OBJECTS_V2 : S3_LIST_OBJECTS, S("listed"),
                                            S(""), slice_of(query));
        origin_start(origin, &watched->call);
        ok(watch_wait(watched, FOR_DONE) && watched->err == OK && watched->status == 200);
        slice document = text_slice(&watched->body);
        size_t before = got.count + prefixes.count;
        collect(document, "<Contents><Key>", &got);
        collect(document, "<CommonPrefixes><Prefix>", &prefixes);
        bool more = has(document, "<IsTruncated>true<");
        size_t count = got.count + prefixes.count - before;
        ok(count <= max && (!more || count == max));
        slice token = element_of(document, v2 ? "<NextContinuationToken>" : "<NextMarker>");
        if (more && token.ptr)
            snprintf(next, sizeof(next), "%s=%.*s", v2 ? "continuation-token" : "marker",
                     SLICE_ARG(token));
        else if (more)
            snprintf(next, sizeof(next), "marker=%s", got.items[got.count - 1]);
        watch_free(&watched);
        if (!more)
            break;
    }
    bool equal = want.count == got.count + prefixes.count;
    for (size_t i = 0; i < want.count && equal; i++)
        equal = !strcmp(want.items[i],
                        i < got.count ? got.items[i] : prefixes.items[i - got.count]);
    if (!equal)
        print_message("prefix=%s delimiter=%s after=%s max=%u: %zu wanted, %zu + %zu told\n",
                      prefix, delimiter, after, max, want.count, got.count, prefixes.count);
    return equal;
}

TEST(listings_tell_what_a_model_of_the_tree_tells)
{
    static const char *const prefixes[] = {
        "", "a", "a/", "a-", "a.b/a", "zz/", "none/", "a//", "../", "\xc3\xa9/", "b/a",
    };
    static const char *const delimiters[] = { "", "/", "-", ".b", "b", "/a" };
    unsigned seed = 7;
    for (int round = 0; round < 12; round++) {
        make_tree(&seed);
        ok(key_count > 30);
        ok(lists_as_model(true, "", "", "", 1000));
        for (int i = 0; i < 150; i++) {
            const char *after = rand_r(&seed) % 2 ? "" : keys[(unsigned)rand_r(&seed) % key_count];
            unsigned max = rand_r(&seed) % 3 ? 1 + (unsigned)rand_r(&seed) % 20 : 1000;
            ok(lists_as_model(rand_r(&seed) % 2,
                              prefixes[(unsigned)rand_r(&seed) % countof(prefixes)],
                              delimiters[(unsigned)rand_r(&seed) % countof(delimiters)], after,
                              max));
        }
    }
}

TEST(stopping_ends_even_what_is_parked)
{
    struct arena keep = { 0 };
    struct origins *others = origins_new(1);
    struct origin_options options = { .name = "d", .url = arena_printf(&keep, "dir:%s", tree).ptr };
    struct origin *other;
    slice why;
    ok(origins_add(others, &options, &keep, &other, &why) == OK);
    struct watched *watched = watch_new(S3_GET_OBJECT, S("bucket"), S("sub/large"), S(""));
    watched->pause_at = 2;
    origin_start(other, &watched->call);
    ok(watch_wait(watched, FOR_PAUSE));
    origins_free(&others);
    ok(watched->dones == 1 && watched->err == ERR_STOPPING);
    watch_free(&watched);
    options.url = "dir:/does/not/exist";
    others = origins_new(1);
    ok(origins_add(others, &options, &keep, &other, &why) == ERR_IO && has(why, "No such file"));
    options.url = "ftp://host";
    ok(origins_add(others, &options, &keep, &other, &why) == ERR_BAD_ARGUMENT);
    ok(has(why, "ftp://host: the URL of an origin must be http://HOST") && has(why, "dir:/FOLDER"));
    origins_free(&others);
    arena_free(&keep);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_object_comes_whole_with_its_head),
        cmocka_unit_test(ranges_are_cut_as_s3_cuts_them),
        cmocka_unit_test(conditions_are_judged),
        cmocka_unit_test(a_file_that_was_just_written_is_not_for_caches),
        cmocka_unit_test(a_key_that_is_no_file_name_is_not_found),
        cmocka_unit_test(nothing_outside_the_bucket_can_be_read),
        cmocka_unit_test(there_are_no_versions_and_no_parts),
        cmocka_unit_test(a_file_that_changes_while_it_is_read_ends_the_call),
        cmocka_unit_test(pauses_lose_and_repeat_nothing),
        cmocka_unit_test(what_nobody_wants_any_more_is_not_looked_for),
        cmocka_unit_test(a_cancel_at_any_step_ends_the_call_once),
        cmocka_unit_test(a_parked_call_holds_no_thread),
        cmocka_unit_test(whatever_writes_is_refused),
        cmocka_unit_test(buckets_are_told_and_asked_for),
        cmocka_unit_test(a_failure_of_the_folder_says_why),
        cmocka_unit_test(a_folder_that_can_t_be_listed_to_its_end_is_no_shorter_list),
        cmocka_unit_test(listings_tell_what_a_model_of_the_tree_tells),
        cmocka_unit_test(stopping_ends_even_what_is_parked),
    };
    int failed = cmocka_run_group_tests_name("with openat2", tests, setup, teardown);
    if (!refuse_call(SYS_openat2, ENOSYS))
        return failed ? failed : 77;
    check(syscall(SYS_openat2, -1, "", NULL, 0) < 0 && errno == ENOSYS);
    return failed + cmocka_run_group_tests_name("without openat2", tests, setup, teardown);
}
