/* test_origin_versitygw.c - our signatures hold for a server that is not ours.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Starts versitygw over a temporary folder; skipped (77) where it is not installed. */
#include "origin_unit.h"

#include <arpa/inet.h>
#include <ftw.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "s3/xml.h"

static char folder[] = "/tmp/penstock-versity-XXXXXX";
static char binary[4096], port[16];
static pid_t server = -1;
static struct origins *all;
static struct origin *origin;

static bool find_binary(void)
{
    char pattern[4096];
    glob_t found;
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    snprintf(pattern, sizeof(pattern), "%s%s/penstock-tools/versitygw-*/bin/versitygw",
             cache ? cache : home ? home : "", cache ? "" : "/.cache");
    bool any = glob(pattern, 0, NULL, &found) == 0;
    if (any)
        snprintf(binary, sizeof(binary), "%s", found.gl_pathv[found.gl_pathc - 1]);
    globfree(&found);
    return any;
}

static bool connects(struct sockaddr_in *address)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    bool there = connect(fd, (struct sockaddr *)address, sizeof(*address)) == 0;
    close(fd);
    return there;
}

static int setup(void **state)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof(address);
    struct arena keep = { 0 };
    slice why;
    ok(mkdtemp(folder) != NULL);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    ok(bind(fd, (struct sockaddr *)&address, len) == 0);
    ok(getsockname(fd, (struct sockaddr *)&address, &len) == 0);
    close(fd);
    snprintf(port, sizeof(port), "127.0.0.1:%d", ntohs(address.sin_port));
    server = fork();
    if (server == 0) {
        freopen("/dev/null", "w", stdout);
        execl(binary, binary, "--access", "AKID", "--secret", "SECRET", "--port", port, "posix",
              folder, (char *)NULL);
        _exit(127);
    }
    for (int i = 0; i < 200 && !connects(&address); i++)
        usleep(50000);
    all = origins_new(2);
    struct origin_options options = {
        .name = "versity", .url = arena_copy(&keep, arena_printf(&keep, "http://%s", port)).ptr,
        .access_key = "AKID", .secret_key = "SECRET", .region = "us-east-1",
        .connections_max = 16, .connect_ms = 2000, .progress_ms = 5000, .tries_max = 2 };
    ok(origins_add(all, &options, &keep, &origin, &why) == OK);
    arena_free(&keep);
    return 0;
}

static int remove_one(const char *path, const struct stat *file, int type, struct FTW *ftw)
{
    return remove(path);
}

static int teardown(void **state)
{
    origins_free(&all);
    kill(server, SIGTERM);
    waitpid(server, NULL, 0);
    nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return 0;
}

static struct watched *ask(enum s3_op op, const char *bucket, const char *key, const char *query,
                           const struct origin_body *body, const struct http_field *field)
{
    struct watched *watched = watch_new(op, slice_of(bucket), slice_of(key), slice_of(query));
    watched->call.body = body;
    watched->call.fields = field;
    watched->call.field_count = field ? 1 : 0;
    origin_start(origin, &watched->call);
    ok(watch_wait(watched, FOR_DONE));
    if (watched->err)
        print_message("%s %s?%s: %s\n", bucket, key, query, err_name(watched->err));
    return watched;
}

static void expect(int status, struct watched *take_watched)
{
    slice body = text_slice(&take_watched->body);
    if (take_watched->err || take_watched->status != status)
        fail_msg("%s, status %d: %.*s", err_name(take_watched->err), take_watched->status,
                 SLICE_ARG(body));
    watch_free(&take_watched);
}

static size_t read_slice(void *arg, uint64_t offset, char *ret, size_t bytes)
{
    const slice *all_bytes = arg;
    memcpy(ret, all_bytes->ptr + offset, bytes);
    return bytes;
}

static const char *const keys[] = {
    "plain", "a b", "a+b", "a=b,c", "(x)!*'", "deep/er/one", "\xc3\xa4\xe2\x82\xac", "per%cent",
    "a&b=c?d#e", "~._-", "semi;colon:at@", "quote\"back\\slash", "$dollar|pipe`tick", "a%2Fb",
    "[1]{2}<3>^",
};

TEST(what_is_put_comes_back_by_any_key)
{
    slice bytes = S("the bytes of an object");
    struct origin_body body = { .length = bytes.len, .read = read_slice, .arg = &bytes };
    struct http_field range = { S("Range"), S("bytes=4-8") };
    /* PUT /photos makes the bucket */
    expect(200, ask(S3_PUT_OBJECT, "photos", "", "", NULL, NULL));
    for (size_t i = 0; i < countof(keys); i++) {
        expect(200, ask(S3_PUT_OBJECT, "photos", keys[i], "", &body, NULL));
        struct watched *watched = ask(S3_GET_OBJECT, "photos", keys[i], "", NULL, NULL);
        same(text_slice(&watched->body), bytes);
        expect(200, watched);
        watched = ask(S3_GET_OBJECT, "photos", keys[i], "", NULL, &range);
        same(text_slice(&watched->body), S("bytes"));
        expect(206, watched);
        watched = ask(S3_HEAD_OBJECT, "photos", keys[i], "", NULL, NULL);
        ok(watched->length == bytes.len && watched->bodies == 0);
        expect(200, watched);
    }
}

