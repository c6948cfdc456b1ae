/* setting.c - the table of settings, and how values are read and printed.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Each type has one function that reads its values. If this function refuses a value, it returns
 * the reason, as the end of a sentence that begins with the key. */
#include "base/setting.h"

#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/url_kind.h"

enum { RESTART, RELOAD };

const struct setting settings[] = {
#define ROW(scope, structure, id, type, name, unit, standard, min, max, reload, help)          \
    { scope, TYPE_##type, name, unit, standard, min, max, reload == RELOAD, help,              \
      offsetof(struct structure, id) },
#define GLOBAL(...) ROW(SCOPE_GLOBAL, config, __VA_ARGS__)
#define ORIGIN(...) ROW(SCOPE_ORIGIN, config_origin, __VA_ARGS__)
#define BUCKET(...) ROW(SCOPE_BUCKET, config_bucket, __VA_ARGS__)
#define KEY(...) ROW(SCOPE_KEY, config_key, __VA_ARGS__)
#define CONSTANT(...) ROW(SCOPE_CONSTANT, config, __VA_ARGS__)
#define GONE(name, text) { SCOPE_GONE, TYPE_TEXT, name, "", "", 0, 0, false, text, 0 },
#include "base/config.def"
};
const size_t setting_count = countof(settings);

/* Numbers the GLOBAL rows. FIRST_OF_id of a heading is the number of the first row below it.
 * FIRST_OF_id itself takes this number in the enum. BEFORE_id gives the number back, so that the
 * row gets it, too. */
enum {
#define SECTION(id, title) FIRST_OF_##id, BEFORE_##id = FIRST_OF_##id - 1,
#define GLOBAL(id, ...) ROW_OF_##id,
#include "base/config.def"
};

const struct setting_section setting_sections[] = {
#define SECTION(id, title) { title, FIRST_OF_##id },
#include "base/config.def"
};
const size_t setting_section_count = countof(setting_sections);

/* ---- names ---- */

static char folded(char c)
{
    return c == '-' ? '_' : c;
}

static bool same_name(slice a, slice b)
{
    if (a.len != b.len)
        return false;
    for (size_t i = 0; i < a.len; i++)
        if (folded(a.ptr[i]) != folded(b.ptr[i]))
            return false;
    return true;
}

bool setting_belongs(const struct setting *setting, enum setting_scope scope)
{
    return setting->scope == scope || (setting->scope == SCOPE_CONSTANT && scope == SCOPE_GLOBAL) ||
           (setting->scope == SCOPE_GONE && scope == SCOPE_ORIGIN);
}

const struct setting *setting_find(enum setting_scope scope, slice name)
{
    for (size_t i = 0; i < setting_count; i++)
        if (setting_belongs(&settings[i], scope) && same_name(slice_of(settings[i].name), name))
            return &settings[i];
    return NULL;
}

const struct setting *setting_resolve(enum setting_scope scope, slice name, bool *ret_by_file)
{
    const struct setting *setting = setting_find(scope, name);
    *ret_by_file = !setting;
    if (setting || name.len < 5 || !same_name(slice_from(name, name.len - 5), S("_file")))
        return setting;
    setting = setting_find(scope, slice_sub(name, 0, name.len - 5));
    return setting && setting->type == TYPE_SECRET ? setting : NULL;
}

size_t setting_at(enum setting_scope scope, slice name)
{
    const struct setting *setting = setting_find(scope, name);
    check(setting != NULL);
    return (size_t)(setting - settings);
}

const char *setting_standard(const struct setting *setting)
{
    if (setting->standard[0] != '=')
        return setting->standard;
    return settings[setting_at(SCOPE_GLOBAL, slice_of(setting->standard + 1))].standard;
}

#define NAME_MAX_LEN 48u

