/* config_file.c - settings from the file. SPDX-License-Identifier: Apache-2.0
 *
 * JSON, and the only file of this room that knows it. The members of the object are GLOBAL rows;
 * its members "origins", "buckets" and "keys" hold groups, "test" holds constants. A name that
 * begins with '#' is a comment. Each value and each mistake knows its line and column (json_place.h). */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/config_inside.h"

#define FILE_BYTES_MAX (1 * MIB)

struct loading {
    struct config *config;
    const char *file;
    slice text;                 /* of the file */
};

bool config_read_bytes(const char *path, size_t max, struct arena *keep, slice *ret,
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

static struct setting_where file_where(const struct loading *load, const struct config_group *group,
                                       const char *name, bool of_value)
{
    struct json_step steps[countof(group->steps) + 1];
    size_t depth = group->depth;
    memcpy(steps, group->steps, depth * sizeof(steps[0]));
    if (name)
        steps[depth++] = (struct json_step){ slice_of(name), 0 };
    struct text_place key, value;
    bool ignored = json_place(load->text, steps, depth, &key, &value);
    (void)ignored;    /* the nearest place is good enough */
    struct text_place place = of_value ? value : key;
    return (struct setting_where){ FROM_FILE, load->file, place.line, place.column, NULL };
}

/* The text of a scalar. Text must be in quotes, so that 007 or true are what they look like. */
static bool scalar_text(const struct setting *setting, json_t *value, struct arena *keep,
                        slice *ret, const char **ret_why)
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
    return slice_eq(name, S("origins")) || slice_eq(name, S("buckets")) ||
           slice_eq(name, S("keys")) || slice_eq(name, S("test"));
}

static const char *nearest_of_group(const struct config_group *group, const char *name)
{
    static const char *const groups[] = { "origins", "buckets", "keys" };
    const char *nearest = config_nearest(group->scope, slice_of(name));
    for (size_t i = 0; group->scope == SCOPE_GLOBAL && i < countof(groups); i++)
        if (name_distance(slice_of(groups[i]), slice_of(name)) <= 1)
            nearest = groups[i];
    for (size_t i = 0; !nearest && strlen(name) >= 3 && i < setting_count; i++)
        if (settings[i].scope == group->scope &&    /* "fresh", or "origin_tries" in an origin */
            (slice_starts(slice_of(settings[i].name), slice_of(name)) ||
             slice_ends(slice_of(name), slice_of(settings[i].name))))
            nearest = settings[i].name;
    return nearest;
}

/* A name that had an effect in an older version: the file is good all the same. */
static bool is_gone(struct loading *load, const struct config_group *group, const char *name)
{
    struct config *config = load->config;
    const struct setting_gone *row = setting_find_gone(group->scope, slice_of(name));
    if (!row)
        return false;
    struct config_gone *gone = arena_alloc(&config->arena, sizeof(*gone));
    *gone = (struct config_gone){ config->gone, row, config_key_of(config, group, name),
                                  file_where(load, group, name, false) };
    config->gone = gone;
    return true;
}

static void read_member(struct loading *load, const struct config_group *of, const char *name,
                        json_t *value)
{
    struct config *config = load->config;
    struct config_group own = *of, *group = &own;
    if (of->scope == SCOPE_GLOBAL)
        own.scope = config_group_of(config, slice_of(name)).scope;
    const struct setting *setting = setting_find(group->scope, slice_of(name));
    const struct setting *secret = setting ? NULL : setting_find_file(group->scope, slice_of(name));
    const char *key = config_key_of(config, group, name), *why;
    struct setting_where at_key = file_where(load, group, name, false);
    if (!setting && is_gone(load, group, name))
        return;
    if ((!setting && !secret) || strchr(name, '-')) {
        config_mistake_add(config, &at_key, key, nearest_of_group(group, name), "no such setting");
        return;
    }
    if (group->scope == SCOPE_GLOBAL && slice_eq(slice_of(name), S("config"))) {
        config_mistake_add(config, &at_key, key, NULL, "can't be set in the file itself");
        return;
    }
    struct setting_where at_value = file_where(load, group, name, true);
    if (of->scope == SCOPE_CONSTANT)
        at_value.from = FROM_TEST;
    slice text;
    if (scalar_text(setting ? setting : secret, value, &config->arena, &text, &why)) {
        check(config_assign_named(config, group, slice_of(name), text, &at_value));
        return;
    }
    config_mistake_add(config, &at_value, key, NULL, "%s", why);
    if (setting)
        group->where[setting - settings] = at_value;
}

