/* config_folders.c - the cache folders that the settings name. SPDX-License-Identifier: Apache-2.0
 *
 * cache_dirs is a JSON array, in the file as in a variable or flag. Without it, cache_dir and
 * cache_size make the only folder. */
#include "base/config_inside.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

#define SHAPE "[{\"path\": \"/mnt/a\", \"size\": \"1TiB\"}, {\"path\": \"/mnt/b\"}]"

const char *config_folders_setting(const struct config *config)
{
    return config->cache_dirs[0] ? "cache_dirs" : "cache_dir";
}

/* Returns the place of `name` in a folder that exists or can be made later. */
static slice place_in(struct config *config, slice folder, slice name)
{
    slice above = folder;
    if (!name.len || slice_eq(name, S(".")))
        return folder;
    if (slice_eq(name, S(".."))) {
        slice_cut_last(&above, '/');
        return above.len ? above : S("/");
    }
    return arena_printf(&config->arena, "%.*s%s%.*s", SLICE_ARG(folder),
                        slice_ends(folder, S("/")) ? "" : "/", SLICE_ARG(name));
}

const char *config_resolved(struct config *config, const char *path)
{
    char *real = realpath(path, NULL);
    slice found = slice_of(real ? real : path);
    const char *last = strrchr(path, '/');
    if (!real && last && last > path) {
        slice above = arena_copy(&config->arena, (slice){ path, (size_t)(last - path) });
        found = place_in(config, slice_of(config_resolved(config, above.ptr)), slice_of(last + 1));
    }
    const char *kept = arena_copy(&config->arena, found).ptr;
    free(real);
    return kept;
}

bool path_is_inside(slice path, slice folder)
{
    while (slice_ends(folder, S("/")))
        folder.len--;
    return slice_starts(path, folder) && (path.len == folder.len || path.ptr[folder.len] == '/');
}

/* ---- reading ---- */

static void wrong(struct config *config, slice why)
{
    struct config_group all = config_group_global(config);
    config_wrong(config, &all, "cache_dirs", "%.*s", SLICE_ARG(why));
}

/* Reads a size as cache_size is read. A number without a unit means bytes. */
static void read_size(struct config *config, size_t number, const json_t *value, uint64_t *ret)
{
    const struct setting *setting = setting_find(SCOPE_GLOBAL, S("cache_size"));
    struct arena *keep = &config->arena;
    struct config *scratch = arena_alloc(keep, sizeof(*scratch));
    const char *why;
    slice text = json_is_integer(value)
        ? arena_printf(keep, "%jd", (intmax_t)json_integer_value(value)) : json_text(value);
    if (!text.ptr || slice_has_control(text))
        wrong(config, arena_printf(keep, "folder %zu has a size that is neither a text nor a whole "
                                   "number: write it as \"3TiB\", or as a number of bytes",
                                   number));
    else if (!setting_read(setting, text, keep, scratch, &why))
        wrong(config, arena_printf(keep, "folder %zu has the size \"%.*s\": the size %s", number,
                                   SLICE_ARG(text), why));
    else
        *ret = scratch->cache_size_bytes;
}

/* Reads one folder, and reports its mistakes. Returns false if it has no path. `number` counts from
 * 1. */
static bool read_row(struct config *config, size_t number, const json_t *row,
                     struct config_folder *ret)
{
    const json_t *path = json_object_get(row, "path"), *size = json_object_get(row, "size");
    slice text = json_text(path);
    *ret = (struct config_folder){ 0 };
    if (slice_has_control(text)) {
        wrong(config, arena_printf(&config->arena, "folder %zu has a control character in its "
                                   "path: write another path", number));
        return false;
    }
    if (!text.len || json_object_size(row) != 1 + (size_t)(size != NULL))
        wrong(config, arena_printf(&config->arena, "folder %zu must be written as {\"path\": "
                                   "\"/mnt/a\", \"size\": \"1TiB\"}. \"size\" may be left out, and "
                                   "no other member is allowed", number));
    while (text.len > 1 && slice_ends(text, S("/")))
        text.len--;
    ret->path = arena_copy(&config->arena, text).ptr;
    if (size)
        read_size(config, number, size, &ret->size_bytes);
    return text.len > 0;
}

static void read_rows(struct config *config, const json_t *rows)
{
    size_t count = json_array_size(rows), good = 0;
    if (!json_is_array(rows) || count == 0 || count > CONFIG_FOLDERS_MAX) {
        wrong(config, count > CONFIG_FOLDERS_MAX ? S("has more than 64 folders: list at most 64")
                                                 : S("must be an array of folders: " SHAPE));
        return;
    }
    struct config_folder *folders = arena_alloc(&config->arena, count * sizeof(*folders));
    for (size_t i = 0; i < count; i++)
        good += read_row(config, i + 1, json_array_get(rows, i), &folders[good]);
    if (!good)
        return;
    config->folders = folders;
    config->folder_count = good;
}

void config_folders_read(struct config *config)
{
    static const char *const others[] = { "cache_dir", "cache_size" };
    struct config_group all = config_group_global(config);
    struct config_folder *only = arena_alloc(&config->arena, sizeof(*only));
    *only = (struct config_folder){ config->cache_dir, config->cache_size_bytes };
    config->folders = only;
    config->folder_count = 1;
    if (!config->cache_dirs[0])
        return;
    for (size_t i = 0; i < countof(others); i++)
        if (config_where_of(&all, others[i])->from != FROM_DEFAULT)
            config_wrong(config, &all, others[i], "can't be set together with cache_dirs: list all "
                         "folders, and their sizes, in cache_dirs, and remove %s", others[i]);
    json_t *rows = json_loads(config->cache_dirs, JSON_REJECT_DUPLICATES, NULL);
    read_rows(config, rows);
    json_decref(rows);
}

/* ---- the rule ---- */

/* Reports the first folder, if any, that is the same as folder `i` or around it. */
static void stands_alone(struct config *config, const struct config_group *all, size_t i)
{
    const char *path = config->folders[i].path;
    slice real = slice_of(config_resolved(config, path));
    for (size_t j = 0; j < config->folder_count; j++) {
        const char *other = config->folders[j].path;
        slice around = slice_of(config_resolved(config, other));
        bool same = slice_eq(real, around);
        if (same ? j >= i : !path_is_inside(real, around))
            continue;
        config_wrong(config, all, config_folders_setting(config), same
                     ? "lists one folder twice, as %s and as %s: remove one of the two"
                     : "lists %s, which lies inside %s: list folders that lie side by side",
                     path, other);
        return;
    }
}

void config_folders_rule(struct config *config, const struct config_group *all)
{
    const char *setting = config_folders_setting(config);
    bool several = strcmp(setting, "cache_dirs") == 0;
    if (!several && config_is_reported(config, all, setting))
        return;
    for (size_t i = 0; i < config->folder_count; i++) {
        if (config->folders[i].path[0] != '/')
            config_wrong(config, all, setting, "%s is not an absolute path: write a path that "
                         "begins with /", config->folders[i].path);
        else
            stands_alone(config, all, i);
    }
}
