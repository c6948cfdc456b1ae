/* config.c - settings from flags, environment and file. SPDX-License-Identifier: Apache-2.0
 *
 * Every row of the table is filled from its default, then from the file, the environment and the flags,
 * so the last word wins and each value knows who said it. Nothing stops at the first mistake: all
 * are kept, in that order. Then groups inherit what they leave out, and config_rules.c looks at the whole.
 * A member of the file whose name begins with '#' is a comment. */
#include "base/config.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/config_inside.h"
#include "base/json_place.h"

#define FILE_BYTES_MAX (1 * MIB)
#define SECRET_BYTES_MAX 8192u

struct loading {
    struct config *config;
    const char *file;
    slice text;                 /* of the file */
};

/* ---- mistakes ---- */

void config_mistake_add(struct config *config, const struct setting_where *at, const char *key,
                        const char *nearest, const char *fmt, ...)
{
    struct text text = text_in(&config->arena);
    char line[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof(line), fmt, args);
    va_end(args);
    text_add(&text, slice_of(line));
    text_char(&text, '\0');

    struct config_mistake *mistake = arena_alloc(&config->arena, sizeof(*mistake));
    mistake->file = at->line || at->from == FROM_FILE ? at->name
                    : at->from == FROM_ENV  ? "environment"
                    : at->from == FROM_FLAG ? "command line"
                                            : "settings";
    mistake->line = at->line;
    mistake->column = at->column;
    mistake->key = at->from == FROM_ENV || at->from == FROM_FLAG ? at->name : key;
    mistake->text = text.ptr;
    mistake->nearest = nearest;
    *config->mistakes_end = mistake;
    config->mistakes_end = &mistake->next;
}

slice config_mistake_line(const struct config_mistake *mistake, struct arena *keep)
{
    struct text line = text_in(keep);
    text_printf(&line, "%s:", mistake->file);
    if (mistake->line)
        text_printf(&line, "%u:%u:", mistake->line, mistake->column);
    text_printf(&line, mistake->key[0] ? " %s: %s" : "%s %s", mistake->key, mistake->text);
    if (mistake->nearest)
        text_printf(&line, " (did you mean \"%s\"?)", mistake->nearest);
    return text_slice(&line);
}

slice config_where(const struct setting_where *where, struct arena *keep)
{
    switch (where->from) {
    case FROM_FILE: return arena_printf(keep, "%s:%u", where->name, where->line);
    case FROM_ENV: return arena_printf(keep, "env %s", where->name);
    case FROM_FLAG: return arena_printf(keep, "flag %s", where->name);
    default: return S("default");
    }
}

/* ---- one value ---- */

static const char *key_of(struct config *config, const struct config_group *group, const char *name)
{
    return arena_printf(&config->arena, "%s%s", group->path, name).ptr;
}

void config_assign(struct config *config, const struct config_group *group,
                   const struct setting *setting, slice text, const struct setting_where *where)
{
    const char *why;
    if (!setting_read(setting, text, &config->arena, group->values, &why))
        config_mistake_add(config, where, key_of(config, group, setting->name), NULL, "%s", why);
    group->where[setting - settings] = *where;
}

/* All of a file, with at most max bytes. On failure *ret_why. */
static bool read_file(const char *path, size_t max, struct arena *keep, slice *ret,
                      const char **ret_why)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        *ret_why = strerror(errno);
        return false;
    }
    char *bytes = arena_alloc(keep, max + 1);
    size_t len = 0;
    ssize_t got;
    while (len <= max && (got = read(fd, bytes + len, max + 1 - len)) > 0)
        len += (size_t)got;
    *ret_why = got < 0 ? strerror(errno) : "the file is too large";
    close(fd);
    if (got < 0 || len > max)
        return false;
    *ret = (slice){ bytes, len };
    return true;
}

/* A mounted secret: the value is the file's text without the newline at its end. */
static void assign_file(struct config *config, const struct config_group *group,
                        const struct setting *setting, slice path, const struct setting_where *where)
{
    slice secret;
    const char *why;
    const char *name = arena_copy(&config->arena, path).ptr;
    if (!read_file(name, SECRET_BYTES_MAX, &config->arena, &secret, &why)) {
        const char *key = key_of(config, group, arena_printf(&config->arena, "%s_file",
                                                             setting->name).ptr);
        config_mistake_add(config, where, key, NULL, "can't read %s: %s", name, why);
        return;
    }
    while (secret.len && (secret.ptr[secret.len - 1] == '\n' || secret.ptr[secret.len - 1] == '\r'))
        secret.len--;
    config_assign(config, group, setting, secret, where);
}

