/* config_inside.h - what config*.c share. SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_CONFIG_INSIDE_H
#define BASE_CONFIG_INSIDE_H

#include "base/config.h"
#include "base/json_place.h"

/* One object of the file while it is read, and the way to it. */
struct config_group {
    enum setting_scope scope;
    void *values;
    struct setting_where *where;
    const char *path;           /* "", "origins.west.", "keys[0]." */
    struct json_step steps[6];
    size_t depth;
};

/* ---- config.c ---- */
void config_mistake_add(struct config *config, const struct setting_where *at, const char *key,
                        const char *nearest, const char *fmt, ...) PRINTF_LIKE(5, 6);
/* A value, or a file for it that could not be read, which is a mistake of its own. */
bool config_is_given(const char *value, const struct setting_where *where);
/* One mistake, one line: was something said of this value already? */
bool config_is_said(const struct config *config, const struct setting_where *where,
                    const char *key) MUST_USE;
bool config_is_blank(slice text);    /* nothing but space, or nothing at all */
struct config_group config_group_global(struct config *config);
/* The rows that this name belongs to beside those of groups: of settings, or, by its old name, of
 * constants. */
struct config_group config_group_of(struct config *config, slice name);
struct setting_where *config_where_new(struct config *config) MUST_USE;    /* all FROM_DEFAULT */
/* The path of a member, for mistakes: "origins.west.url". */
const char *config_key_of(struct config *config, const struct config_group *group,
                          const char *name) MUST_USE;
/* Defaults that are not inherited from a GLOBAL row; the others wait until all is read. */
void config_assign_defaults(struct config *config, const struct config_group *group);
void config_assign(struct config *config, const struct config_group *group,
                   const struct setting *setting, slice text, const struct setting_where *where);
/* Gives a name its value, be it a setting or a secret's file. False: no such name. */
bool config_assign_named(struct config *config, const struct config_group *group, slice name,
                         slice value, const struct setting_where *where) MUST_USE;
const char *config_nearest(enum setting_scope scope, slice name);    /* or NULL */

/* ---- config_file.c ---- */
void config_read_file(struct config *config, const char *path, bool must_be_there);
/* All of a file, with at most max bytes. On failure *ret_why. */
bool config_read_bytes(const char *path, size_t max, struct arena *keep, slice *ret,
                       const char **ret_why) MUST_USE;

/* ---- config_args.c ---- */
void config_read_env(struct config *config, const char *const *env);
void config_read_flags(struct config *config, size_t argc, const char *const *argv);
const char *config_file_path(const struct config_sources *from, bool *ret_named);

/* ---- config_keys.c ---- */
/* The parts of a policy's row: a word of "allow" (0: there is no such right), one of "on" (what is
 * wrong with it, or NULL), and both, with on empty for everywhere. */
unsigned config_policy_right(slice word) MUST_USE;
const char *config_policy_on_breaks(slice on, struct arena *keep) MUST_USE;
void config_policy_add(struct config *config, struct config_key *key, unsigned rights, slice on);
void config_key_rules(struct config *config);    /* mistakes of the keys */

/* ---- config_rules.c ---- */
const char *config_bucket_name_breaks(slice name) MUST_USE;    /* NULL, or the rule it breaks */
void config_rules(struct config *config);    /* what no single value can tell: adds mistakes */

#endif
