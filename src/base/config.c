/* config.c - settings from flags, environment and file. SPDX-License-Identifier: Apache-2.0
 *
 * Every setting is a row of the table in config.def. GLOBAL rows are general settings; other rows
 * are members of a group, which is an entry of "origins", "buckets" or "keys" in the file. Every
 * row gets its default, then the value from the file (config_file.c), from the environment and from
 * the flags (config_args.c). So the last source wins. Each value records its source. A mistake does
 * not end the load: all mistakes are kept. Then each entry of "origins" and "buckets" inherits the
 * general settings that it leaves out. At the end config_rules.c checks the settings together. */
#include "base/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/config_inside.h"

#define SECRET_BYTES_MAX 8192u
#define REPEATED_BYTES_MAX 200u    /* bytes of a wrong value that a message repeats */

/* ---- mistakes ---- */

/* Adds a mistake at the end of the list. But mistakes in one file are kept in the order of their
 * lines and columns. */
static void put_in_order(struct config *config, struct config_mistake *mistake)
{
    struct config_mistake **at = &config->mistakes;
    while (*at && (!mistake->line || strcmp((*at)->file, mistake->file) != 0 ||
                   (*at)->line < mistake->line ||
                   ((*at)->line == mistake->line && (*at)->column <= mistake->column)))
        at = &(*at)->next;
    mistake->next = *at;
    *at = mistake;
}

/* A name that is no setting may have any character: one that a terminal would obey becomes "?". */
static const char *plainly(const char *name, struct arena *keep)
{
    struct text plain = text_in(keep);
    for (; *name; name++)
        text_char(&plain, (unsigned char)*name < ' ' || *name == 0x7f ? '?' : *name);
    text_char(&plain, '\0');
    return plain.ptr;
}

void config_mistake_add(struct config *config, const struct setting_where *at, const char *key,
                        const char *nearest, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);

    struct config_mistake *mistake = arena_alloc(&config->arena, sizeof(*mistake));
    mistake->file = at->line || at->from == FROM_FILE ? at->name
                    : at->from == FROM_ENV  ? "environment"
                    : at->from == FROM_FLAG ? "command line"
                                            : "settings";
    mistake->line = at->line;
    mistake->column = at->column;
    mistake->key = plainly(at->from == FROM_ENV || at->from == FROM_FLAG ? at->name : key,
                           &config->arena);
    mistake->text = arena_copy(&config->arena, slice_of(text)).ptr;
    mistake->nearest = nearest;
    put_in_order(config, mistake);
}

void config_mistake_unknown(struct config *config, const struct setting_where *at, const char *key,
                            const char *nearest)
{
    config_mistake_add(config, at, key, nearest, "no such setting%s",
                       nearest ? "" : " (penstock help settings lists all settings)");
}