/* Gives a name its value, be it a setting or a secret's file. False: no such name. */
bool config_assign_named(struct config *config, const struct config_group *group, slice name,
                         slice value, const struct setting_where *where)
{
    const struct setting *setting = setting_find(group->scope, name);
    if (setting) {
        config_assign(config, group, setting, value, where);
        return true;
    }
    setting = setting_find_file(group->scope, name);
    if (setting)
        assign_file(config, group, setting, value, where);
    return setting != NULL;
}

const char *config_nearest(enum setting_scope scope, slice name)
{
    const struct setting *nearest = setting_nearest(scope, name);
    return nearest ? nearest->name : NULL;
}

/* Defaults that don't inherit; the others wait for inherit(). */
static void assign_defaults(struct config *config, const struct config_group *group)
{
    for (size_t i = 0; i < setting_count; i++) {
        const struct setting *setting = &settings[i];
        if (setting->scope != group->scope || setting->standard[0] == '=')
            continue;
        const char *why;
        bool good = setting_read(setting, slice_of(setting->standard), &config->arena,
                                 group->values, &why);
        check(good);
    }
}

static void inherit(struct config *config, void *group, struct setting_where *where,
                    enum setting_scope scope)
{
    for (size_t i = 0; i < setting_count; i++) {
        const struct setting *setting = &settings[i];
        if (setting->scope != scope || setting->standard[0] != '=' || where[i].from != FROM_DEFAULT)
            continue;
        size_t from = setting_at(SCOPE_GLOBAL, slice_of(setting->standard + 1));
        setting_copy(setting, group, &settings[from], config);
        where[i] = config->where[from];
    }
}

static struct setting_where *where_new(struct config *config)
{
    return arena_alloc(&config->arena, setting_count * sizeof(struct setting_where));
}

struct config_group config_group_global(struct config *config)
{
    return (struct config_group){ SCOPE_GLOBAL, config, config->where, "", { { { 0 }, 0 } }, 0 };
}

/* ---- the file ---- */

static struct setting_where file_where(const struct loading *load, const struct config_group *group,
                                       const char *name, bool of_value)
{
    struct json_step steps[4];
    size_t depth = group->depth;
    memcpy(steps, group->steps, depth * sizeof(steps[0]));
    if (name)
        steps[depth++] = (struct json_step){ slice_of(name), 0 };
    struct text_place key, value;
    bool ignored = json_place(load->text, steps, depth, &key, &value);
    (void)ignored;    /* the nearest place is good enough */
    struct text_place place = of_value ? value : key;
    return (struct setting_where){ FROM_FILE, load->file, place.line, place.column };
}

/* The text of a scalar. Text must be in quotes, so that 007 or true are what they look like. */
static bool scalar_text(const struct setting *setting, json_t *value, struct arena *keep, slice *ret,
                        const char **ret_why)
{
    *ret_why = "must be text in double quotes";
    bool text = setting_is_text(setting);
    if (json_is_string(value))
        *ret = (slice){ json_string_value(value), json_string_length(value) };
    else if (json_is_integer(value) && !text && setting->type != TYPE_BOOL)
        *ret = arena_printf(keep, "%jd", (intmax_t)json_integer_value(value));
    else if (json_is_boolean(value) && setting->type == TYPE_BOOL)
        *ret = json_is_true(value) ? S("true") : S("false");
    else if (setting->type == TYPE_BOOL)
        return *ret_why = "must be true or false", false;
    else if (!text)
        return *ret_why = "must be a whole number, or text in double quotes", false;
    else
        return false;
    return true;
}

static bool is_group_name(slice name)
{
    return slice_eq(name, S("origins")) || slice_eq(name, S("buckets")) || slice_eq(name, S("keys"));
}

static const char *nearest_of_group(const struct config_group *group, const char *name)
{
    static const char *const groups[] = { "origins", "buckets", "keys" };
    const char *nearest = config_nearest(group->scope, slice_of(name));
    for (size_t i = 0; group->scope == SCOPE_GLOBAL && i < countof(groups); i++)
        if (name_distance(slice_of(groups[i]), slice_of(name)) <= 1)
            nearest = groups[i];
    return nearest;
}

