/* config_file.c - settings from the file. SPDX-License-Identifier: Apache-2.0
 *
 * The settings file is one JSON object, which only this file and json_place.c read. The members
 * "origins", "buckets" and "keys" hold groups: each of their entries is a group. A member whose
 * name begins with '#' is a comment. Any other member is a general setting: a GLOBAL or a CONSTANT
 * row of config.def. Each value and each mistake has its line and column (json_place.h). */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/config_inside.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_place.h"

#define FILE_BYTES_MAX (1 * MIB)

struct loading {
    struct config *config;
    const char *file;
    slice text;                 /* of the file */
    struct json_places places;
};

bool config_read_bytes(const char *path, size_t max, struct arena *keep, slice *ret,
                       const char **ret_why)
{
    if (file_read(path, max, keep, ret))
        return true;
    *ret_why = file_read_fault(path, max, errno, keep);
    return false;
}

static const char *const lists[] = {
    [SCOPE_ORIGIN] = "origins", [SCOPE_BUCKET] = "buckets", [SCOPE_KEY] = "keys",
};

/* Returns the place of a value in a group (if `of_value`), or the place of the value's name.
 * `steps` is the path from the group to the value. */
static struct setting_where place(const struct loading *load, const struct config_group *group,
                                  const struct json_step *steps, size_t step_count, bool of_value)
{
    struct json_step all[JSON_PLACE_DEPTH] = { 0 };
    struct text_place key, value;
    size_t depth = 0;
    if (group->scope != SCOPE_GLOBAL)
        all[depth++] = (struct json_step){ slice_of(lists[group->scope]), 0 };
    if (group->scope == SCOPE_KEY)
        all[depth++].index = (size_t)((struct config_key *)group->values - load->config->keys);
    else if (group->scope != SCOPE_GLOBAL)
        all[depth++] = (struct json_step){ slice_of(group->name), 0 };
    check(depth + step_count <= countof(all));
    for (size_t i = 0; i < step_count; i++)
        all[depth++] = steps[i];
    /* If a step is missing, the nearest place will do. */
    (void)!json_place(&load->places, all, depth, &key, &value);
    struct text_place at = of_value ? value : key;
    return (struct setting_where){ FROM_FILE, load->file, at.line, at.column, NULL };
}

static struct setting_where place_of(const struct loading *load, const struct config_group *group,
                                     const char *name, bool of_value)
{
    return place(load, group, &(struct json_step){ slice_of(name), 0 }, 1, of_value);
}

/* Reads the text of a scalar. The value of a text setting must be in quotes: otherwise the texts
 * 007 and true would be read as a number and a truth value. */
static bool scalar_text(const struct setting *setting, json_t *value, struct arena *keep,
                        slice *ret, const char **ret_why)
{
    bool number = setting_is_number(setting), truth = setting->type == TYPE_BOOL;
    *ret_why = number  ? "must be a whole number; a size or duration may also be a whole number "
                         "with its unit, in double quotes"
               : truth ? "must be true or false"
                       : "must be text in double quotes";
    if (json_is_string(value))
        *ret = json_text(value);
    else if (json_is_integer(value) && number)
        *ret = arena_printf(keep, "%jd", (intmax_t)json_integer_value(value));
    else if (json_is_boolean(value) && truth)
        *ret = json_is_true(value) ? S("true") : S("false");
    else
        return false;
    return true;
}

static bool is_group_name(slice name)
{
    return slice_is_one_of(name, lists + SCOPE_ORIGIN, countof(lists) - SCOPE_ORIGIN);
}

/* Also finds a setting from the beginning of its name ("fresh" for "freshness"), and from a name
 * with a prefix too many ("origin_url" for "url" in an origin). */
static const char *nearest_of_group(const struct config_group *group, const char *name)
{
    const char *nearest = setting_nearest(group->scope, slice_of(name));
    for (size_t i = SCOPE_ORIGIN; group->scope == SCOPE_GLOBAL && i < countof(lists); i++)
        if (name_distance(slice_of(lists[i]), slice_of(name)) <= 1)
            nearest = lists[i];
    for (size_t i = 0; !nearest && strlen(name) >= 3 && i < setting_count; i++)
        if (settings[i].scope == group->scope &&
            (slice_starts(slice_of(settings[i].name), slice_of(name)) ||
             slice_ends(slice_of(name), slice_of(settings[i].name))))
            nearest = settings[i].name;
    return nearest;
}

