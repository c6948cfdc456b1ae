/* s3.c - lists and writes of the scripted origin. SPDX-License-Identifier: Apache-2.0
 *
 * Lists show what the table holds at that moment, with the same ETag, size and time as a HEAD.
 * Bodies up to STORED_BYTES_MAX are kept and served back; longer ones are counted and hashed, and a
 * GET of them gives synthetic bytes. Parts of an upload are joined by their numbers, whatever the
 * completing document says. */
#include "conn.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define PARTS_MAX 10000

static _Atomic unsigned empty_pages;

/* ---- lists ---- */

static void xml_text(FILE *to, const char *text, bool url)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (url && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9')
            && !strchr("-._~/", c))
            fprintf(to, "%%%02X", c);
        else if (strchr("<>&\"'", c) || c < ' ')
            fprintf(to, "&#%d;", c);
        else
            fputc(c, to);
    }
}

static void xml_element(FILE *to, const char *name, const char *text, bool url)
{
    fprintf(to, "<%s>", name);
    xml_text(to, text, url);
    fprintf(to, "</%s>", name);
}

struct list_ask {
    char bucket[256], prefix[KEY_BYTES_MAX], after[KEY_BYTES_MAX], delimiter[64];
    bool v2, url;
    bool empty;                  /* a page without keys */
    long max;
};

/* Writes entries; returns how many, and in ask->after where to go on if *ret_more. */
static long write_entries(FILE *to, struct list_ask *ask, bool *ret_more)
{
    size_t count, bucket_len = strlen(ask->bucket) + 1;
    long written = 0;
    char common[KEY_BYTES_MAX] = "", last[KEY_BYTES_MAX] = "";
    struct object **objects = objects_sorted(ask->bucket, &count);
    *ret_more = false;
    for (size_t i = 0; i < count; i++) {
        const char *name = objects[i]->key + bucket_len;
        if (strncmp(name, ask->prefix, strlen(ask->prefix)) != 0
            || (ask->after[0] && strcmp(name, ask->after) <= 0)
            || (common[0] && strncmp(name, common, strlen(common)) == 0))
            continue;
        const char *cut = ask->delimiter[0]
                              ? strstr(name + strlen(ask->prefix), ask->delimiter) : NULL;
        size_t cut_len = cut ? (size_t)(cut - name) + strlen(ask->delimiter) : 0;
        if (cut && strncmp(ask->after, name, cut_len) == 0)
            continue;    /* rolled up on the page before */
        if (written == ask->max || ask->empty) {
            *ret_more = true;
            break;
        }
        written++;
        if (cut) {
            snprintf(common, sizeof(common), "%.*s", (int)cut_len, name);
            snprintf(last, sizeof(last), "%s", common);
            fputs("<CommonPrefixes>", to);
            xml_element(to, "Prefix", common, ask->url);
            fputs("</CommonPrefixes>", to);
            continue;
        }
        char date[40];
        struct tm tm;
        time_t t = objects[i]->modified_s;
        strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S.000Z", gmtime_r(&t, &tm));
        snprintf(last, sizeof(last), "%s", name);
        fputs("<Contents>", to);
        xml_element(to, "Key", name, ask->url);
        fprintf(to, "<LastModified>%s</LastModified><ETag>&quot;%.32s&quot;</ETag><Size>%ld</Size>"
                "<StorageClass>STANDARD</StorageClass></Contents>", date, objects[i]->etag + 1,
                (long)objects[i]->size);
    }
    if (!ask->empty)
        snprintf(ask->after, sizeof(ask->after), "%s", last);
    return written;
}