static void read_member(struct loading *load, const struct config_group *group, const char *name,
                        json_t *value)
{
    struct config *config = load->config;
    const struct setting *setting = setting_find(group->scope, slice_of(name));
    const struct setting *secret = setting ? NULL : setting_find_file(group->scope, slice_of(name));
    const char *key = key_of(config, group, name), *why;
    struct setting_where at_key = file_where(load, group, name, false);
    if ((!setting && !secret) || strchr(name, '-')) {
        config_mistake_add(config, &at_key, key, nearest_of_group(group, name), "no such setting");
        return;
    }
    if (group->scope == SCOPE_GLOBAL && slice_eq(slice_of(name), S("config"))) {
        config_mistake_add(config, &at_key, key, NULL, "can't be set in the file itself");
        return;
    }
    struct setting_where at_value = file_where(load, group, name, true);
    slice text;
    if (!scalar_text(setting ? setting : secret, value, &config->arena, &text, &why))
        config_mistake_add(config, &at_value, key, NULL, "%s", why);
    else if (setting)
        config_assign(config, group, setting, text, &at_value);
    else
        assign_file(config, group, secret, text, &at_value);
}

static void read_object(struct loading *load, const struct config_group *group, json_t *object)
{
    const char *name;
    json_t *value;
    json_object_foreach(object, name, value)
        if (name[0] != '#' && !(group->scope == SCOPE_GLOBAL && is_group_name(slice_of(name))))
            read_member(load, group, name, value);
}

/* The object of one group: its defaults, then what it says. */
static void read_group(struct loading *load, enum setting_scope scope, const char *list,
                       const char *name, size_t index, json_t *object, void *values,
                       struct setting_where **ret_where, const char **ret_name)
{
    struct config *config = load->config;
    struct config_group group = { .scope = scope, .values = values, .where = where_new(config), .depth = 2 };
    group.steps[0].name = slice_of(list);
    group.steps[1] = (struct json_step){ slice_of(name), index };
    *ret_where = group.where;
    *ret_name = name ? arena_copy(&config->arena, slice_of(name)).ptr
                     : arena_printf(&config->arena, "%s[%zu]", list, index).ptr;
    slice path = name ? arena_printf(&config->arena, "%s.%s.", list, name)
                      : arena_printf(&config->arena, "%s.", *ret_name);
    group.path = path.ptr;
    struct setting_where at = file_where(load, &group, NULL, true);
    for (size_t i = 0; i < setting_count; i++)    /* so that what is missing has a place too */
        group.where[i] = (struct setting_where){ FROM_DEFAULT, at.name, at.line, at.column };
    assign_defaults(config, &group);
    if (json_is_object(object)) {
        read_object(load, &group, object);
    } else {
        slice key = arena_copy(&config->arena, slice_sub(path, 0, path.len - 1));
        config_mistake_add(config, &at, key.ptr, NULL, "must be an object: { ... }");
    }
}

/* The member of that name if it is what it must be, else NULL, with a mistake if it is something else. */
static json_t *group_list(struct loading *load, json_t *root, const char *name, bool array)
{
    json_t *list = json_object_get(root, name);
    if (!list || (array ? json_is_array(list) : json_is_object(list)))
        return list;
    struct config_group global = config_group_global(load->config);
    struct setting_where at = file_where(load, &global, name, true);
    config_mistake_add(load->config, &at, name, NULL, array ? "must be an array: [ ... ]"
                                                            : "must be an object: { ... }");
    return NULL;
}

static void read_groups(struct loading *load, json_t *root)
{
    struct config *config = load->config;
    json_t *origins = group_list(load, root, "origins", false);
    json_t *buckets = group_list(load, root, "buckets", false);
    json_t *keys = group_list(load, root, "keys", true), *value;
    /* one more of each: the default origin, and the key pair of the GLOBAL rows */
    config->origins = arena_alloc(&config->arena,
                                  (json_object_size(origins) + 1) * sizeof(*config->origins));
    config->buckets = arena_alloc(&config->arena,
                                  (json_object_size(buckets) + 1) * sizeof(*config->buckets));
    config->keys = arena_alloc(&config->arena, (json_array_size(keys) + 1) * sizeof(*config->keys));
    const char *name;
    json_object_foreach(origins, name, value) {
        if (name[0] == '#')
            continue;
        struct config_origin *origin = &config->origins[config->origin_count++];
        read_group(load, SCOPE_ORIGIN, "origins", name, 0, value, origin, &origin->where, &origin->name);
    }
    json_object_foreach(buckets, name, value) {
        if (name[0] == '#')
            continue;
        struct config_bucket *bucket = &config->buckets[config->bucket_count++];
        read_group(load, SCOPE_BUCKET, "buckets", name, 0, value, bucket, &bucket->where, &bucket->name);
    }
    size_t index;
    json_array_foreach(keys, index, value) {
        struct config_key *key = &config->keys[config->key_count++];
        read_group(load, SCOPE_KEY, "keys", NULL, index, value, key, &key->where, &key->name);
    }
}

/* The whole text as JSON, or NULL with the mistake. A name given twice is a mistake that doesn't keep
 * the rest from being looked at. */