static bool are_texts(const json_t *array)
{
    size_t i;
    json_t *word;
    bool all = json_is_array(array);
    json_array_foreach(array, i, word)
        all &= json_is_string(word);
    return all;
}

static slice text_of(const json_t *word)
{
    return (slice){ json_string_value(word), json_string_length(word) };
}

#define THE_LIST SIZE_MAX

/* At a row of a policy (list NULL), at its list of that name, or at a word in there. */
static void policy_mistake(struct loading *load, const struct config_group *group, size_t row,
                           const char *list, size_t word, const char *why)
{
    struct config_group inner = *group;
    inner.steps[inner.depth++] = (struct json_step){ S("policy"), 0 };
    inner.steps[inner.depth++] = (struct json_step){ { NULL, 0 }, row };
    if (list)
        inner.steps[inner.depth++] = (struct json_step){ slice_of(list), 0 };
    if (list && word != THE_LIST)
        inner.steps[inner.depth++] = (struct json_step){ { NULL, 0 }, word };
    struct setting_where at = file_where(load, &inner, NULL, true);
    config_mistake_add(load->config, &at, config_key_of(load->config, group, "policy"), NULL, "%s",
                       why);
}

static unsigned read_allow(struct loading *load, const struct config_group *group, size_t row,
                           const json_t *words)
{
    unsigned rights = 0;
    size_t i;
    json_t *word;
    if (!json_array_size(words))
        policy_mistake(load, group, row, "allow", THE_LIST, "is empty, which allows nothing");
    json_array_foreach(words, i, word) {
        unsigned right = config_policy_right(text_of(word));
        rights |= right;
        if (!right)
            policy_mistake(load, group, row, "allow", i,
                           arena_printf(&load->config->arena, "\"allow\" knows read, list, write, "
                                        "admin and all, not \"%.*s\"",
                                        SLICE_ARG(text_of(word))).ptr);
    }
    return rights;
}

static void read_on(struct loading *load, const struct config_group *group, size_t row,
                    const json_t *words, unsigned rights)
{
    size_t i;
    json_t *word;
    if (!words)
        config_policy_add(load->config, group->values, rights, S(""));
    else if (!json_array_size(words))
        policy_mistake(load, group, row, "on", THE_LIST, "is empty, which allows nothing");
    json_array_foreach(words, i, word) {
        const char *why = config_policy_on_breaks(text_of(word), &load->config->arena);
        if (why)
            policy_mistake(load, group, row, "on", i, why);
        else
            config_policy_add(load->config, group->values, rights, text_of(word));
    }
}

/* A policy that is more than a word: an array of { "allow": [...], "on": [...] }. */
static void read_policy(struct loading *load, const struct config_group *group, json_t *rows)
{
    struct config *config = load->config;
    struct setting_where at = file_where(load, group, "policy", true);
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row) {
        const json_t *allow = json_object_get(row, "allow"), *on = json_object_get(row, "on");
        size_t known = 1 + (on != NULL);
        if (!are_texts(allow) || (on && !are_texts(on)) || json_object_size(row) != known)
            policy_mistake(load, group, i, NULL, 0, "must be an array of "
                           "{ \"allow\": [\"read\", ...], \"on\": [\"BUCKET\", ...] }");
        else
            read_on(load, group, i, on, read_allow(load, group, i, allow));
    }
    char *shown = json_dumps(rows, JSON_COMPACT);
    config_assign(config, group, setting_find(SCOPE_KEY, S("policy")), slice_of(shown), &at);
    free(shown);
    ((struct config_key *)group->values)->rows_read = true;
    if (!json_array_size(rows))
        config_mistake_add(config, &at, config_key_of(config, group, "policy"), NULL,
                           "is empty: such a client may do nothing; "
                           "take its row away, or say what it may do");
}

static void read_object(struct loading *load, const struct config_group *group, json_t *object)
{
    const char *name;
    json_t *value;
    json_object_foreach(object, name, value) {
        if (name[0] == '#' || (group->scope == SCOPE_GLOBAL && is_group_name(slice_of(name))))
            continue;
        if (group->scope == SCOPE_KEY && slice_eq(slice_of(name), S("policy")) &&
            json_is_array(value))
            read_policy(load, group, value);
        else
            read_member(load, group, name, value);
    }
}