static void read_member(struct loading *load, const struct config_group *group, const char *name,
                        json_t *value)
{
    struct config *config = load->config;
    bool by_file;
    const struct setting *setting = setting_resolve(group->scope, slice_of(name), &by_file);
    const char *key = config_path(group, name, &config->arena), *why;
    struct setting_where at_key = place_of(load, group, name, false);
    if (setting && setting->scope == SCOPE_GONE) {    /* no mistake: cli/warn.c only warns */
        group->where[setting - settings] = at_key;
        return;
    }
    if (!setting || strchr(name, '-')) {
        config_mistake_unknown(config, &at_key, key, nearest_of_group(group, name));
        return;
    }
    if (group->scope == SCOPE_GLOBAL && slice_eq(slice_of(name), S("config"))) {
        config_mistake_add(config, &at_key, key, NULL, "can't be set in the settings file, "
                           "because this setting names the file: use --config FILE or "
                           "PENSTOCK_CONFIG");
        return;
    }
    struct setting_where at_value = place_of(load, group, name, true);
    slice text;
    if (scalar_text(setting, value, &config->arena, &text, &why)) {
        config_assign(config, group, setting, by_file, text, &at_value);
    } else {
        config_mistake_add(config, &at_value, key, NULL, "%s", why);
        group->where[setting - settings] = at_value;
    }
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

#define THE_LIST SIZE_MAX

/* Adds a mistake at one of three places of a policy:
 * - at a row, if `list` is NULL;
 * - at the row's list `list` ("allow" or "on"), if `word` is THE_LIST;
 * - otherwise at the word of that list with the index `word`. */
static void policy_mistake(struct loading *load, const struct config_group *group, size_t row,
                           const char *list, size_t word, const char *why)
{
    const struct json_step steps[] = {
        { S("policy"), 0 }, { { NULL, 0 }, row }, { slice_of(list), 0 }, { { NULL, 0 }, word },
    };
    size_t count = !list ? 2 : word == THE_LIST ? 3 : 4;
    struct setting_where at = place(load, group, steps, count, true);
    config_mistake_add(load->config, &at, config_path(group, "policy", &load->config->arena), NULL,
                       "%s", why);
}

static unsigned read_allow(struct loading *load, const struct config_group *group, size_t row,
                           const json_t *words)
{
    unsigned rights = 0;
    size_t i;
    json_t *word;
    if (!json_array_size(words))
        policy_mistake(load, group, row, "allow", THE_LIST, "has an empty \"allow\", which allows "
                       "nothing: list rights (read, list, write, admin, cache or all), or remove this "
                       "entry of the policy");
    json_array_foreach(words, i, word) {
        unsigned right = config_policy_right(json_text(word));
        rights |= right;
        if (!right)
            policy_mistake(load, group, row, "allow", i,
                           arena_printf(&load->config->arena, "has \"%.*s\" in \"allow\": a right "
                                        "must be read, list, write, admin, cache or all",
                                        SLICE_ARG(json_text(word))).ptr);
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
        policy_mistake(load, group, row, "on", THE_LIST, "has an empty \"on\", which covers no "
                       "bucket: list buckets, or leave \"on\" out, which means all buckets");
    json_array_foreach(words, i, word) {
        const char *why = config_policy_on_breaks(json_text(word), &load->config->arena);
        if (why)
            policy_mistake(load, group, row, "on", i, why);
        else
            config_policy_add(load->config, group->values, rights, json_text(word));
    }
}

/* Reads a policy that is an array of { "allow": [...], "on": [...] }. */
static void read_policy(struct loading *load, const struct config_group *group, json_t *rows)
{
    struct config *config = load->config;
    struct setting_where at = place_of(load, group, "policy", true);
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row) {
        const json_t *allow = json_object_get(row, "allow"), *on = json_object_get(row, "on");
        size_t known = 1 + (on != NULL);
        if (!are_texts(allow) || (on && !are_texts(on)) || json_object_size(row) != known)
            policy_mistake(load, group, i, NULL, 0, "must be an array of { \"allow\": "
                           "[\"read\", ...], \"on\": [\"BUCKET\", ...] }, where \"on\" may be left "
                           "out, and no other member is allowed");
        else
            read_on(load, group, i, on, read_allow(load, group, i, allow));
    }
    char *text = json_dumps(rows, JSON_COMPACT);
    config_assign(config, group, setting_find(SCOPE_KEY, S("policy")), false, slice_of(text), &at);
    free(text);
    ((struct config_key *)group->values)->rows_read = true;
    if (!json_array_size(rows))
        config_wrong(config, group, "policy", "is empty, so this client has no rights: list "
                     "rights here, or remove the client's row from keys");
}

/* Turns the array into its JSON text, which config_folders.c reads. A variable or flag gives the
 * same text. */
static void read_folders(struct loading *load, const struct config_group *group, json_t *rows)
{
    struct setting_where at = place_of(load, group, "cache_dirs", true);
    char *text = json_dumps(rows, JSON_COMPACT);
    config_assign(load->config, group, setting_find(SCOPE_GLOBAL, S("cache_dirs")), false,
                  slice_of(text), &at);
    free(text);
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
        else if (group->scope == SCOPE_GLOBAL && slice_eq(slice_of(name), S("cache_dirs")) &&
                 json_is_array(value))
            read_folders(load, group, value);
        else
            read_member(load, group, name, value);
    }
}

