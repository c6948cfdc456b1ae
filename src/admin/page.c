/* page.c - a JSON document that is told fact by fact. SPDX-License-Identifier: Apache-2.0
 *
 * A path is walked from the root: a name that is not there yet becomes an object, a list stands for
 * its last item. Two kinds of thing told at one path is a mistake of ours: the later wins. */
#include "admin/page.h"

#include <jansson.h>
#include <stdlib.h>

struct admin_page {
    json_t *root;
};

struct admin_page *page_new(struct arena *keep)
{
    struct admin_page *page = arena_alloc(keep, sizeof(*page));
    page->root = json_object();
    check(page->root != NULL);
    return page;
}

static json_t *last_if_list(json_t *at)
{
    if (!json_is_array(at))
        return at;
    if (json_array_size(at) == 0)
        json_array_append_new(at, json_object());
    return json_array_get(at, json_array_size(at) - 1);
}

/* The object that the path's last name belongs to; *path is that name then. */
static json_t *walk(struct admin_page *page, slice *path)
{
    json_t *at = page->root;
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
        *path = rest;
    }
}

static void set(struct admin_page *page, const char *path, json_t *take_value)
{
    slice name = slice_of(path);
    json_t *at = walk(page, &name);
    check(take_value != NULL);
    json_object_setn_new(at, name.ptr, name.len, take_value);
}

void admin_text(struct admin_page *page, const char *path, slice value)
{
    json_t *text = json_stringn(value.len ? value.ptr : "", value.len);
    set(page, path, text ? text : json_string("(not UTF-8)"));
}

void admin_number(struct admin_page *page, const char *path, uint64_t value)
{
    set(page, path, json_integer((json_int_t)MIN(value, (uint64_t)INT64_MAX)));
}

void admin_ratio(struct admin_page *page, const char *path, uint64_t part, uint64_t whole)
{
    set(page, path, whole ? json_real((double)part / (double)whole) : json_null());
}

void admin_real(struct admin_page *page, const char *path, double value)
{
    set(page, path, json_real(value));
}

void admin_flag(struct admin_page *page, const char *path, bool value)
{
    set(page, path, json_boolean(value));
}

void admin_item(struct admin_page *page, const char *path)
{
    slice name = slice_of(path);
    json_t *at = walk(page, &name), *list = json_object_getn(at, name.ptr, name.len);
    if (!json_is_array(list)) {
        json_object_setn_new(at, name.ptr, name.len, json_array());
        list = json_object_getn(at, name.ptr, name.len);
    }
    json_array_append_new(list, json_object());
}

void admin_store(struct admin_page *page, const char *path, const struct store_status *status)
{
    const struct {
        const char *name;
        uint64_t value;
    } numbers[] = {
        { "size_bytes", status->size_bytes },       { "used_bytes", status->used_bytes },
        { "free_bytes", status->free_bytes },       { "reserve_bytes", status->reserve_bytes },
        { "capacity_bytes", status->capacity_bytes },
        { "extents", status->extents },             { "entries", status->entries },
        { "index_bytes", status->index_bytes },     { "heads_bytes", status->heads_bytes },
    };
    struct arena keep = { 0 };
    admin_flag(page, arena_printf(&keep, "%s.serving", path).ptr, status->serving);
    admin_text(page, arena_printf(&keep, "%s.why", path).ptr, slice_of(status->why));
    admin_text(page, arena_printf(&keep, "%s.anew", path).ptr, slice_of(status->anew));
    for (size_t i = 0; i < countof(numbers); i++)
        admin_number(page, arena_printf(&keep, "%s.%s", path, numbers[i].name).ptr,
                     numbers[i].value);
    arena_free(&keep);
}

slice page_print(struct admin_page **page, struct arena *keep)
{
    char *text = json_dumps((*page)->root, JSON_INDENT(2));
    check(text != NULL);
    slice copy = arena_printf(keep, "%s\n", text);
    free(text);
    json_decref((*page)->root);
    *page = NULL;
    return copy;
}
