/* dir_list.c - listings of a directory origin as S3's documents.
 * SPDX-License-Identifier: Apache-2.0
 *
 * This file reads the parameters from the query, lets dir_walk.c find the keys, and writes them as
 * XML: the objects of a bucket (ListObjects, ListObjectsV2), or the folders that are buckets. */
#include "origin/dir_walk.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "s3/encode.h"
#include "s3/xml.h"

#define KEYS_MAX 1000
#define BUCKETS_MAX 10000
#define XMLNS " xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\""
#define XML_HEAD "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"

/* ---- the parameters ---- */

static enum err read_ask(struct arena *keep, const struct origin_call *call, struct dir_ask *ret,
                         slice *ret_why)
{
    *ret = (struct dir_ask){ .max = KEYS_MAX, .v2 = call->op == S3_LIST_OBJECTS_V2 };
    slice max = { NULL, 0 }, encoding = S(""), unused, rest = call->query, name, value;
    const struct {
        const char *name;
        slice *to;
    } rows[] = {
        { "prefix", &ret->prefix }, { "delimiter", &ret->delimiter },
        { "max-keys", &max }, { "encoding-type", &encoding },
        { "marker", ret->v2 ? &unused : &ret->marker },
        { "start-after", ret->v2 ? &ret->start_after : &unused },
        { "continuation-token", ret->v2 ? &ret->token : &unused },
    };
    *ret_why = S("The query has a '%' without two hex digits after it, or it has %00: write '%' as "
                 "%25, and leave out %00");
    while (query_next(&rest, &name, &value)) {
        if (query_decode(keep, name, &name) || query_decode(keep, value, &value))
            return ERR_BAD_ARGUMENT;
        for (size_t i = 0; i < countof(rows); i++)
            if (slice_eq(name, slice_of(rows[i].name)))
                *rows[i].to = value;
    }
    *ret_why = S("The parameter max-keys must be a whole number");
    if (max.ptr && !slice_u64(max, &ret->max))
        return ERR_BAD_ARGUMENT;
    ret->max = MIN(ret->max, (uint64_t)KEYS_MAX);
    ret->url = slice_eq(encoding, S("url"));
    return OK;
}

/* ---- the documents ---- */

static void element(struct text *to, const struct dir_ask *ask, const char *name, slice value)
{
    struct text encoded = text_in(to->arena);
    if (ask->url) {
        uri_encode(&encoded, value, false);
        value = text_slice(&encoded);
    }
    xml_element(to, name, value);
}

static void write_item(struct text *to, const struct dir_ask *ask, const struct dir_item *item)
{
    text_add(to, S("<Contents>"));
    element(to, ask, "Key", item->key);
    xml_element(to, "LastModified", iso_date_text(to->arena, item->file.st_mtim.tv_sec));
    xml_element(to, "ETag", dir_etag(to->arena, &item->file));
    text_printf(to, "<Size>%llu</Size>", (unsigned long long)item->file.st_size);
    text_add(to, S("<StorageClass>STANDARD</StorageClass></Contents>"));
}

static void write_asked(struct text *to, const struct dir_ask *ask, slice bucket, size_t count)
{
    xml_element(to, "Name", bucket);
    element(to, ask, "Prefix", ask->prefix);
    if (!ask->v2)
        element(to, ask, "Marker", ask->marker);
    if (ask->v2 && ask->start_after.len)
        element(to, ask, "StartAfter", ask->start_after);
    if (ask->token.len)
        xml_element(to, "ContinuationToken", ask->token);
    if (ask->v2)
        text_printf(to, "<KeyCount>%zu</KeyCount>", count);
    text_printf(to, "<MaxKeys>%llu</MaxKeys>", (unsigned long long)ask->max);
    if (ask->delimiter.len)
        element(to, ask, "Delimiter", ask->delimiter);
    if (ask->url)
        xml_element(to, "EncodingType", S("url"));
}

static slice write_listing(struct arena *keep, const struct dir_ask *ask, slice bucket,
                           const struct dir_list *list)
{
    struct text to = text_in(keep);
    text_add(&to, S(XML_HEAD "<ListBucketResult" XMLNS ">"));
    write_asked(&to, ask, bucket, list->count);
    text_printf(&to, "<IsTruncated>%s</IsTruncated>", list->more ? "true" : "false");
    if (list->more && ask->v2)
        xml_element(&to, "NextContinuationToken", dir_token(keep, &list->items[list->count - 1]));
    else if (list->more && ask->delimiter.len)
        element(&to, ask, "NextMarker", list->items[list->count - 1].key);
    for (size_t i = 0; i < list->count; i++)
        if (!list->items[i].rolled)
            write_item(&to, ask, &list->items[i]);
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].rolled) {
            text_add(&to, S("<CommonPrefixes>"));
            element(&to, ask, "Prefix", list->items[i].key);
            text_add(&to, S("</CommonPrefixes>"));
        }
    text_add(&to, S("</ListBucketResult>"));
    return text_slice(&to);
}

enum err dir_list_objects(struct arena *keep, int bucket, const struct origin_call *call,
                          _Atomic enum err *stopped, slice *ret_document, slice *ret_why)
{
    struct dir_ask ask;
    struct dir_list list;
    enum err e = read_ask(keep, call, &ask, ret_why);
    if (e)
        return e;
    e = dir_walk(keep, bucket, &ask, stopped, &list);
    *ret_why = e == ERR_BAD_ARGUMENT
        ? S("The parameter continuation-token is not one that Penstock gave: list again from the "
            "beginning")
        : S("");
    if (!e)
        *ret_document = write_listing(keep, &ask, call->bucket, &list);
    return e;
}

static int name_order(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

enum err dir_list_buckets(struct arena *keep, int root, slice *ret_document)
{
    int fd = dir_open(root, ".", O_RDONLY | O_DIRECTORY, true);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir)
        return ERR_IO;
    const char **names = arena_alloc(keep, BUCKETS_MAX * sizeof(*names));
    size_t count = 0;
    enum err e = OK;
    for (struct dirent *found; count < BUCKETS_MAX && (found = file_next(dir, &e)) != NULL;) {
        slice name = slice_of(found->d_name);
        bool valid = s3_bucket_is_valid(name) && !slice_has(name, ':');    /* no "tenant:bucket" */
        int sub = valid ? dir_open(root, found->d_name, O_PATH | O_DIRECTORY, true) : -1;
        if (sub < 0)
            continue;
        close(sub);
        names[count++] = arena_copy(keep, name).ptr;
    }
    closedir(dir);
    if (e)
        return ERR_IO;
    struct text to = text_in(keep);
    text_add(&to, S(XML_HEAD "<ListAllMyBucketsResult" XMLNS "><Owner><ID>penstock</ID>"
                    "<DisplayName>penstock</DisplayName></Owner><Buckets>"));
    qsort(names, count, sizeof(*names), name_order);
    for (size_t i = 0; i < count; i++) {
        struct stat file;
        int64_t made_s = fstatat(root, names[i], &file, 0) == 0 ? file.st_mtim.tv_sec : 0;
        text_add(&to, S("<Bucket>"));
        xml_element(&to, "Name", slice_of(names[i]));
        xml_element(&to, "CreationDate", iso_date_text(keep, made_s));
        text_add(&to, S("</Bucket>"));
    }
    text_add(&to, S("</Buckets></ListAllMyBucketsResult>"));
    *ret_document = text_slice(&to);
    return OK;
}