bool config_is_reported(struct config *config, const struct config_group *group,
                        const char *member)
{
    const struct setting_where *at = config_where_of(group, member);
    bool has_name = at->from == FROM_ENV || at->from == FROM_FLAG;
    const char *key = has_name ? at->name : config_path(group, member, &config->arena);
    for (const struct config_mistake *m = config->mistakes; m; m = m->next)
        if (m->line == at->line && m->column == at->column &&
            (at->from == FROM_FILE || strcmp(m->key, key) == 0))
            return true;
    return false;
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

/* ---- groups ---- */

static const char *const lists[] = {
    [SCOPE_ORIGIN] = "origins.", [SCOPE_BUCKET] = "buckets.", [SCOPE_KEY] = "",
};

const char *config_path(const struct config_group *group, const char *member, struct arena *keep)
{
    const char *list = group->scope == SCOPE_GLOBAL ? "" : lists[group->scope];
    check(member || group->name[0] || group->scope != SCOPE_GLOBAL);
    return arena_printf(keep, "%s%s%s%s", list, group->name,
                        (list[0] || group->name[0]) && member ? "." : "", member ? member : "").ptr;
}

bool config_group_at(const struct config *config, enum setting_scope scope, size_t i,
                     struct config_group *ret)
{
    const struct config_origin *origin = &config->origins[i];
    const struct config_bucket *bucket = &config->buckets[i];
    const struct config_key *key = &config->keys[i];
    if (scope == SCOPE_GLOBAL && i == 0)
        *ret = (struct config_group){ scope, "", (void *)(uintptr_t)config, config->where };
    else if (scope == SCOPE_ORIGIN && i < config->origin_count)
        *ret = (struct config_group){ scope, origin->name, &config->origins[i], origin->where };
    else if (scope == SCOPE_BUCKET && i < config->bucket_count)
        *ret = (struct config_group){ scope, bucket->name, &config->buckets[i], bucket->where };
    else if (scope == SCOPE_KEY && i < config->key_count)
        *ret = (struct config_group){ scope, key->name, &config->keys[i], key->where };
    else
        return false;
    return true;
}

struct config_group config_group_global(struct config *config)
{
    return (struct config_group){ SCOPE_GLOBAL, "", config, config->where };
}

static struct setting_where *where_new(struct config *config)    /* all members FROM_DEFAULT */
{
    return arena_alloc(&config->arena, setting_count * sizeof(struct setting_where));
}

struct config_group config_group_add(struct config *config, enum setting_scope scope,
                                     const char *name)
{
    struct config_group group = { scope, name, NULL, where_new(config) };
    if (scope == SCOPE_ORIGIN) {
        struct config_origin *origin = &config->origins[config->origin_count++];
        *origin = (struct config_origin){ .name = name, .where = group.where };
        group.values = origin;
    } else if (scope == SCOPE_BUCKET) {
        struct config_bucket *bucket = &config->buckets[config->bucket_count++];
        *bucket = (struct config_bucket){ .name = name, .where = group.where };
        group.values = bucket;
    } else {
        check(scope == SCOPE_KEY);
        struct config_key *key = &config->keys[config->key_count++];
        *key = (struct config_key){ .name = name, .where = group.where };
        group.values = key;
    }
    return group;
}

struct setting_where *config_where_of(const struct config_group *group, const char *member)
{
    return &group->where[setting_at(group->scope, slice_of(member))];
}

bool config_is_given(const struct config_group *group, const char *member)
{
    const struct setting *row = &settings[setting_at(group->scope, slice_of(member))];
    const void *at = (const char *)group->values + row->offset;
    check(!setting_is_number(row));
    if (row->type == TYPE_BOOL)
        return *(const bool *)at;
    const char *text = *(const char *const *)at;
    return (text[0] && strcmp(text, row->unit) != 0) || config_where_of(group, member)->secret_file;
}

/* ---- one value ---- */

/* Returns true if a message may repeat the value. A text with '@' may be a URL with a password. */
static bool may_be_repeated(const struct setting *setting, slice text)
{
    return setting->type != TYPE_SECRET && !slice_has(text, '@') && !slice_has_control(text) &&
           text.len > 0;
}

bool config_is_blank(slice text)
{
    return slice_only(text, " \t\n\v\f\r");
}

/* Refuses an empty secret, because anybody could guess it. A secret is empty if, for example, a
 * substitution failed, or its file is not written yet. If the secret is empty, adds the mistake and
 * returns false. */
static bool secret_is_there(struct config *config, const struct config_group *group,
                            const struct setting *setting, slice text,
                            const struct setting_where *where)
{
    const char *path = where->secret_file;
    if (setting->type != TYPE_SECRET || !config_is_blank(text))
        return true;
    slice name = path ? arena_printf(&config->arena, "%s_file", setting->name)
                      : slice_of(setting->name);
    const char *key = config_path(group, name.ptr, &config->arena);
    if (path)
        config_mistake_add(config, where, key, NULL, "the file %s is empty: write the secret "
                           "into the file, or leave the setting out", path);
    else
        config_mistake_add(config, where, key, NULL, "is empty: give it a value, or leave it out");
    return false;
}

/* A URL is first read as a text. If no kind of origin accepts the URL, the value becomes empty. */
static bool read_value(struct config *config, const struct config_group *group,
                       const struct setting *setting, slice text, const char **ret_why)
{
    bool good = setting_read(setting, text, &config->arena, group->values, ret_why);
    if (!good || setting->type != TYPE_URL || !text.len ||
        url_judge(config->kinds, text, &config->arena, ret_why))
        return good;
    const char *ignored;
    good = setting_read(setting, S(""), &config->arena, group->values, &ignored);
    check(good);
    return false;
}

static void assign_text(struct config *config, const struct config_group *group,
                        const struct setting *setting, slice text,
                        const struct setting_where *where)
{
    const char *why;
    check(setting_belongs(setting, group->scope) && setting->scope != SCOPE_GONE);
    bool there = secret_is_there(config, group, setting, text, where);
    if (there && !read_value(config, group, setting, text, &why)) {
        const char *key = config_path(group, setting->name, &config->arena);
        slice repeated = slice_sub(text, 0, REPEATED_BYTES_MAX);
        if (where->secret_file)
            config_mistake_add(config, where, key, NULL, "the text of %s %s: write only the secret "
                               "into that file, on one line", where->secret_file, why);
        else if (!may_be_repeated(setting, text))
            config_mistake_add(config, where, key, NULL, "%s", why);
        else
            config_mistake_add(config, where, key, NULL, "%s (given: \"%.*s\")", why,
                               SLICE_ARG(repeated));
    }
    group->where[setting - settings] = *where;
}

/* Reads a secret from its file. The value is the file's text without the newlines at its end, which
 * editors leave, and without the spaces around it. */
static void assign_file(struct config *config, const struct config_group *group,
                        const struct setting *setting, slice path,
                        const struct setting_where *where)
{
    slice secret;
    const char *why;
    const char *name = arena_copy(&config->arena, path).ptr;
    struct setting_where inside = *where;
    inside.secret_file = name;
    bool given = !config_is_blank(path);
    if (given && config_read_bytes(name, SECRET_BYTES_MAX, &config->arena, &secret, &why)) {
        secret = slice_trim(slice_without_line_end(secret));
        assign_text(config, group, setting, secret, &inside);
        return;
    }
    group->where[setting - settings] = inside;    /* counts as given, although not readable */
    const char *key = arena_printf(&config->arena, "%s_file",
                                   config_path(group, setting->name, &config->arena)).ptr;
    if (given)
        config_mistake_add(config, where, key, NULL, "can't read %s: %s. Name a file that holds "
                           "the secret and that Penstock's user may read", name, why);
    else
        config_mistake_add(config, where, key, NULL, "is empty: name a file, or leave it out");
}

/* It is a mistake if one source gives both a secret and a file of that secret, because neither wins
 * over the other. */
static void stand_alone(struct config *config, const struct config_group *group,
                        const struct setting *setting, bool by_file,
                        const struct setting_where *where)
{
    const struct setting_where *before = &group->where[setting - settings];
    const char *path = config_path(group, setting->name, &config->arena);
    if (before->from == where->from && !before->secret_file == by_file)
        config_mistake_add(config, where, arena_printf(&config->arena, "%s%s", path,
                                                       by_file ? "_file" : "").ptr, NULL,
                           "is set, and %s%s is set, too: remove one of the two", setting->name,
                           by_file ? "" : "_file");
}

void config_assign(struct config *config, const struct config_group *group,
                   const struct setting *setting, bool by_file, slice value,
                   const struct setting_where *where)
{
    check(!by_file || setting->type == TYPE_SECRET);
    if (setting->type == TYPE_SECRET)
        stand_alone(config, group, setting, by_file, where);
    if (by_file)
        assign_file(config, group, setting, value, where);
    else
        assign_text(config, group, setting, value, where);
}

void config_assign_defaults(struct config *config, const struct config_group *group)
{
    for (size_t i = 0; i < setting_count; i++) {
        const struct setting *setting = &settings[i];
        if (!setting_belongs(setting, group->scope) || setting->scope == SCOPE_GONE ||
            setting->standard[0] == '=')
            continue;
        const char *why;
        bool good = setting_read(setting, slice_of(setting->standard), &config->arena,
                                 group->values, &why);
        check(good);
    }
}

/* If a group gives a wrong text, the member is still NULL. The group then inherits the GLOBAL
 * value, but where[] keeps the place of the wrong text. */
static void inherit(struct config *config, const struct config_group *group)
{
    for (size_t i = 0; i < setting_count; i++) {
        const struct setting *setting = &settings[i];
        if (setting->scope != group->scope || setting->standard[0] != '=')
            continue;
        size_t from = setting_at(SCOPE_GLOBAL, slice_of(setting->standard + 1));
        const void *at = (const char *)group->values + setting->offset;
        bool left_out = group->where[i].from == FROM_DEFAULT;
        if (left_out || (setting_is_text(setting) && !*(const char *const *)at))
            setting_copy(setting, group->values, &settings[from], config);
        if (left_out)
            group->where[i] = config->where[from];
    }
}

/* ---- all settings ---- */

/* Makes an origin from the settings `origin` and origin_*. It becomes the first origin. Otherwise
 * it is like an origin of the file. */
static void add_default_origin(struct config *config)
{
    if (!config->origin[0])
        return;
    struct config_origin *first = config->origins;
    memmove(first + 1, first, config->origin_count++ * sizeof(*first));
    *first = (struct config_origin){
        .name = "default", .where = where_new(config), .url = config->origin,
    };
    first->where[setting_at(SCOPE_ORIGIN, S("url"))] =
        config->where[setting_at(SCOPE_GLOBAL, S("origin"))];
}

/* The settings access_key, secret_key and secret_key_previous become the first of config->keys. */
static void add_default_key(struct config *config)
{
    static const char *const members[] = { "access_key", "secret_key", "secret_key_previous" };
    if (!config->access_key[0] && !config->secret_key[0])
        return;
    memmove(config->keys + 1, config->keys, config->key_count++ * sizeof(*config->keys));
    config->keys[0] = (struct config_key){
        .name = "", .where = where_new(config), .access_key = config->access_key,
        .secret_key = config->secret_key, .secret_key_previous = config->secret_key_previous,
        .session_token = "", .policy = "all",
        .origin_access_key = "", .origin_secret_key = "", .origin_session_token = "",
    };
    for (size_t i = 0; i < countof(members); i++)
        config->keys[0].where[setting_at(SCOPE_KEY, slice_of(members[i]))] =
            config->where[setting_at(SCOPE_GLOBAL, slice_of(members[i]))];
}

/* AWS_CA_BUNDLE, the variable of the AWS SDKs, applies if origin_ca_file is not set. */
static void use_aws_ca_bundle(struct config *config)
{
    if (!config->aws_ca_bundle || config->origin_ca_file[0])
        return;
    config->origin_ca_file = config->aws_ca_bundle;
    config->where[setting_at(SCOPE_GLOBAL, S("origin_ca_file"))] =
        (struct setting_where){ FROM_ENV, "AWS_CA_BUNDLE", 0, 0, NULL };
}

static void complete_groups(struct config *config)
{
    struct config_group group;
    slice rest;
    const struct url_scheme *scheme;
    use_aws_ca_bundle(config);
    add_default_origin(config);
    add_default_key(config);
    for (size_t i = 0; config_group_at(config, SCOPE_ORIGIN, i, &group); i++) {
        struct config_origin *origin = group.values;
        inherit(config, &group);
        origin->kind = url_kind_of(config->kinds, slice_of(origin->url), &scheme, &rest);
    }
    if (config->origin_count && (config->origin[0] || config->origin_count == 1))
        config->origin_default = &config->origins[0];
    for (size_t i = 0; config_group_at(config, SCOPE_BUCKET, i, &group); i++) {
        struct config_bucket *bucket = group.values;
        inherit(config, &group);
        bucket->prefix = slice_of(bucket->name);
        bucket->bucket = slice_cut(&bucket->prefix, '/');
        bucket->from = bucket->origin[0] ? NULL : config->origin_default;
        for (size_t j = 0; j < config->origin_count; j++)
            if (strcmp(config->origins[j].name, bucket->origin) == 0)
                bucket->from = &config->origins[j];
    }
    for (size_t i = 0; i < config->bucket_count; i++) {
        struct config_bucket *part = &config->buckets[i];
        const struct config_bucket *whole = config_whole_bucket(config, part);
        if (whole && whole->from && !part->origin[0])
            part->from = whole->from;
    }
}

struct config *config_load(const struct config_sources *from)
{
    struct config *config = must_alloc(sizeof(*config));
    config->kinds = from->kinds;
    config->judge_peers = from->judge_peers;
    config->where = where_new(config);
    struct config_group global = config_group_global(config);
    config_assign_defaults(config, &global);
    bool given;
    const char *path = config_file_path(from, &given);
    config_read_file(config, path, given);
    config_read_env(config, from->env);
    config_read_flags(config, from->argc, from->argv);
    complete_groups(config);
    config_folders_read(config);
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
