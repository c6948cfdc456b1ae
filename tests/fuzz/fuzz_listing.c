/* fuzz_listing.c - any bytes as each XML document of S3. SPDX-License-Identifier: Apache-2.0 */
#include "s3/xml.h"

/* A listing that was read, and is written again, is read as the same listing. */
static void keys_survive(struct arena *arena, const struct deletion *items, size_t count)
{
    struct deletion *again;
    size_t again_count;
    struct text text = text_in(arena);
    text_add(&text, S("<Delete>"));
    for (size_t i = 0; i < count; i++) {
        text_add(&text, S("<Object>"));
        xml_element(&text, "Key", items[i].key);
        text_add(&text, S("</Object>"));
    }
    text_add(&text, S("</Delete>"));
    check(xml_read_delete(arena, text_slice(&text), &again, &again_count) == OK);
    check(again_count == count);
    for (size_t i = 0; i < count; i++)
        check(slice_eq(again[i].key, items[i].key));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena = { 0 };
    slice document = { (const char *)data, size }, code, message;
    struct listing listing;
    struct deletion *items;
    size_t count;
    enum err e = xml_read_listing(&arena, document, &listing);
    check(e == OK || e == ERR_BAD_XML);
    if (!e)
        for (size_t i = 0; i < listing.object_count; i++)
            check(listing.objects[i].key.len && !slice_has(listing.objects[i].key, '\0'));
    e = xml_read_delete(&arena, document, &items, &count);
    check(e == OK || e == ERR_BAD_XML);
    if (!e)
        keys_survive(&arena, items, count);
    e = xml_read_error(&arena, document, &code, &message);
    check(e == OK || e == ERR_BAD_XML);
    arena_free(&arena);
    return 0;
}