/* Makes one group: sets the defaults, then reads the members of its object. */
static void read_group(struct loading *load, enum setting_scope scope, const char *name,
                       json_t *object)
{
    struct config *config = load->config;
    name = arena_copy(&config->arena, slice_of(name)).ptr;
    struct config_group group = config_group_add(config, scope, name);
    struct setting_where at = place(load, &group, NULL, 0, true);
    for (size_t i = 0; i < setting_count; i++)    /* a missing value has the place of its group */
        group.where[i] = (struct setting_where){ FROM_DEFAULT, at.name, at.line, at.column,
                                                  NULL };
    config_assign_defaults(config, &group);
    if (json_is_object(object))
        read_object(load, &group, object);
    else
        config_mistake_add(config, &at, config_path(&group, NULL, &config->arena), NULL,
                           "must be an object: { ... }");
}

static void list_mistake(struct loading *load, const char *list, const char *why)
{
    struct config_group global = config_group_global(load->config);
    struct setting_where at = place_of(load, &global, list, true);
    config_mistake_add(load->config, &at, list, NULL, "%s", why);
}

static void read_groups(struct loading *load, json_t *root)
{
    struct config *config = load->config;
    json_t *origins = json_object_get(root, "origins"), *buckets = json_object_get(root, "buckets");
    json_t *keys = json_object_get(root, "keys"), *value;
    /* One origin more, for the default origin; one key more, for the key pair of the setting access_key.
     * No array is empty. */
    config->origins = arena_alloc(&config->arena,
                                  (json_object_size(origins) + 1) * sizeof(*config->origins));
    config->buckets = arena_alloc(&config->arena,
                                  (json_object_size(buckets) + 1) * sizeof(*config->buckets));
    config->keys = arena_alloc(&config->arena, (json_array_size(keys) + 1) * sizeof(*config->keys));
    const char *name;
    for (enum setting_scope scope = SCOPE_ORIGIN; scope <= SCOPE_BUCKET; scope++) {
        json_t *list = scope == SCOPE_ORIGIN ? origins : buckets;
        if (list && !json_is_object(list))
            list_mistake(load, lists[scope], "must be an object: { ... }");
        json_object_foreach(list, name, value)
            if (name[0] != '#')
                read_group(load, scope, name, value);
    }
    if (keys && !json_is_array(keys))
        list_mistake(load, "keys", "must be an array: [ ... ]");
    else if (keys && !json_array_size(keys))
        list_mistake(load, "keys", "is an empty array, which does not lock clients out: an "
                     "empty array has the same effect as a file without \"keys\". Add a row, or "
                     "remove \"keys\" from the file");
    size_t index;
    json_array_foreach(keys, index, value)
        read_group(load, SCOPE_KEY, arena_printf(&config->arena, "keys[%zu]", index).ptr, value);
}

