/* setting.h - the rows of the table of settings, and the values of each type.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Flags, variables, the file, help, the manual, completion and the example are all made from these
 * rows. Pure: a reader turns text into a member of a struct. */
#ifndef BASE_SETTING_H
#define BASE_SETTING_H

#include "base/arena.h"
#include "base/budget.h"

#define SECONDS ((uint64_t)1000)    /* in milliseconds, as durations are kept */
#define MINUTES (60 * SECONDS)
#define HOURS (60 * MINUTES)
#define DAYS (24 * HOURS)

/* A constant is no setting: no help or example names it, and tests alone change it
 * (base/config.def). It is a member of struct config, as the GLOBAL rows are. A name that is gone
 * has no member and no effect; its help says what holds instead. */
enum setting_scope {
    SCOPE_GLOBAL, SCOPE_ORIGIN, SCOPE_BUCKET, SCOPE_KEY, SCOPE_CONSTANT, SCOPE_GONE, SCOPE_COUNT
};
enum setting_type {
    TYPE_TEXT, TYPE_PATH, TYPE_SIZE, TYPE_COUNT, TYPE_DURATION, TYPE_BOOL, TYPE_CHOICE,
    TYPE_ADDRESS, TYPE_URL, TYPE_SECRET
};

/* The C type of a member. Texts are never NULL. */
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

/* May a group of this scope have the row? Constants belong to SCOPE_GLOBAL, names that are gone to
 * SCOPE_ORIGIN. */
bool setting_belongs(const struct setting *setting, enum setting_scope scope);
/* '-' and '_' are the same in a name. NULL if there is none, or none near. A nearest name is never
 * a constant's. */
const struct setting *setting_find(enum setting_scope scope, slice name);
const char *setting_nearest(enum setting_scope scope, slice name);
/* The row that a flag, variable or member belongs to. *ret_by_file: its name is a secret's
 * NAME_file, so its value is the path of a file. NULL: there is none. */
const struct setting *setting_resolve(enum setting_scope scope, slice name, bool *ret_by_file);

/* Reads `text` into the member of `group`. On failure *ret_why, in keep, ends a sentence that
 * begins with the key: "needs a unit". */
bool setting_read(const struct setting *setting, slice text, struct arena *keep, void *group,
                  const char **ret_why) MUST_USE;
/* The name as a flag has it, without its dashes in front: "cache-dir". */
slice setting_flag(const struct setting *setting, struct arena *keep) MUST_USE;
/* As it would be written in the file; a secret is masked. */
slice setting_show(const struct setting *setting, const void *group, struct arena *keep) MUST_USE;
/* A number in the largest unit of its type that divides it: "64MiB", "10s", "16". */
slice setting_number(const struct setting *setting, uint64_t value, struct arena *keep) MUST_USE;
bool setting_is_text(const struct setting *setting);      /* its member is a const char * */
bool setting_is_number(const struct setting *setting);    /* its member is a uint64_t */
size_t setting_bytes(const struct setting *setting);      /* the size of its member */
void setting_copy(const struct setting *to, void *to_group, const struct setting *from,
                  const void *from_group);
const char *setting_standard(const struct setting *setting);     /* its default, or inherited */
const char *setting_type_name(const struct setting *setting);    /* "size", "a|b|c", ... */

/* How many letters must change to turn one name into the other: for nearest names. */
unsigned name_distance(slice a, slice b);

#endif