static json_t *parse(struct loading *load)
{
    json_error_t error;
    size_t flags = JSON_REJECT_DUPLICATES;
    json_t *root = json_loadb(load->text.ptr, load->text.len, flags, &error);
    if (!root) {
        struct setting_where at = { FROM_FILE, load->file, (unsigned)MAX(error.line, 1),
                                    (unsigned)MAX(error.column, 1) };
        bool twice = json_error_code(&error) == json_error_duplicate_key;
        config_mistake_add(load->config, &at, "", NULL, twice ? "%s" : "not valid JSON: %s", error.text);
        if (twice)
            root = json_loadb(load->text.ptr, load->text.len, 0, &error);
    }
    if (root && !json_is_object(root)) {
        struct setting_where at = { FROM_FILE, load->file, 1, 1 };
        config_mistake_add(load->config, &at, "", NULL, "must be an object: { ... }");
        json_decref(root);
        root = NULL;
    }
    return root;
}

static void read_settings_file(struct config *config, const char *path, bool must_be_there)
{
    struct loading load = { config, arena_copy(&config->arena, slice_of(path)).ptr, { NULL, 0 } };
    const char *why;
    json_t *root = NULL;
    if (must_be_there || access(path, F_OK) == 0) {
        if (read_file(path, FILE_BYTES_MAX, &config->arena, &load.text, &why)) {
            root = parse(&load);
        } else {
            struct setting_where at = { FROM_FILE, load.file, 0, 0 };
            config_mistake_add(config, &at, "", NULL, "can't read it: %s", why);
        }
    }
    if (root) {
        struct config_group global = config_group_global(config);
        read_object(&load, &global, root);
    }
    read_groups(&load, root);
    json_decref(root);
}

/* ---- the whole ---- */

/* The origin* settings are an origin like those of the file, and the first. */
static void add_default_origin(struct config *config)
{
    if (!config->origin[0])
        return;
    size_t at = setting_at(SCOPE_GLOBAL, S("origin"));
    memmove(config->origins + 1, config->origins, config->origin_count++ * sizeof(*config->origins));
    config->origins[0] = (struct config_origin){ .name = "default", .where = where_new(config) };
    config->origins[0].url = config->origin;
    config->origins[0].where[setting_at(SCOPE_ORIGIN, S("url"))] = config->where[at];
}

static void add_default_key(struct config *config)
{
    if (!config->access_key[0] && !config->secret_key[0])
        return;
    memmove(config->keys + 1, config->keys, config->key_count++ * sizeof(*config->keys));
    config->keys[0] = (struct config_key){
        .name = "", .where = where_new(config), .access_key = config->access_key,
        .secret_key = config->secret_key
    };
    config->keys[0].where[setting_at(SCOPE_KEY, S("access_key"))] =
        config->where[setting_at(SCOPE_GLOBAL, S("access_key"))];
    config->keys[0].where[setting_at(SCOPE_KEY, S("secret_key"))] =
        config->where[setting_at(SCOPE_GLOBAL, S("secret_key"))];
}

static void complete_groups(struct config *config)
{
    add_default_origin(config);
    add_default_key(config);
    for (size_t i = 0; i < config->origin_count; i++)
        inherit(config, &config->origins[i], config->origins[i].where, SCOPE_ORIGIN);
    if (config->origin_count && (config->origin[0] || config->origin_count == 1))
        config->origin_default = &config->origins[0];
    for (size_t i = 0; i < config->bucket_count; i++) {
        struct config_bucket *bucket = &config->buckets[i];
        inherit(config, bucket, bucket->where, SCOPE_BUCKET);
        bucket->prefix = slice_of(bucket->name);
        bucket->bucket = slice_cut(&bucket->prefix, '/');
        bucket->from = bucket->origin[0] ? NULL : config->origin_default;
        for (size_t j = 0; j < config->origin_count; j++)
            if (strcmp(config->origins[j].name, bucket->origin) == 0)
                bucket->from = &config->origins[j];
    }
}

struct config *config_load(const struct config_sources *from)
{
    struct config *config = must_alloc(sizeof(*config));
    config->mistakes_end = &config->mistakes;
    config->where = where_new(config);
    struct config_group global = config_group_global(config);
    assign_defaults(config, &global);
    bool named;
    const char *path = config_file_path(from, &named);
    read_settings_file(config, path, named);
    config_read_env(config, from->env);
    config_read_flags(config, from->argc, from->argv);
    complete_groups(config);
    config_rules(config);
    return config;
}

void config_free(struct config **config)
{
    if (!*config)
        return;
    struct arena arena = (*config)->arena;
    free(*config);
    arena_free(&arena);
    *config = NULL;
}