TEST(listings_and_their_queries_are_signed_right)
{
    struct arena keep = { 0 };
    struct listing listing;
    struct watched *watched = ask(S3_LIST_OBJECTS_V2, "photos", "", "list-type=2&encoding-type=url",
                                  NULL, NULL);
    ok(xml_read_listing(&keep, text_slice(&watched->body), &listing) == OK);
    ok(listing.object_count == countof(keys));
    expect(200, watched);
    watched = ask(S3_LIST_OBJECTS_V2, "photos", "", "list-type=2&prefix=deep/er&delimiter=%2F",
                  NULL, NULL);
    ok(xml_read_listing(&keep, text_slice(&watched->body), &listing) == OK);
    ok(listing.prefix_count == 1 && listing.object_count == 0);
    expect(200, watched);
    watched = ask(S3_LIST_OBJECTS_V2, "photos", "", "prefix=a%20b&list-type=2", NULL, NULL);
    ok(xml_read_listing(&keep, text_slice(&watched->body), &listing) == OK &&
       listing.object_count == 1);
    same(listing.objects[0].key, S("a b"));
    expect(200, watched);
    expect(200, ask(S3_GET_BUCKET_LOCATION, "photos", "", "location", NULL, NULL));
    expect(200, ask(S3_HEAD_BUCKET, "photos", "", "", NULL, NULL));
    expect(200, ask(S3_LIST_BUCKETS, "", "", "", NULL, NULL));
    expect(404, ask(S3_GET_OBJECT, "photos", "none", "", NULL, NULL));
    arena_free(&keep);
}

TEST(a_large_body_goes_and_comes_whole)
{
    size_t len = 5 * MIB + 3;
    char *large = must_alloc(len);
    for (size_t i = 0; i < len; i++)
        large[i] = (char)(i * 2654435761u >> 13);
    slice bytes = { large, len };
    struct origin_body body = { .length = len, .read = read_slice, .arg = &bytes };
    expect(200, ask(S3_PUT_OBJECT, "photos", "large", "", &body, NULL));
    struct watched *watched = watch_new(S3_GET_OBJECT, S("photos"), S("large"), S(""));
    watched->pause_at = 5;
    origin_start(origin, &watched->call);
    ok(watch_wait(watched, FOR_PAUSE));
    origin_resume(&watched->call);
    ok(watch_wait(watched, FOR_DONE));
    ok(slice_eq(text_slice(&watched->body), bytes));
    expect(200, watched);
    expect(204, ask(S3_DELETE_OBJECT, "photos", "large", "", NULL, NULL));
    expect(404, ask(S3_HEAD_OBJECT, "photos", "large", "", NULL, NULL));
    free(large);
}

TEST(an_upload_in_parts_goes_through)
{
    char query[512], document[512], part_etag[128];
    slice bytes = S("one part");
    struct origin_body body = { .length = bytes.len, .read = read_slice, .arg = &bytes };
    struct watched *watched = ask(S3_CREATE_UPLOAD, "photos", "parts", "uploads", NULL, NULL);
    slice answer = text_slice(&watched->body);
    const char *id = memmem(answer.ptr, answer.len, "<UploadId>", 10);
    ok(watched->status == 200 && id != NULL);
    slice rest = slice_of(id + 10), upload = slice_cut(&rest, '<');
    snprintf(query, sizeof(query), "partNumber=1&uploadId=%.*s", SLICE_ARG(upload));
    struct watched *part = ask(S3_UPLOAD_PART, "photos", "parts", query, &body, NULL);
    snprintf(part_etag, sizeof(part_etag), "%.*s", SLICE_ARG(watch_get(part, S("etag"))));
    expect(200, part);
    snprintf(document, sizeof(document), "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber>"
             "<ETag>%s</ETag></Part></CompleteMultipartUpload>", part_etag);
    slice text = slice_of(document);
    struct origin_body complete = { .length = text.len, .read = read_slice, .arg = &text };
    snprintf(query, sizeof(query), "uploadId=%.*s", SLICE_ARG(upload));
    expect(200, ask(S3_COMPLETE_UPLOAD, "photos", "parts", query, &complete, NULL));
    watch_free(&watched);
    watched = ask(S3_GET_OBJECT, "photos", "parts", "", NULL, NULL);
    same(text_slice(&watched->body), bytes);
    expect(200, watched);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_put_comes_back_by_any_key),
        cmocka_unit_test(listings_and_their_queries_are_signed_right),
        cmocka_unit_test(a_large_body_goes_and_comes_whole),
        cmocka_unit_test(an_upload_in_parts_goes_through),
    };
    if (!find_binary()) {
        printf("skipped: versitygw is not installed\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, setup, teardown);
}