/* The object of one group: its defaults, then what it says. */
static void read_group(struct loading *load, enum setting_scope scope, const char *list,
                       const char *name, size_t index, json_t *object, void *values,
                       struct setting_where **ret_where, const char **ret_name)
{
    struct config *config = load->config;
    struct config_group group = {
        .scope = scope, .values = values, .where = config_where_new(config), .depth = 2,
    };
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
        group.where[i] = (struct setting_where){ FROM_DEFAULT, at.name, at.line, at.column,
                                                  NULL };
    config_assign_defaults(config, &group);
    if (json_is_object(object)) {
        read_object(load, &group, object);
    } else {
        slice key = arena_copy(&config->arena, slice_sub(path, 0, path.len - 1));
        config_mistake_add(config, &at, key.ptr, NULL, "must be an object: { ... }");
    }
}

/* The member of that name, or NULL; with a mistake if it is not what it must be. */
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

static void read_constants(struct loading *load, json_t *root)
{
    struct config_group group = config_group_global(load->config);
    json_t *test = group_list(load, root, "test", false);
    group.scope = SCOPE_CONSTANT;
    group.path = "test.";
    group.steps[group.depth++].name = S("test");
    if (test)
        read_object(load, &group, test);
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
        read_group(load, SCOPE_ORIGIN, "origins", name, 0, value, origin, &origin->where,
                   &origin->name);
    }
    json_object_foreach(buckets, name, value) {
        if (name[0] == '#')
            continue;
        struct config_bucket *bucket = &config->buckets[config->bucket_count++];
        read_group(load, SCOPE_BUCKET, "buckets", name, 0, value, bucket, &bucket->where,
                   &bucket->name);
    }
    size_t index;
    if (keys && !json_array_size(keys)) {
        struct config_group global = config_group_global(config);
        struct setting_where at = file_where(load, &global, "keys", true);
        config_mistake_add(config, &at, "keys", NULL, "is empty, which is not what lets nobody in: "
                           "add a row, or leave it out");
    }
    json_array_foreach(keys, index, value) {
        struct config_key *key = &config->keys[config->key_count++];
        read_group(load, SCOPE_KEY, "keys", NULL, index, value, key, &key->where, &key->name);
    }
}

/* The commonest mistakes in JSON, which the parser does not name. */
static const char *comma_hint(const char *text)
{
    if (strstr(text, "near '}'") || strstr(text, "near ']'"))
        return " (a comma too many before it?)";
    return strstr(text, "expected near '\"'") ? " (a comma missing before it?)" : "";
}

/* The whole text as JSON, or NULL with the mistake. A name given twice is a mistake that doesn't
 * keep the rest from being looked at. */
static json_t *parse(struct loading *load)
{
    json_error_t error;
    size_t flags = JSON_REJECT_DUPLICATES;
    json_t *root = json_loadb(load->text.ptr, load->text.len, flags, &error);
    if (!root) {
        struct setting_where at = { FROM_FILE, load->file, (unsigned)MAX(error.line, 1),
                                    (unsigned)MAX(error.column, 1), NULL };
        bool twice = json_error_code(&error) == json_error_duplicate_key;
        config_mistake_add(load->config, &at, "", NULL, twice ? "%s%s" : "not valid JSON: %s%s",
                           error.text, comma_hint(error.text));
        if (twice)
            root = json_loadb(load->text.ptr, load->text.len, 0, &error);
    }
    if (root && !json_is_object(root)) {
        struct setting_where at = { FROM_FILE, load->file, 1, 1, NULL };
        config_mistake_add(load->config, &at, "", NULL, "must be an object: { ... }");
        json_decref(root);
        root = NULL;
    }
    return root;
}

void config_read_file(struct config *config, const char *path, bool must_be_there)
{
    struct loading load = { config, arena_copy(&config->arena, slice_of(path)).ptr, { NULL, 0 } };
    const char *why;
    json_t *root = NULL;
    if (must_be_there || access(path, F_OK) == 0) {
        if (config_read_bytes(path, FILE_BYTES_MAX, &config->arena, &load.text, &why)) {
            root = parse(&load);
        } else {
            struct setting_where at = { FROM_FILE, load.file, 0, 0, NULL };
            config_mistake_add(config, &at, "", NULL, "can't read it: %s", why);
        }
    }
    if (root) {
        struct config_group global = config_group_global(config);
        read_object(&load, &global, root);
    }
    config->file_unread = !root && config->mistakes;
    read_constants(&load, root);
    read_groups(&load, root);
    json_decref(root);
}