static void write_list(FILE *to, struct list_ask *ask)
{
    bool more;
    char *entries;
    size_t bytes;
    FILE *inner = open_memstream(&entries, &bytes);
    pthread_mutex_lock(&lock);
    long count = write_entries(inner, ask, &more);
    pthread_mutex_unlock(&lock);
    fclose(inner);
    xml_element(to, "Name", ask->bucket, false);
    xml_element(to, "Prefix", ask->prefix, ask->url);
    if (ask->delimiter[0])
        xml_element(to, "Delimiter", ask->delimiter, ask->url);
    fprintf(to, "<MaxKeys>%ld</MaxKeys>", ask->max);
    if (ask->url)
        fputs("<EncodingType>url</EncodingType>", to);
    if (ask->v2)
        fprintf(to, "<KeyCount>%ld</KeyCount>", count);
    fprintf(to, "<IsTruncated>%s</IsTruncated>", more ? "true" : "false");
    if (more && ask->empty)    /* the token of each such page differs */
        fprintf(to, "<NextContinuationToken>empty-%u:%s</NextContinuationToken>", ++empty_pages,
                ask->after);
    else if (more)
        xml_element(to, ask->v2 ? "NextContinuationToken" : "NextMarker", ask->after,
                    ask->url && !ask->v2);
    fwrite(entries, 1, bytes, to);
    free(entries);
}

void serve_list(struct conn *conn)
{
    struct list_ask ask = { .max = 1000 };
    char text[64], *body;
    size_t bytes;
    FILE *to = open_memstream(&body, &bytes);
    snprintf(ask.bucket, sizeof(ask.bucket), "%.*s", (int)strcspn(conn->key, "/"), conn->key);
    ask.v2 = param(conn, "list-type", text, sizeof(text)) != NULL;
    ask.url = param(conn, "encoding-type", text, sizeof(text)) != NULL;
    if (param(conn, "max-keys", text, sizeof(text)) && atol(text) < 1000)
        ask.max = atol(text);
    param(conn, "prefix", ask.prefix, sizeof(ask.prefix));
    param(conn, "delimiter", ask.delimiter, sizeof(ask.delimiter));
    if (!param(conn, ask.v2 ? "continuation-token" : "marker", ask.after, sizeof(ask.after)))
        param(conn, "start-after", ask.after, sizeof(ask.after));
    if (strncmp(ask.after, "empty-", 6) == 0)
        memmove(ask.after, strchr(ask.after, ':') + 1, strlen(strchr(ask.after, ':')));
    if (conn->told.ignore_after)
        ask.after[0] = 0;
    ask.empty = conn->told.empty_page;
    fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n", to);
    if (ask.bucket[0] == 0) {
        fputs("<ListAllMyBucketsResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
              "<Owner><ID>scripted</ID></Owner><Buckets><Bucket><Name>bucket</Name>"
              "<CreationDate>2024-01-01T00:00:00.000Z</CreationDate>"
              "</Bucket></Buckets></ListAllMyBucketsResult>", to);
    } else if (param(conn, "uploads", text, sizeof(text))) {
        fprintf(to, "<ListMultipartUploadsResult><Bucket>%s</Bucket>"
                "<IsTruncated>false</IsTruncated></ListMultipartUploadsResult>", ask.bucket);
    } else {
        fputs("<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">", to);
        write_list(to, &ask);
        fputs("</ListBucketResult>", to);
    }
    fclose(to);
    answer(conn, 200, "application/xml", "", body, bytes);
    free(body);
}

/* ---- writes ---- */

struct upload {
    char id[32];
    struct blob *parts[PARTS_MAX + 1];
    struct upload *next;
};
static struct upload *uploads;
static unsigned upload_number;

/* The whole body; its bytes are kept in *ret if they are few enough. False: the peer went away. */
bool take_body(struct conn *conn, int64_t bytes, struct blob **ret, uint8_t ret_sha256[32])
{
    struct sha256 sha;
    char expect[32];
    *ret = NULL;
    if (bytes <= STORED_BYTES_MAX) {
        *ret = malloc(sizeof(struct blob) + (size_t)bytes + 1);
        (*ret)->refs = 1;
        (*ret)->bytes = bytes;
        (*ret)->ptr[bytes] = 0;
    }
    if (strcasecmp(field(conn, "expect", expect, sizeof(expect)), "100-continue") == 0)
        send_all(conn, "HTTP/1.1 100 Continue\r\n\r\n", 25, NULL);
    sha256_init(&sha);
    for (int64_t got = 0; got < bytes;) {
        size_t want = bytes - got < SLICE_BYTES ? (size_t)(bytes - got) : SLICE_BYTES;
        ssize_t n = read_body(conn, conn->slice, want);
        if (n <= 0) {
            free(*ret);
            *ret = NULL;
            conn->close = conn->aborted = true;
            return false;
        }
        sha256_add(&sha, conn->slice, (size_t)n);
        if (*ret)
            memcpy((*ret)->ptr + got, conn->slice, (size_t)n);
        got += n;
    }
    sha256_end(&sha, ret_sha256);
    return true;
}

/* The header lines of a PUT that a GET shall show again. */
static void kept_fields(struct conn *conn, char *ret, size_t bytes)
{
    static const char *const kept[] = { "content-type:", "cache-control:", "content-encoding:",
                                        "content-disposition:", "x-amz-meta-" };
    size_t at = 0;
    *ret = 0;
    for (char *line = strstr(conn->in, "\r\n"); line && line[2]; line = strstr(line + 2, "\r\n"))
        for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
            int len = (int)strcspn(line + 2, "\r");
            if (strncasecmp(line + 2, kept[i], strlen(kept[i])) == 0 &&
                at + (size_t)len + 3 < bytes)
                at += (size_t)snprintf(ret + at, bytes - at, "%.*s\r\n", len, line + 2);
        }
    if (at > 0 && strcasestr(ret, "content-type:") == NULL && at + 64 < bytes)
        snprintf(ret + at, bytes - at, "Content-Type: binary/octet-stream\r\n");
}

