/* status_document.c - the JSON of /status. SPDX-License-Identifier: Apache-2.0
 *
 * A path such as "cache.used_bytes" is walked from the root. A missing name becomes an object. In a
 * list, the path goes on in the last item. A path has one type of value. If the code gives a path
 * values of two types, which is a mistake, the later value wins. */
#include "admin/status_document.h"

#include <jansson.h>
#include <stdlib.h>

struct status_document {
    json_t *root;
};

struct status_document *document_new(struct arena *keep)
{
    struct status_document *document = arena_alloc(keep, sizeof(*document));
    document->root = json_object();
    check(document->root != NULL);
    return document;
}

static json_t *last_if_list(json_t *at)
{
    return json_is_array(at) ? json_array_get(at, json_array_size(at) - 1) : at;
}

/* Returns the object that holds the path's last name; *path is that name afterwards. */
static json_t *walk(struct status_document *to, slice *path)
{
    json_t *at = to->root;
    for (;;) {
        slice rest = *path;
        slice name = slice_cut(&rest, '.');
        if (!rest.ptr)
            return at;
        json_t *next = json_object_getn(at, name.ptr, name.len);
        if (!json_is_object(next) && !json_is_array(next)) {
            json_object_setn_new(at, name.ptr, name.len, json_object());
            next = json_object_getn(at, name.ptr, name.len);
        }
        at = last_if_list(next);
        check(json_is_object(at));
        *path = rest;
    }
}

static void set(struct status_document *to, const char *path, json_t *take_value)
{
    slice name = slice_of(path);
    json_t *at = walk(to, &name);
    check(take_value != NULL);
    json_object_setn_new(at, name.ptr, name.len, take_value);
}

void document_text(struct status_document *to, const char *path, slice value)
{
    json_t *text = json_stringn(value.len ? value.ptr : "", value.len);
    set(to, path, text ? text : json_string("(not UTF-8)"));
}

void document_number(struct status_document *to, const char *path, uint64_t value)
{
    set(to, path, json_integer((json_int_t)MIN(value, (uint64_t)INT64_MAX)));
}

void document_ratio(struct status_document *to, const char *path, uint64_t part, uint64_t whole)
{
    set(to, path, whole ? json_real((double)part / (double)whole) : json_null());
}

void document_real(struct status_document *to, const char *path, double value)
{
    set(to, path, json_real(value));
}

void document_flag(struct status_document *to, const char *path, bool value)
{
    set(to, path, json_boolean(value));
}

void document_item(struct status_document *to, const char *path)
{
    slice name = slice_of(path);
    json_t *at = walk(to, &name), *list = json_object_getn(at, name.ptr, name.len);
    if (!json_is_array(list)) {
        json_object_setn_new(at, name.ptr, name.len, json_array());
        list = json_object_getn(at, name.ptr, name.len);
    }
    json_array_append_new(list, json_object());
}

void document_store(struct status_document *to, const char *path,
                    const struct store_status *status)
{
    const struct {
        const char *name;
        uint64_t value;
    } numbers[] = {
        { "size_bytes", status->size_bytes },       { "used_bytes", status->used_bytes },
        { "live_bytes", status->live_bytes },       { "capacity_bytes", status->capacity_bytes },
        { "free_bytes", status->free_bytes },       { "reserve_bytes", status->reserve_bytes },
        { "pinned_bytes", status->pinned_bytes },
        { "pin_budget_bytes", status->pin_budget_bytes },
        { "extents", status->extents },             { "entries", status->entries },
        { "faults", status->faults },
        { "index_bytes", status->index_bytes },     { "heads_bytes", status->metadata_bytes },
    };
    struct arena keep = { 0 };
    document_flag(to, arena_printf(&keep, "%s.serving", path).ptr, status->serving);
    document_text(to, arena_printf(&keep, "%s.why", path).ptr, slice_of(status->why));
    document_text(to, arena_printf(&keep, "%s.anew", path).ptr, slice_of(status->anew));
    for (size_t i = 0; i < countof(numbers); i++)
        document_number(to, arena_printf(&keep, "%s.%s", path, numbers[i].name).ptr,
                     numbers[i].value);
    arena_free(&keep);
}

slice document_print(struct status_document **document, struct arena *keep)
{
    char *text = json_dumps((*document)->root, JSON_INDENT(2));
    check(text != NULL);
    slice copy = arena_printf(keep, "%s\n", text);
    free(text);
    json_decref((*document)->root);
    *document = NULL;
    return copy;
}