unsigned name_distance(slice a, slice b)
{
    if (a.len > NAME_MAX_LEN || b.len > NAME_MAX_LEN)
        return NAME_MAX_LEN;
    /* three rows of the edit matrix; a swap of two neighbouring letters counts as one edit */
    unsigned row[3][NAME_MAX_LEN + 1];
    unsigned *older = row[0], *old = row[1], *now = row[2];
    for (unsigned j = 0; j <= b.len; j++)
        old[j] = j;
    for (unsigned i = 1; i <= a.len; i++) {
        now[0] = i;
        for (unsigned j = 1; j <= b.len; j++) {
            char x = folded(a.ptr[i - 1]), y = folded(b.ptr[j - 1]);
            now[j] = MIN(MIN(old[j], now[j - 1]) + 1, old[j - 1] + (x != y));
            if (i > 1 && j > 1 && x == folded(b.ptr[j - 2]) && y == folded(a.ptr[i - 2]))
                now[j] = MIN(now[j], older[j - 2] + 1);
        }
        unsigned *spare = older;
        older = old;
        old = now;
        now = spare;
    }
    return old[b.len];
}

const char *setting_nearest(enum setting_scope scope, slice name)
{
    const char *best = NULL;
    /* A name at this distance, or farther away, is no suggestion. */
    unsigned best_distance = name.len <= 3 ? 2 : name.len <= 8 ? 3 : 4;
    for (size_t i = 0; i < setting_count; i++) {
        if (settings[i].scope != scope)
            continue;
        unsigned distance = name_distance(slice_of(settings[i].name), name);
        if (distance < best_distance) {
            best = settings[i].name;
            best_distance = distance;
        }
    }
    return best;
}

/* ---- types ---- */

static const struct unit {
    const char *name;
    uint64_t factor;
    bool decimal;
} size_units[] = {
    { "TiB", 1024 * GIB, false },  { "GiB", GIB, false },     { "MiB", MIB, false },
    { "KiB", KIB, false },         { "B", 1, false },         { "TB", 1000000000000, true },
    { "GB", 1000000000, true },    { "MB", 1000000, true },   { "KB", 1000, true },
    { 0 },
}, time_units[] = {
    { "d", DAYS, false },  { "h", HOURS, false }, { "m", MINUTES, false },
    { "s", SECONDS, false }, { "ms", 1, false }, { 0 },
}, no_units[] = { { 0 } };

static const struct unit *units_of(const struct setting *setting)
{
    return setting->type == TYPE_SIZE       ? size_units
           : setting->type == TYPE_DURATION ? time_units
                                            : no_units;
}

/* Reads "64MiB" or "64 MiB": digits, then one of the units, or no unit. */
static bool read_quantity(slice text, const struct unit *units, uint64_t *ret, bool *ret_has_unit)
{
    size_t digits = 0;
    while (digits < text.len && slice_has(S(DIGIT_CHARS), text.ptr[digits]))
        digits++;
    uint64_t number, factor = 0;
    if (!slice_u64(slice_sub(text, 0, digits), &number))
        return false;
    slice unit = slice_from(text, digits);
    if (unit.len > 1 && unit.ptr[0] == ' ')
        unit = slice_from(unit, 1);
    for (; units->name; units++)
        if (slice_eq(unit, slice_of(units->name)))
            factor = units->factor;
    *ret_has_unit = factor != 0;
    if (unit.len == 0)
        factor = 1;
    return factor && !__builtin_mul_overflow(number, factor, ret);
}

/* Returns the right form of a size with a fraction ("1.5GiB") or with a wrong unit ("64MIB", "64M"),
 * rounded down to a whole number of the next smaller unit. Returns an empty text if that is 0, or
 * if the text does not look like a size. */
