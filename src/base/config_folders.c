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

static void wrong(struct config *config, const char *why)
{
    struct config_group all = config_group_global(config);
    if (!config_is_reported(config, &all, "cache_dirs"))
        config_wrong(config, &all, "cache_dirs", "%s", why);
}

/* Reads a size as cache_size is read. A number without a unit means bytes. */
static bool read_size(struct config *config, const json_t *value, uint64_t *ret)
{
    const struct setting *setting = setting_find(SCOPE_GLOBAL, S("cache_size"));
    struct arena *keep = &config->arena;
    struct config *scratch = arena_alloc(keep, sizeof(*scratch));
    const char *why;
    slice text = json_is_integer(value)
        ? arena_printf(keep, "%jd", (intmax_t)json_integer_value(value)) : json_text(value);
    if (!value)
        return true;
    if (!text.ptr) {
        wrong(config, "has a \"size\" that is neither a text nor a whole number: write it as "
              "\"3TiB\", or as a number of bytes");
        return false;
    }
    if (!setting_read(setting, text, keep, scratch, &why)) {
        wrong(config, arena_printf(keep, "has a \"size\" of \"%.*s\", but the value %s",
                                   SLICE_ARG(text), why).ptr);
        return false;
    }
    *ret = scratch->cache_size_bytes;
    return true;
}

/* Reads one folder; returns false after a mistake. */
static bool read_row(struct config *config, const json_t *row, struct config_folder *ret)
{
    const json_t *path = json_object_get(row, "path"), *size = json_object_get(row, "size");
    slice text = json_text(path);
    *ret = (struct config_folder){ 0 };
    if (!text.len || json_object_size(row) != 1 + (size_t)(size != NULL)) {
        wrong(config, "must be an array of folders: " SHAPE ". \"size\" may be left out, and no "
              "other member is allowed");
        return false;
    }
    while (text.len > 1 && slice_ends(text, S("/")))
        text.len--;
    ret->path = arena_copy(&config->arena, text).ptr;
    return read_size(config, size, &ret->size_bytes);
}

static void read_rows(struct config *config, const json_t *rows)
{
    size_t count = json_array_size(rows);
    if (!json_is_array(rows) || count == 0 || count > CONFIG_FOLDERS_MAX) {
        wrong(config, count > CONFIG_FOLDERS_MAX ? "has more than 64 folders: list at most 64"
                                                 : "must be an array of folders: " SHAPE);
        return;
    }
    struct config_folder *folders = arena_alloc(&config->arena, count * sizeof(*folders));
    for (size_t i = 0; i < count; i++)
        if (!read_row(config, json_array_get(rows, i), &folders[i]))
            return;
    config->folders = folders;
    config->folder_count = count;
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

void config_folders_rule(struct config *config, const struct config_group *all)
{
    const char *setting = config_folders_setting(config);
    if (config_is_reported(config, all, setting))
        return;
    for (size_t i = 0; i < config->folder_count; i++) {
        const char *path = config->folders[i].path;
        slice real = slice_of(config_resolved(config, path));
        if (path[0] != '/') {
            config_wrong(config, all, setting, "has a path that is not absolute: an absolute path "
                                               "begins with /");
            return;
        }
        for (size_t j = 0; j < config->folder_count; j++) {
            const char *other = config->folders[j].path;
            slice around = slice_of(config_resolved(config, other));
            bool twice = j < i && slice_eq(real, around);
            if (j == i || !path_is_inside(real, around) || (slice_eq(real, around) && !twice))
                continue;
            config_wrong(config, all, setting, twice
                         ? "lists one folder twice, as %s and as %s: remove one of the two"
                         : "lists %s, which lies inside %s: list folders that lie side by side",
                         path, other);
        }
    }
}
