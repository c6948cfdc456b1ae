/* setting.h - the rows of the table of settings, and the values of each type.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Flags, variables, members of the file, help, the manual, completion and the example all come from
 * these rows. The functions do no I/O: to read a value is to turn a text into a member of a
 * struct. */
#ifndef BASE_SETTING_H
#define BASE_SETTING_H

#include "base/arena.h"
#include "base/budget.h"

#define SECONDS ((uint64_t)1000)    /* in milliseconds, the unit of durations */
#define MINUTES (60 * SECONDS)
#define HOURS (60 * MINUTES)
#define DAYS (24 * HOURS)

/* The scope of a row says where the setting may be given. SCOPE_GLOBAL rows are general settings.
 * SCOPE_ORIGIN, SCOPE_BUCKET and SCOPE_KEY rows are members of an entry of "origins", "buckets" or
 * "keys" in the settings file; such an entry is a group.
 * A constant is no setting: `penstock help settings` and the example leave it out, and only tests
 * need to change it (base/config.def). It is a member of struct config, like the GLOBAL rows.
 * SCOPE_GONE is the scope of a name that was removed: it has no member and no effect; its help says
 * what applies instead. */
enum setting_scope {
    SCOPE_GLOBAL, SCOPE_ORIGIN, SCOPE_BUCKET, SCOPE_KEY, SCOPE_CONSTANT, SCOPE_GONE, SCOPE_COUNT
};
enum setting_type {
    TYPE_TEXT, TYPE_PATH, TYPE_SIZE, TYPE_COUNT, TYPE_DURATION, TYPE_BOOL, TYPE_CHOICE,
    TYPE_ADDRESS, TYPE_URL, TYPE_SECRET
};

/* The C type of a member. After a load no text is NULL. */
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
    const char *name, *unit, *standard;    /* the default; "=name": the value of that GLOBAL row */
    uint64_t min, max;
    bool reloadable;
    const char *help;
    size_t offset;                         /* of the member in the struct of its scope */
};
extern const struct setting settings[];
extern const size_t setting_count;

/* A heading above some of the GLOBAL rows. */
struct setting_section {
    const char *title;
    size_t first;                          /* index in settings[] of its first row */
};
extern const struct setting_section setting_sections[];
extern const size_t setting_section_count;

/* Returns true if a group of this scope may have the row. Constants belong to SCOPE_GLOBAL; names
 * that were removed belong to SCOPE_ORIGIN. */
bool setting_belongs(const struct setting *setting, enum setting_scope scope);
/* In names, '-' and '_' are the same. setting_find returns NULL if there is no such setting.
 * setting_nearest never returns the name of a constant; it returns NULL if no name is near. */
const struct setting *setting_find(enum setting_scope scope, slice name);
const char *setting_nearest(enum setting_scope scope, slice name);
/* Finds the row that a flag, variable or member belongs to. Sets *ret_by_file if the name has the
 * form NAME_file of a secret NAME; then the value is the path of a file. Returns NULL if there is
 * no such row. */
const struct setting *setting_resolve(enum setting_scope scope, slice name, bool *ret_by_file);

/* Reads `text` into the member of `group`. On failure returns false and sets *ret_why, in keep, to
 * the end of a sentence that begins with the key: "needs a unit". */
bool setting_read(const struct setting *setting, slice text, struct arena *keep, void *group,
                  const char **ret_why) MUST_USE;
/* Returns the name as a flag has it, without the dashes before it: "cache-dir". */
slice setting_flag(const struct setting *setting, struct arena *keep) MUST_USE;
/* Returns the value as it would be written in the file; a secret is masked. */
slice setting_show(const struct setting *setting, const void *group, struct arena *keep) MUST_USE;
/* Returns a number with the largest unit that divides it: "64MiB", "10s", "16". */
slice setting_number(const struct setting *setting, uint64_t value, struct arena *keep) MUST_USE;
bool setting_is_text(const struct setting *setting);      /* true if its member is a const char * */
bool setting_is_number(const struct setting *setting);    /* true if its member is a uint64_t */
size_t setting_bytes(const struct setting *setting);      /* the size of its member */
void setting_copy(const struct setting *to, void *to_group, const struct setting *from,
                  const void *from_group);
const char *setting_standard(const struct setting *setting);  /* the default, own or inherited */
const char *setting_type_name(const struct setting *setting);    /* "size", "a|b|c", ... */

/* Returns the number of edits that turn one name into the other. An edit adds, removes or replaces
 * a letter, or swaps two neighbours. Functions that look for the nearest name use this number. */
unsigned name_distance(slice a, slice b);

#endif