static void syntax_mistake(struct loading *load, int line, int column, const char *key,
                           const char *why)
{
    struct setting_where at = { FROM_FILE, load->file, (unsigned)MAX(line, 1),
                                (unsigned)MAX(column, 1), NULL };
    config_mistake_add(load->config, &at, key, NULL, "%s", why);
}

/* Some editors put a byte order mark before the text. JSON does not allow it. */
static void skip_byte_order_mark(struct loading *load)
{
    slice mark = S("\xef\xbb\xbf");
    if (!slice_starts(load->text, mark))
        return;
    load->text = slice_from(load->text, mark.len);
    syntax_mistake(load, 1, 1, "", "the file begins with a byte order mark: save it as UTF-8 "
                   "without this mark (BOM)");
}

/* Reports each name that an object has twice. `error` is the JSON library's report of the first
 * one: it is used if the scanner did not look so deep. */
static void repeat_mistakes(struct loading *load, const json_error_t *error)
{
    const struct json_repeat *repeat = load->places.repeats;
    if (!repeat)
        syntax_mistake(load, error->line, error->column, "", json_why(error));
    for (; repeat; repeat = repeat->next)
        syntax_mistake(load, (int)repeat->place.line, (int)repeat->place.column,
                       arena_copy(&load->config->arena, repeat->name).ptr,
                       arena_printf(&load->config->arena, "is given again (the first time at "
                                    "%u:%u): keep one", repeat->first.line,
                                    repeat->first.column).ptr);
}

/* Parses the whole text. If it can't be parsed, adds the mistake and returns NULL. A name that is
 * given twice is a mistake, too, but the rest of the text is still read. */
static json_t *parse(struct loading *load, struct arena *scratch)
{
    json_error_t twice, error;
    if (config_is_blank(load->text)) {
        const char *odd = file_odd_kind(load->file), *why = odd
            ? arena_printf(&load->config->arena, "it is %s that gives no text. Name a settings "
                           "file (--config FILE or PENSTOCK_CONFIG)", odd).ptr
            : "the file is empty: write { \"NAME\": VALUE, ... } into it, or name another file "
              "(--config FILE or PENSTOCK_CONFIG)";
        syntax_mistake(load, 1, 1, "", why);
        return NULL;
    }
    json_t *root = json_loadb(load->text.ptr, load->text.len, JSON_REJECT_DUPLICATES, &twice);
    bool repeats = !root && json_error_code(&twice) == json_error_duplicate_key;
    error = twice;
    if (repeats)
        root = json_loadb(load->text.ptr, load->text.len, 0, &error);
    if (!json_is_object(root)) {
        const char *why = root ? "not a JSON object: " JSON_NO_OBJECT
            : arena_printf(&load->config->arena, "not valid JSON: %s", json_why(&error)).ptr;
        syntax_mistake(load, root ? 1 : error.line, root ? 1 : error.column, "", why);
        json_decref(root);
        return NULL;
    }
    json_places_read(&load->places, load->text, scratch);
    if (repeats)
        repeat_mistakes(load, &twice);
    return root;
}

void config_read_file(struct config *config, const char *path, bool must_exist)
{
    struct loading load = { .config = config,
                            .file = arena_copy(&config->arena, slice_of(path)).ptr };
    struct arena scratch = { 0 };
    const char *why;
    json_t *root = NULL;
    if (must_exist || access(path, F_OK) == 0) {
        if (config_read_bytes(path, FILE_BYTES_MAX, &config->arena, &load.text, &why)) {
            skip_byte_order_mark(&load);
            root = parse(&load, &scratch);
        } else {
            struct setting_where at = { FROM_FILE, load.file, 0, 0, NULL };
            config_mistake_add(config, &at, "", NULL, "the file can't be read: %s. Name a "
                               "settings file that Penstock's user may read (--config FILE or "
                               "PENSTOCK_CONFIG)", why);
        }
    }
    if (root) {
        struct config_group global = config_group_global(config);
        read_object(&load, &global, root);
    }
    config->file_unread = !root && config->mistakes;
    read_groups(&load, root);
    json_decref(root);
    arena_free(&scratch);
}