static slice size_meant(slice text, struct arena *keep)
{
    size_t len = 0;
    char *end;
    uint64_t bytes;
    bool has_unit;
    while (len < text.len && slice_has(S(DIGIT_CHARS "."), text.ptr[len]))
        len++;
    slice digits = arena_copy(keep, slice_sub(text, 0, len));
    slice name = slice_trim(slice_from(text, len));
    double number = strtod(digits.ptr, &end);
    const struct unit *unit = size_units;
    while (unit->name && !slice_starts_nocase(slice_of(unit->name), name))
        unit++;
    if (end == digits.ptr || *end || !name.len || !unit->name || number >= 1e15)
        return S("");
    if (number != (double)(uint64_t)number) {
        if (unit->factor == 1)
            return S("");
        number *= unit->decimal ? 1000 : 1024;
        unit++;    /* the next smaller unit; none is smaller than KB */
    }
    if (number < 1)
        return S("");
    slice meant = arena_printf(keep, "%ju%s", (uintmax_t)number, unit->name ? unit->name : "");
    bool good = read_quantity(meant, size_units, &bytes, &has_unit) && has_unit;
    return good && !slice_eq(meant, text) ? meant : S("");
}

static const char *size_form(slice text, struct arena *keep)
{
    slice meant = size_meant(text, keep);
    return arena_printf(keep, "must be a whole number of bytes, or a whole number with KiB, MiB, "
                        "GiB, TiB, KB, MB, GB or TB%s%.*s", meant.len ? ": write " : ", as in ",
                        SLICE_ARG(meant.len ? meant : S("64MiB"))).ptr;
}

/* Never prints the decimal units (KB, MB, ...), although read_quantity accepts them. */
slice setting_number(const struct setting *setting, uint64_t value, struct arena *keep)
{
    for (const struct unit *unit = units_of(setting); value && unit->name; unit++)
        if (value % unit->factor == 0 && !unit->decimal)
            return arena_printf(keep, "%ju%s", (uintmax_t)(value / unit->factor), unit->name);
    return arena_printf(keep, "%ju", (uintmax_t)value);
}

static bool read_number(const struct setting *setting, slice text, struct arena *keep,
                        uint64_t *ret, const char **ret_why)
{
    static const char *const forms[] = {
        [TYPE_DURATION] = "must be a duration, as in 250ms, 60s, 10m, 1h or 7d",
        [TYPE_COUNT] = "must be a whole number",
    };
    bool has_unit, duration = setting->type == TYPE_DURATION;
    *ret_why = forms[setting->type];
    if (!read_quantity(text, units_of(setting), ret, &has_unit)) {
        if (setting->type == TYPE_SIZE)
            *ret_why = size_form(text, keep);
        return false;
    }
    *ret_why = duration && !has_unit && *ret ? "needs a unit, as in 250ms, 60s, 10m, 1h or 7d"
               : duration && setting->unit[0] && *ret % SECONDS
                   ? "must be a whole number of seconds, as in 1s, 90s or 5m" : NULL;
    if (*ret_why)
        return false;
    if ((*ret >= setting->min && *ret <= setting->max) ||
        (*ret == 0 && strcmp(setting_standard(setting), "0") == 0))
        return true;
    slice least = setting_number(setting, setting->min, keep);
    slice most = setting_number(setting, setting->max, keep);
    *ret_why = arena_printf(keep, "must be between %.*s and %.*s%s", SLICE_ARG(least),
                            SLICE_ARG(most), setting->type == TYPE_SIZE && !has_unit
                            ? " (a number without a unit is bytes)" : "").ptr;
    return false;
}

static bool read_bool(slice text, bool *ret, const char **ret_why)
{
    *ret = slice_eq(text, S("true"));
    *ret_why = "must be true or false";
    return *ret || slice_eq(text, S("false"));
}

static bool read_choice(const struct setting *setting, slice text, struct arena *keep,
                        const char **ret_why)
{
    slice words = slice_of(setting->unit);
    while (words.ptr)
        if (slice_eq(slice_cut(&words, '|'), text))
            return true;
    *ret_why = arena_printf(keep, "must be one of %s", setting->unit).ptr;
    return false;
}