static struct upload *upload_find(const char *id)    /* under lock */
{
    struct upload *upload = uploads;
    while (upload && strcmp(upload->id, id) != 0)
        upload = upload->next;
    return upload;
}

static void upload_drop(struct upload *upload)    /* under lock */
{
    struct upload **link = &uploads;
    while (*link != upload)
        link = &(*link)->next;
    *link = upload->next;
    for (int i = 0; i <= PARTS_MAX; i++)
        free(upload->parts[i]);
    free(upload);
}

static void serve_put(struct conn *conn, struct blob *take_blob, int64_t bytes,
                      const uint8_t sha256[32])
{
    char text[64], id[64], fields[2048], etag[36];
    int number = param(conn, "partNumber", text, sizeof(text)) ? atoi(text) : 0;
    if (!param(conn, "uploadId", id, sizeof(id))) {
        kept_fields(conn, fields, sizeof(fields));
        object_store(conn->key, take_blob, bytes, sha256, fields, etag);
    } else {
        pthread_mutex_lock(&lock);
        struct upload *upload = upload_find(id);
        if (upload && take_blob && number >= 1 && number <= PARTS_MAX) {
            free(upload->parts[number]);
            upload->parts[number] = take_blob;
            take_blob = NULL;
        }
        pthread_mutex_unlock(&lock);
        if (upload == NULL || take_blob) {
            free(take_blob);
            answer_error(conn, upload ? 400 : 404, "");
            return;
        }
        hex(sha256, 16, text);
        snprintf(etag, sizeof(etag), "\"%.32s\"", text);
    }
    snprintf(fields, sizeof(fields), "ETag: %s\r\n", etag);
    answer(conn, 200, "application/xml", fields, "", 0);
}

static struct blob *upload_join(struct upload *upload)    /* under lock */
{
    int64_t bytes = 0;
    for (int i = 1; i <= PARTS_MAX; i++)
        bytes += upload->parts[i] ? upload->parts[i]->bytes : 0;
    struct blob *whole = malloc(sizeof(struct blob) + (size_t)bytes + 1);
    whole->refs = 1;
    whole->bytes = 0;
    for (int i = 1; i <= PARTS_MAX; i++)
        if (upload->parts[i]) {
            memcpy(whole->ptr + whole->bytes, upload->parts[i]->ptr,
                   (size_t)upload->parts[i]->bytes);
            whole->bytes += upload->parts[i]->bytes;
        }
    upload_drop(upload);
    return whole;
}

