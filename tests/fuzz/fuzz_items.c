/* fuzz_items.c - any text as the list of a batch, and as one that fills memory.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Items that are read lie within their limits; every refusal has a sentence. */
#include <jansson.h>
#include <string.h>

#include "s3/items.h"
#include "s3/request.h"

#define ITEMS_MAX 100

static void judge(const struct items *items, bool places)
{
    check(items->count <= ITEMS_MAX);
    for (size_t i = 0; i < items->count; i++) {
        const struct item *item = &items->list[i];
        bool open = item->length == ITEM_OPEN;
        check(item->key.len > 0 && item->key.len <= S3_KEY_BYTES_MAX);
        check(!memchr(item->key.ptr, '\0', item->key.len));
        check(item->first <= INT64_MAX && (open || item->first + item->length <= INT64_MAX));
        check((item->kind == ITEM_RANGE) == (item->range.kind != RANGE_NONE));
        check(item->kind != ITEM_WHOLE || (open && item->first == 0));
        check(places ? item->kind != ITEM_RANGE : item->to == ITEM_OPEN && item->max == ITEM_OPEN);
        check(!item->if_match.ptr || item->if_match.len);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct items_ask ask = { S("p/"), ITEMS_MAX, false, true };
    slice document = { (const char *)data, size }, why = S("");
    struct arena arena = { 0 };
    struct items_batch batch;
    struct items items;
    enum err err = items_read_batch(&arena, document, ITEMS_MAX, &batch, &why);
    check((err != OK) == (why.len > 0));
    check(err == OK || err == ERR_BAD_ARGUMENT || err == ERR_LIMIT);
    if (!err)
        judge(&batch.items, false);
    json_t *object = json_loadb((const char *)data, size, JSON_ALLOW_NUL, NULL);
    why = S("");
    err = items_read(&arena, json_object_get(object, "items"), &ask, &items, &why);
    check((err != OK) == (why.len > 0));
    if (!err)
        judge(&items, true);
    json_decref(object);
    arena_free(&arena);
    return 0;
}
