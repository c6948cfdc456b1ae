/* config_inside.h - declarations that the files config*.c share.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A group (struct config_group) is an entry of "origins", "buckets" or "keys" in the settings file,
 * or all general settings together. A member is one setting of a group. */
#ifndef BASE_CONFIG_INSIDE_H
#define BASE_CONFIG_INSIDE_H

#include "base/config.h"

/* ---- config.c ---- */
/* `key` is the name of the value. It is not used if `at` is a variable or a flag. */
void config_mistake_add(struct config *config, const struct setting_where *at, const char *key,
                        const char *nearest, const char *fmt, ...) PRINTF_LIKE(5, 6);
/* Adds the mistake that there is no such setting. `nearest` is a setting with a similar name, or
 * NULL. */
void config_mistake_unknown(struct config *config, const struct setting_where *at, const char *key,
                            const char *nearest);
/* Adds a mistake at a member of a group. The arguments after `member` are those of printf. */
#define config_wrong(config, group, member, ...)                                               \
    config_mistake_add(config, config_where_of(group, member),                                 \
                       config_path(group, member, &(config)->arena), NULL, __VA_ARGS__)
/* Returns true if there is already a mistake at this member. */
bool config_is_reported(struct config *config, const struct config_group *group,
                        const char *member) MUST_USE;
/* Returns true if the member has a value. A BOOL that is false and an ADDRESS that is "off" have
 * none. A secret counts as given even if its file could not be read, because that mistake is
 * reported already. */
bool config_is_given(const struct config_group *group, const char *member) MUST_USE;
struct setting_where *config_where_of(const struct config_group *group, const char *member);
bool config_is_blank(slice text);    /* empty, or only space */
struct config_group config_group_global(struct config *config);
/* Appends an empty group to the groups of its scope. config_file.c has already allocated the array
 * of these groups. */
struct config_group config_group_add(struct config *config, enum setting_scope scope,
                                     const char *name) MUST_USE;
/* Sets the defaults that are not inherited from a GLOBAL row. The other defaults are set after all
 * sources were read. */
void config_assign_defaults(struct config *config, const struct config_group *group);
/* If by_file is set, `value` is the path of a secret's file. */
void config_assign(struct config *config, const struct config_group *group,
                   const struct setting *setting, bool by_file, slice value,
                   const struct setting_where *where);

/* ---- config_file.c ---- */
void config_read_file(struct config *config, const char *path, bool must_exist);
/* Reads a whole file of at most `max` bytes. On failure returns false and sets *ret_why. */
bool config_read_bytes(const char *path, size_t max, struct arena *keep, slice *ret,
                       const char **ret_why) MUST_USE;

/* ---- config_args.c ---- */
void config_read_env(struct config *config, const char *const *env);
void config_read_flags(struct config *config, size_t argc, const char *const *argv);
const char *config_file_path(const struct config_sources *from, bool *ret_given);

/* ---- config_keys.c ---- */
/* These functions are for a row of a policy: { "allow": [...], "on": [...] }. config_policy_right
 * returns the right that a word of "allow" names, or 0 if there is no such right.
 * config_policy_on_breaks checks a word of "on", and returns the mistake, or NULL.
 * config_policy_add adds a row; an empty `on` means everywhere. */
unsigned config_policy_right(slice word) MUST_USE;
const char *config_policy_on_breaks(slice on, struct arena *keep) MUST_USE;
void config_policy_add(struct config *config, struct config_key *key, unsigned rights, slice on);
/* Adds a mistake if a group has only one of access_key and secret_key. `prefix` is put before both
 * names. */
void config_pair_is_whole(struct config *config, const struct config_group *group,
                          const char *prefix);
void config_key_rules(struct config *config, const struct config_group *row);

/* ---- config_folders.c ---- */
void config_folders_read(struct config *config);    /* sets config->folders */
/* The rule of paths: absolute, and no folder twice or inside another one. */
void config_folders_rule(struct config *config, const struct config_group *all);
/* The setting that gives the folders: "cache_dirs" or "cache_dir". */
const char *config_folders_setting(const struct config *config) MUST_USE;
/* Returns the path without symbolic links, "." and "..". If its end does not exist, only the
 * folders that exist are looked at for links. */
const char *config_resolved(struct config *config, const char *path) MUST_USE;
/* Returns true if `path` is `folder` or lies below it. Both are resolved. */
bool path_is_inside(slice path, slice folder) MUST_USE;

/* ---- config_traces.c ---- */
void config_traces_rule(struct config *config, const struct config_group *all);

/* ---- config_rules.c ---- */
const char *config_bucket_name_breaks(slice name) MUST_USE;  /* the broken rule, or NULL */
/* Returns the entry for the whole bucket of an entry for a prefix, or NULL. */
const struct config_bucket *config_whole_bucket(const struct config *config,
                                                const struct config_bucket *part) MUST_USE;
void config_rules(struct config *config);    /* adds the mistakes that concern several values */

#endif
