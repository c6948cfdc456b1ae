/* generate.c - the example file, and the operations of S3, from tables. SPDX-License-Identifier: Apache-2.0
 *
 * A new row in base/config.def is all that a new setting needs to be in the example, in the manual
 * (manual.c), in help (help.c) and in completion (completion.c). scripts/generate writes the texts
 * that are kept in the tree. */
#include <string.h>

#include "cli/cli.h"
#include "origin/origin.h"
#include "s3/request.h"

/* ---- the example file ---- */

static void add_json(struct text *to, const char *text)
{
    text_char(to, '"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            text_char(to, '\\');
        text_char(to, *text);
    }
    text_char(to, '"');
}

static void example_row(struct text *to, const struct setting *setting, const char *value,
                        const char *indent)
{
    bool bare = setting->type == TYPE_BOOL || setting->type == TYPE_COUNT;
    text_printf(to, "%s\"%s\": ", indent, setting->name);
    if (bare)
        text_add(to, slice_of(value));
    else
        add_json(to, value);
}

static const struct {
    enum setting_scope scope;
    const char *name, *value;    /* where the default alone would make no sense */
} example_values[] = {
    { SCOPE_ORIGIN, "url", "https://s3.us-west-2.amazonaws.com" },
    { SCOPE_BUCKET, "origin", "west" },
    { SCOPE_BUCKET, "freshness", "immutable" },
    { SCOPE_KEY, "access_key", "EXAMPLE" },
    { SCOPE_KEY, "secret_key", "choose-your-own" },
};

static const char *example_value(const struct setting *setting)
{
    for (size_t i = 0; i < countof(example_values); i++)
        if (example_values[i].scope == setting->scope &&
            strcmp(example_values[i].name, setting->name) == 0)
            return example_values[i].value;
    return setting_standard(setting);
}

/* A secret that is written down must not be empty. */
static bool has_example(const struct setting *setting)
{
    return setting->type != TYPE_SECRET || example_value(setting)[0];
}

static void example_group(struct text *to, enum setting_scope scope, const char *indent)
{
    const char *comma = "";
    for (size_t i = 0; i < setting_count; i++) {
        if (settings[i].scope != scope || !has_example(&settings[i]))
            continue;
        text_add(to, slice_of(comma));
        example_row(to, &settings[i], example_value(&settings[i]), indent);
        comma = ",\n";
    }
}

void generate_example(struct text *to, struct arena *keep)
{
    text_add(to, S("{\n  \"#\": \"Every setting of Penstock with its default. What begins with # "
                   "is a comment; leave out what you don't change. Secrets have no default: write "
                   "them with a value, or not at all.\",\n\n"));
    for (size_t i = 0; i < setting_count; i++) {
        const struct setting *setting = &settings[i];
        if (setting->scope != SCOPE_GLOBAL || strcmp(setting->name, "config") == 0)
            continue;
        bool has_words = setting->unit[0] && setting->type != TYPE_DURATION;
        slice words = has_words ? arena_printf(keep, " (%s)", setting->unit)
                    : setting->type == TYPE_URL
                          ? arena_printf(keep, " (%s)", url_forms(origin_url_kind, keep)) : S("");
        text_printf(to, "  \"# %s\": ", setting->name);
        add_json(to, arena_printf(keep, "%s%.*s", setting->help, SLICE_ARG(words)).ptr);
        text_add(to, S(",\n"));
        if (has_example(setting)) {
            example_row(to, setting, setting->standard, "  ");
            text_add(to, S(",\n"));
        }
        text_char(to, '\n');
    }
    text_add(to, S("  \"# origins\": "
                   "\"more origins by name; what is left out is as in the origin_ settings\",\n"
                   "  \"origins\": {\n    \"west\": {\n"));
    example_group(to, SCOPE_ORIGIN, "      ");
    text_add(to, S("\n    }\n  },\n\n"
                   "  \"# buckets\": \"BUCKET or BUCKET/PREFIX; "
                   "what is left out is as in the settings above\",\n"
                   "  \"buckets\": {\n    \"datasets/imagenet\": {\n"));
    example_group(to, SCOPE_BUCKET, "      ");
    text_add(to, S("\n    }\n  },\n\n"
                   "  \"# more key pairs of clients; "
                   "take the # and the space away to use them\": 0,\n"
                   "  \"# keys\": [\n    {\n"));
    example_group(to, SCOPE_KEY, "      ");
    text_add(to, S("\n    }\n  ]\n}\n"));
}

/* ---- the operations ---- */

static const char *answered_by(const struct s3_operation *row)
{
    static const char *const routes[] = {
        [S3_CACHE] = "cache, or origin", [S3_LIST] = "origin, coalesced", [S3_PASS] = "origin",
        [S3_ITEMS] = "cache, or origin",
    };
    return routes[row->route];
}

static const char *changes(const struct s3_operation *row)
{
    static const char *const texts[] = {
        [S3_MUTATES_NOTHING] = "-", [S3_MUTATES_KEY] = "its object",
        [S3_MUTATES_PROPERTY] = "its metadata",
        [S3_MUTATES_KEYS] = "those in its body", [S3_MUTATES_FORM] = "that of its form",
        [S3_MUTATES_GRANTS] = "permissions", [S3_MUTATES_HEADS] = "all its metadata",
        [S3_MUTATES_BUCKET] = "all of it",
    };
    return texts[row->mutates];
}

static const char *takes(const struct s3_operation *row)
{
    static const char *const rights[] = {
        [S3_READ] = "read", [S3_LIST_KEYS] = "list", [S3_WRITE] = "write", [S3_ADMIN] = "admin",
    };
    return rights[row->right];
}

void generate_help_operations(struct text *to)
{
    text_printf(to, "%-41s %-23s %-18s %s\n", "Operation", "answered by", "leaves the cache",
                "right");
    for (int op = 0; op < S3_OP_COUNT; op++) {
        const struct s3_operation *row = s3_operation((enum s3_op)op);
        text_printf(to, "%-41s %-23s %-18s %s\n", row->name, answered_by(row), changes(row),
                    takes(row));
    }
}