/* Reads HOST:PORT or [IPV6]:PORT. */
static bool read_address(const struct setting *setting, slice text, const char **ret_why)
{
    *ret_why = setting->unit[0] ? "must be HOST:PORT, [IPV6]:PORT or off"
                                : "must be HOST:PORT or [IPV6]:PORT";
    if (setting->unit[0] && slice_eq(text, slice_of(setting->unit)))
        return true;
    slice host = text, port = url_cut_port(&host);
    if (!port.ptr || !url_port_is_valid(port, ret_why))
        return false;
    bool v6 = slice_starts(host, S("[")) && slice_ends(host, S("]")) && host.len > 3;
    if (!host.len)
        *ret_why = "has no host: write HOST:PORT, with 0.0.0.0 for every IPv4 address of this "
                   "machine";
    else if (!v6 && slice_has(host, ':'))
        *ret_why = "has a colon in its host: leave out http://, and write an IPv6 address in "
                   "brackets, as in [::1]:PORT";
    return v6 || (host.len && !slice_has(host, ':') && !slice_has(host, '[') &&
                  !slice_has(host, '/'));
}

static bool read_text(const struct setting *setting, slice text, struct arena *keep,
                      const char **ret_why)
{
    *ret_why = "must not have a control character, such as a line end";
    if (slice_has_control(text))
        return false;
    *ret_why = "begins or ends with a space: remove the space";
    switch (setting->type) {
    case TYPE_TEXT:
    case TYPE_SECRET: return slice_trim(text).len == text.len;
    case TYPE_CHOICE: return read_choice(setting, text, keep, ret_why);
    case TYPE_ADDRESS: return read_address(setting, text, ret_why);
    case TYPE_PATH:
        *ret_why = "must not be empty";
        return slice_trim(text).len || (!text.len && !setting_standard(setting)[0]);
    default: return true;
    }
}

bool setting_is_number(const struct setting *setting)
{
    return setting->type == TYPE_SIZE || setting->type == TYPE_COUNT ||
           setting->type == TYPE_DURATION;
}

slice setting_flag(const struct setting *setting, struct arena *keep)
{
    slice name = arena_copy(keep, slice_of(setting->name));
    for (char *c = (char *)(uintptr_t)name.ptr; *c; c++)
        *c = *c == '_' ? '-' : *c;
    return name;
}

bool setting_is_text(const struct setting *setting)
{
    return !setting_is_number(setting) && setting->type != TYPE_BOOL;
}

static void *member(const struct setting *setting, void *group)
{
    return (char *)group + setting->offset;
}

bool setting_read(const struct setting *setting, slice text, struct arena *keep, void *group,
                  const char **ret_why)
{
    void *to = member(setting, group);
    if (setting_is_number(setting)) {
        uint64_t number;
        if (!read_number(setting, text, keep, &number, ret_why))
            return false;
        *(uint64_t *)to = number;
    } else if (setting->type == TYPE_BOOL) {
        bool truth;
        if (!read_bool(text, &truth, ret_why))
            return false;
        *(bool *)to = truth;
    } else {
        if (!read_text(setting, text, keep, ret_why))
            return false;
        *(const char **)to = arena_copy(keep, text).ptr;
    }
    return true;
}

slice setting_show(const struct setting *setting, const void *group, struct arena *keep)
{
    const void *from = (const char *)group + setting->offset;
    if (setting_is_number(setting))
        return setting_number(setting, *(const uint64_t *)from, keep);
    if (setting->type == TYPE_BOOL)
        return *(const bool *)from ? S("true") : S("false");
    const char *text = *(const char *const *)from;
    return setting->type == TYPE_SECRET && text[0] ? S("********") : slice_of(text);
}

size_t setting_bytes(const struct setting *setting)
{
    return setting_is_number(setting) ? sizeof(uint64_t)
           : setting_is_text(setting) ? sizeof(const char *)
                                      : sizeof(bool);
}

void setting_copy(const struct setting *to, void *to_group, const struct setting *from,
                  const void *from_group)
{
    check(setting_is_number(to) == setting_is_number(from));
    check(setting_is_text(to) == setting_is_text(from));
    memcpy(member(to, to_group), (const char *)from_group + from->offset, setting_bytes(to));
}

const char *setting_type_name(const struct setting *setting)
{
    static const char *const names[] = {
        "text", "path", "size", "count", "duration", "true|false", "", "address", "url", "secret",
    };
    return setting->type == TYPE_CHOICE ? setting->unit : names[setting->type];
}