static void serve_uploads(struct conn *conn, const char *id)
{
    char body[1024], etag[36] = "";
    uint8_t digest[32];
    struct upload *upload;
    struct blob *whole = NULL;
    pthread_mutex_lock(&lock);
    if (id == NULL) {
        upload = calloc(1, sizeof(*upload));
        snprintf(upload->id, sizeof(upload->id), "upload-%u", ++upload_number);
        upload->next = uploads;
        uploads = upload;
        snprintf(etag, sizeof(etag), "%s", upload->id);
    } else if ((upload = upload_find(id))) {
        whole = upload_join(upload);
    }
    pthread_mutex_unlock(&lock);
    if (id && whole == NULL) {
        answer_error(conn, 404, "");
        return;
    }
    if (whole) {
        struct sha256 sha;
        sha256_init(&sha);
        sha256_add(&sha, whole->ptr, (size_t)whole->bytes);
        sha256_end(&sha, digest);
        object_store(conn->key, whole, whole->bytes, digest, NULL, etag);
    }
    int bucket = (int)strcspn(conn->key, "/");
    int len = snprintf(body, sizeof(body),
                       id ? "<CompleteMultipartUploadResult><Bucket>%.*s</Bucket>"
                            "<Key>%.500s</Key><ETag>%s</ETag></CompleteMultipartUploadResult>"
                          : "<InitiateMultipartUploadResult><Bucket>%.*s</Bucket>"
                            "<Key>%.500s</Key><UploadId>%s</UploadId>"
                            "</InitiateMultipartUploadResult>",
                       bucket, conn->key, conn->key + bucket + 1, etag);
    answer(conn, 200, "application/xml", "", body, (size_t)len);
}

static void serve_delete_many(struct conn *conn, const char *document)
{
    char key[KEY_BYTES_MAX], *body;
    size_t bytes;
    FILE *to = open_memstream(&body, &bytes);
    fputs("<DeleteResult>", to);
    for (const char *at = document; (at = strstr(at, "<Key>"));) {
        int len = snprintf(key, sizeof(key), "%.*s/", (int)strcspn(conn->key, "/"), conn->key);
        for (at += 5; *at && *at != '<' && len + 1 < KEY_BYTES_MAX; at++) {
            static const struct { const char *name; char c; } entities[] = {
                { "&amp;", '&' }, { "&lt;", '<' }, { "&gt;", '>' }, { "&quot;", '"' },
                { "&apos;", '\'' } };
            char c = *at;
            for (size_t i = 0; c == '&' && i < 5; i++)
                if (strncmp(at, entities[i].name, strlen(entities[i].name)) == 0) {
                    c = entities[i].c;
                    at += strlen(entities[i].name) - 1;
                }
            key[len++] = c;
        }
        key[len] = 0;
        object_set(key, -1);
        fputs("<Deleted>", to);
        xml_element(to, "Key", strchr(key, '/') + 1, false);
        fputs("</Deleted>", to);
    }
    fputs("</DeleteResult>", to);
    fclose(to);
    answer(conn, 200, "application/xml", "", body, bytes);
    free(body);
}

void serve_write(struct conn *conn, struct blob *take_blob, int64_t bytes, const uint8_t sha256[32])
{
    char text[64];
    const char *id = param(conn, "uploadId", text, sizeof(text));
    if (conn->method == PUT) {
        serve_put(conn, take_blob, bytes, sha256);
        return;
    }
    if (conn->method == DELETE) {
        pthread_mutex_lock(&lock);
        struct upload *upload = id ? upload_find(id) : NULL;
        if (upload)
            upload_drop(upload);
        pthread_mutex_unlock(&lock);
        if (id == NULL)
            object_set(conn->key, -1);
        answer(conn, 204, "application/xml", "", "", 0);
    } else if (id || param(conn, "uploads", text, sizeof(text))) {
        serve_uploads(conn, id);
    } else if (param(conn, "delete", text, sizeof(text)) && take_blob) {
        serve_delete_many(conn, take_blob->ptr);
    } else {
        answer_error(conn, 501, "");
    }
    free(take_blob);
}
