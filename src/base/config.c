/* config.c - settings from flags, environment and file. SPDX-License-Identifier: Apache-2.0
 *
 * Every row of the table is filled from its default, then from the file (config_file.c), the
 * environment and the flags (config_args.c), so the last word wins and each value knows who said
 * it. Nothing stops at the first mistake: all are kept, in that order. Then groups inherit what
 * they leave out, and config_rules.c looks at the whole. */
#include "base/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/config_inside.h"

#define SECRET_BYTES_MAX 8192u
#define SHOWN_BYTES_MAX 200u    /* of a value that is wrong */

/* ---- mistakes ---- */

/* As they came, but those of one file by where they stand in it. */
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
    put_in_order(config, mistake);
}

bool config_is_given(const char *value, const struct setting_where *where)
{
    return value[0] || where->secret_file;
}

bool config_is_said(const struct config *config, const struct setting_where *where, const char *key)
{
    const char *name = where->from == FROM_ENV || where->from == FROM_FLAG ? where->name : key;
    for (const struct config_mistake *m = config->mistakes; m; m = m->next)
        if (m->line == where->line && m->column == where->column && strcmp(m->key, name) == 0)
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
    case FROM_TEST:
    case FROM_FILE: return arena_printf(keep, "%s:%u", where->name, where->line);
    case FROM_ENV: return arena_printf(keep, "env %s", where->name);
    case FROM_FLAG: return arena_printf(keep, "flag %s", where->name);
    default: return S("default");
    }
}

/* ---- one value ---- */

const char *config_key_of(struct config *config, const struct config_group *group,
                          const char *name)
{
    return arena_printf(&config->arena, "%s%s", group->path, name).ptr;
}

/* Secrets are not repeated, nor is what could hold one: a URL with a user. */
static bool may_be_shown(const struct setting *setting, slice text)
{
    if (setting->type == TYPE_SECRET || slice_has(text, '@'))
        return false;
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)text.ptr[i] < 0x20 || text.ptr[i] == 0x7f)
            return false;
    return text.len > 0;
}

bool config_is_blank(slice text)
{
    for (size_t i = 0; i < text.len; i++)
        if (!memchr(" \t\n\v\f\r", text.ptr[i], 6))
            return false;
    return true;
}

/* An empty secret is one that everybody knows: a failed substitution, or a file that nobody has
 * written yet. False: that is the mistake, and it was said. */
static bool secret_is_there(struct config *config, const struct config_group *group,
                            const struct setting *setting, slice text,
                            const struct setting_where *where)
{
    const char *path = where->secret_file;
    if (setting->type != TYPE_SECRET || !config_is_blank(text))
        return true;
    slice name = path ? arena_printf(&config->arena, "%s_file", setting->name)
                      : slice_of(setting->name);
    const char *key = config_key_of(config, group, name.ptr);
    if (path)
        config_mistake_add(config, where, key, NULL, "%s is empty: write the secret into it, or "
                           "leave the setting out", path);
    else
        config_mistake_add(config, where, key, NULL, "is empty: give it a value, or leave it out");
    return false;
}

/* A URL is read as a text first, and left empty where no kind of origin takes it. */
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

void config_assign(struct config *config, const struct config_group *group,
                   const struct setting *setting, slice text, const struct setting_where *where)
{
    const char *why;
    check(setting->scope == group->scope);
    bool there = secret_is_there(config, group, setting, text, where);
    if (there && !read_value(config, group, setting, text, &why)) {
        const char *key = config_key_of(config, group, setting->name);
        slice shown = slice_sub(text, 0, SHOWN_BYTES_MAX);
        if (!may_be_shown(setting, text))
            config_mistake_add(config, where, key, NULL, "%s", why);
        else
            config_mistake_add(config, where, key, NULL, "%s, not \"%.*s\"", why,
                               SLICE_ARG(shown));
    }
    group->where[setting - settings] = *where;
}

static slice without_space(slice text)
{
    while (text.len && (text.ptr[text.len - 1] == '\n' || text.ptr[text.len - 1] == '\r'))
        text.len--;
    return slice_trim(text);
}

/* A mounted secret: the value is the file's text, without the space that editors leave around
 * it. */
static void assign_file(struct config *config, const struct config_group *group,
                        const struct setting *setting, slice path,
                        const struct setting_where *where)
{
    slice secret;
    const char *why;
    const char *name = arena_copy(&config->arena, path).ptr;
    struct setting_where inside = *where;
    inside.secret_file = name;
    bool named = !config_is_blank(path);
    if (named && config_read_bytes(name, SECRET_BYTES_MAX, &config->arena, &secret, &why)) {
        config_assign(config, group, setting, without_space(secret), &inside);
        return;
    }
    group->where[setting - settings] = inside;    /* given, though nobody knows what */
    const char *key = config_key_of(config, group, arena_printf(&config->arena, "%s_file",
                                                         setting->name).ptr);
    if (named)
        config_mistake_add(config, where, key, NULL, "can't read %s: %s", name, why);
    else
        config_mistake_add(config, where, key, NULL, "is empty: name a file, or leave it out");
}

/* A value and the file it lies in, named by one source: none of the two beats the other. */
static void stand_alone(struct config *config, const struct config_group *group,
                        const struct setting *setting, bool by_file,
                        const struct setting_where *where)
{
    const struct setting_where *before = &group->where[setting - settings];
    const char *mine = by_file ? "_file" : "", *other = by_file ? "" : "_file";
    if (before->from != where->from || !before->secret_file != by_file)
        return;
    const char *key = config_key_of(config, group, arena_printf(&config->arena, "%s%s",
                                                                setting->name, mine).ptr);
    config_mistake_add(config, where, key, NULL, "stands beside %s%s: take one of them away",
                       setting->name, other);
}

