/* setting.h - one row of the table of settings, and what a value of its type looks like.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Everything that is said about a setting anywhere (flags, variables, file, help, man page,
 * completion, example) is read off these rows. Pure: text in, a member of a struct out. */
#ifndef BASE_SETTING_H
#define BASE_SETTING_H

#include "base/arena.h"
#include "base/budget.h"

#define SECONDS ((uint64_t)1000)    /* in milliseconds, as durations are kept */
#define MINUTES (60 * SECONDS)
#define HOURS (60 * MINUTES)
#define DAYS (24 * HOURS)

/* A constant is no setting: it is shown nowhere, and tests alone change it (base/config.def). */
enum setting_scope {
    SCOPE_GLOBAL, SCOPE_ORIGIN, SCOPE_BUCKET, SCOPE_KEY, SCOPE_CONSTANT, SCOPE_COUNT
};
enum setting_type {
    TYPE_TEXT, TYPE_PATH, TYPE_SIZE, TYPE_COUNT, TYPE_DURATION, TYPE_BOOL, TYPE_CHOICE,
    TYPE_ADDRESS, TYPE_URL, TYPE_SECRET
};

/* What a member of that type is in C. Texts are never NULL. */
#define SETTING_C_TEXT const char *
#define SETTING_C_PATH const char *
#define SETTING_C_SIZE uint64_t
#define SETTING_C_COUNT uint64_t
#define SETTING_C_DURATION uint64_t
#define SETTING_C_BOOL bool
#define SETTING_C_CHOICE const char *
#define SETTING_C_ADDRESS const char *
#define SETTING_C_URL const char *
#define SETTING_C_SECRET const char *

struct setting {
    enum setting_scope scope;
    enum setting_type type;
    const char *name, *unit, *standard;    /* the default; "=name": the GLOBAL row of that name */
    uint64_t min, max;
    bool reloadable;
    const char *help;
    size_t offset;                         /* of the member in the struct of its scope */
};
extern const struct setting settings[];
extern const size_t setting_count;

/* A heading of the GLOBAL rows, which stand in groups. */
struct setting_section {
    const char *title;
    size_t first;                          /* of settings[]: the row below it */
};
extern const struct setting_section setting_sections[];
extern const size_t setting_section_count;

/* A setting of a group that is gone: its name has no effect any more. */
struct setting_gone {
    enum setting_scope scope;
    const char *name, *text;               /* what holds instead */
};
const struct setting_gone *setting_find_gone(enum setting_scope scope, slice name);    /* or NULL */

/* '-' and '_' are the same in a name. NULL if there is none, or none near. */
const struct setting *setting_find(enum setting_scope scope, slice name);
const struct setting *setting_nearest(enum setting_scope scope, slice name);
/* The row whose value is read from a file when `name` is given: a secret's NAME_file. */
const struct setting *setting_find_file(enum setting_scope scope, slice name);

/* Reads `text` into the member of `group`. On failure *ret_why, in keep, ends a sentence that
 * begins with the key: "needs a unit". */
bool setting_read(const struct setting *setting, slice text, struct arena *keep, void *group,
                  const char **ret_why) MUST_USE;
/* The name as a flag has it, without its dashes in front: "cache-dir". */
slice setting_flag(const struct setting *setting, struct arena *keep) MUST_USE;
/* As it could be written in the file; a secret is masked. */
slice setting_show(const struct setting *setting, const void *group, struct arena *keep) MUST_USE;
/* A number in the largest unit of its type that divides it: "64MiB", "10s", "16". */
slice setting_number(const struct setting *setting, uint64_t value, struct arena *keep) MUST_USE;
bool setting_is_text(const struct setting *setting);      /* its member is a const char * */
bool setting_is_number(const struct setting *setting);    /* its member is a uint64_t */
void setting_copy(const struct setting *to, void *to_group, const struct setting *from,
                  const void *from_group);
const char *setting_standard(const struct setting *setting);     /* its default, or inherited */
const char *setting_type_name(const struct setting *setting);    /* "size", "a|b|c", ... */

/* How many letters must change to make one name the other; used for nearest names. */
unsigned name_distance(slice a, slice b);

#endif
