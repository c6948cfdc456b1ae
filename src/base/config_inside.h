/* config_inside.h - what the files config*.c share. SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_CONFIG_INSIDE_H
#define BASE_CONFIG_INSIDE_H

#include "base/config.h"

/* ---- config.c ---- */
/* key: the name of the value, if `at` is in the file or nowhere. */
void config_mistake_add(struct config *config, const struct setting_where *at, const char *key,
                        const char *nearest, const char *fmt, ...) PRINTF_LIKE(5, 6);
/* A mistake at a member of a group; the further arguments are printf's. */
#define config_wrong(config, group, member, ...)                                               \
    config_mistake_add(config, config_where_of(group, member),                                 \
                       config_path(group, member, &(config)->arena), NULL, __VA_ARGS__)
/* Is there a mistake at this member already? */
bool config_is_reported(struct config *config, const struct config_group *group,
                        const char *member) MUST_USE;
/* Has the member a value? A secret whose file could not be read counts as given, because that is a
 * mistake of its own. False for a BOOL that is false and an ADDRESS that is "off". */
bool config_is_given(const struct config_group *group, const char *member) MUST_USE;
struct setting_where *config_where_of(const struct config_group *group, const char *member);
bool config_is_blank(slice text);    /* empty, or only space */
struct config_group config_group_global(struct config *config);
/* Appends an empty group to those of its scope, for which config_file.c has made room. */
struct config_group config_group_add(struct config *config, enum setting_scope scope,
                                     const char *name) MUST_USE;
/* Defaults that are not inherited from a GLOBAL row; inheritance waits until everything is read. */
void config_assign_defaults(struct config *config, const struct config_group *group);
/* by_file: the value is the path of a secret's file. */
void config_assign(struct config *config, const struct config_group *group,
                   const struct setting *setting, bool by_file, slice value,
                   const struct setting_where *where);

/* ---- config_file.c ---- */
void config_read_file(struct config *config, const char *path, bool must_exist);
/* Reads a whole file of at most max bytes. On failure *ret_why. */
bool config_read_bytes(const char *path, size_t max, struct arena *keep, slice *ret,
                       const char **ret_why) MUST_USE;

/* ---- config_args.c ---- */
void config_read_env(struct config *config, const char *const *env);
void config_read_flags(struct config *config, size_t argc, const char *const *argv);
const char *config_file_path(const struct config_sources *from, bool *ret_given);

/* ---- config_keys.c ---- */
/* The parts of a policy's row: a word of "allow" (0: there is no such right), a word of "on" (its
 * fault, or NULL), and both together; an empty `on` is everywhere. */
unsigned config_policy_right(slice word) MUST_USE;
const char *config_policy_on_breaks(slice on, struct arena *keep) MUST_USE;
void config_policy_add(struct config *config, struct config_key *key, unsigned rights, slice on);
/* Of access_key and secret_key, with this prefix, a group has both or neither. */
void config_pair_is_whole(struct config *config, const struct config_group *group,
                          const char *prefix);
void config_key_rules(struct config *config, const struct config_group *row);

/* ---- config_rules.c ---- */
const char *config_bucket_name_breaks(slice name) MUST_USE;    /* NULL, or the rule it breaks */
void config_rules(struct config *config);    /* adds the mistakes that take more than one value */

#endif