bool config_assign_named(struct config *config, const struct config_group *group, slice name,
                         slice value, const struct setting_where *where)
{
    const struct setting *direct = setting_find(group->scope, name);
    const struct setting *setting = direct ? direct : setting_find_file(group->scope, name);
    if (!setting)
        return false;
    if (setting->type == TYPE_SECRET)
        stand_alone(config, group, setting, !direct, where);
    if (direct)
        config_assign(config, group, setting, value, where);
    else
        assign_file(config, group, setting, value, where);
    return true;
}

const char *config_nearest(enum setting_scope scope, slice name)
{
    const struct setting *nearest = setting_nearest(scope, name);
    return nearest ? nearest->name : NULL;
}

void config_assign_defaults(struct config *config, const struct config_group *group)
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

/* Given, but wrong: it must be something, though nobody will use it. */
static bool is_unread(const struct setting *setting, const void *group)
{
    const void *at = (const char *)group + setting->offset;
    return setting_is_text(setting) && !*(const char *const *)at;
}

static void inherit(struct config *config, void *group, struct setting_where *where,
                    enum setting_scope scope)
{
    for (size_t i = 0; i < setting_count; i++) {
        const struct setting *setting = &settings[i];
        if (setting->scope != scope || setting->standard[0] != '=')
            continue;
        size_t from = setting_at(SCOPE_GLOBAL, slice_of(setting->standard + 1));
        bool left_out = where[i].from == FROM_DEFAULT;
        if (left_out || is_unread(setting, group))
            setting_copy(setting, group, &settings[from], config);
        if (left_out)
            where[i] = config->where[from];
    }
}

struct setting_where *config_where_new(struct config *config)
{
    return arena_alloc(&config->arena, setting_count * sizeof(struct setting_where));
}

struct config_group config_group_global(struct config *config)
{
    return (struct config_group){ SCOPE_GLOBAL, config, config->where, "", { { { 0 }, 0 } }, 0 };
}

struct config_group config_group_of(struct config *config, slice name)
{
    struct config_group group = config_group_global(config);
    if (setting_find(SCOPE_CONSTANT, name))
        group.scope = SCOPE_CONSTANT;
    return group;
}

/* ---- the whole ---- */

/* The origin* settings are an origin like those of the file, and the first. */
static void add_default_origin(struct config *config)
{
    if (!config->origin[0])
        return;
    struct config_origin *first = config->origins;
    memmove(first + 1, first, config->origin_count++ * sizeof(*first));
    *first = (struct config_origin){
        .name = "default", .where = config_where_new(config), .url = config->origin,
    };
    first->where[setting_at(SCOPE_ORIGIN, S("url"))] =
        config->where[setting_at(SCOPE_GLOBAL, S("origin"))];
}

static void add_default_key(struct config *config)
{
    if (!config->access_key[0] && !config->secret_key[0])
        return;
    memmove(config->keys + 1, config->keys, config->key_count++ * sizeof(*config->keys));
    config->keys[0] = (struct config_key){
        .name = "", .where = config_where_new(config), .access_key = config->access_key,
        .secret_key = config->secret_key, .secret_key_previous = config->secret_key_previous,
        .session_token = "", .policy = "all",
        .origin_access_key = "", .origin_secret_key = "", .origin_session_token = "",
    };
    config->keys[0].where[setting_at(SCOPE_KEY, S("access_key"))] =
        config->where[setting_at(SCOPE_GLOBAL, S("access_key"))];
    config->keys[0].where[setting_at(SCOPE_KEY, S("secret_key"))] =
        config->where[setting_at(SCOPE_GLOBAL, S("secret_key"))];
    config->keys[0].where[setting_at(SCOPE_KEY, S("secret_key_previous"))] =
        config->where[setting_at(SCOPE_GLOBAL, S("secret_key_previous"))];
}

/* What other SDKs read speaks where no setting does. */
static void use_aws_ca_bundle(struct config *config)
{
    if (!config->aws_ca_bundle || config->origin_ca_file[0])
        return;
    config->origin_ca_file = config->aws_ca_bundle;
    config->where[setting_at(SCOPE_GLOBAL, S("origin_ca_file"))] =
        (struct setting_where){ FROM_ENV, "AWS_CA_BUNDLE", 0, 0, NULL };
}

static void complete_origin(struct config *config, struct config_origin *origin)
{
    const struct url_scheme *scheme;
    slice rest;
    inherit(config, origin, origin->where, SCOPE_ORIGIN);
    origin->kind = url_kind_of(config->kinds, slice_of(origin->url), &scheme, &rest);
}

static void complete_groups(struct config *config)
{
    use_aws_ca_bundle(config);
    add_default_origin(config);
    add_default_key(config);
    for (size_t i = 0; i < config->origin_count; i++)
        complete_origin(config, &config->origins[i]);
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
    config->kinds = from->kinds;
    config->where = config_where_new(config);
    struct config_group global = config_group_global(config);
    struct config_group constants = global;
    constants.scope = SCOPE_CONSTANT;
    config_assign_defaults(config, &global);
    config_assign_defaults(config, &constants);
    bool named;
    const char *path = config_file_path(from, &named);
    config_read_file(config, path, named);
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
