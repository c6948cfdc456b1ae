/* generate.c - the example of a settings file. SPDX-License-Identifier: Apache-2.0
 *
 * The example is made from base/config.def, like the manual (manual.c), help (help.c) and
 * completion (completion.c). So a new setting needs only one row in base/config.def: it then
 * appears in all four. scripts/generate writes the example to conf/. */
#include <string.h>

#include "cli/cli.h"
#include "origin/origin.h"

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
    const char *name, *value;    /* of settings whose default makes no sense in an example */
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

/* False for a secret without a value: an empty secret would be a mistake in the file. */
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
    for (size_t i = 0; i < countof(example_values); i++)
        check(setting_find(example_values[i].scope, slice_of(example_values[i].name)));
    text_add(to, S("{\n  \"#\": \"Every setting of Penstock with its default. A name that begins "
                   "with # is a comment. Leave out the settings that you don't change. Secrets "
                   "have no default: give each secret a value, or leave it out.\",\n\n"));
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
                   "\"Further origins, each with a name. If an entry leaves out a setting, "
                   "the matching setting above applies: for region, origin_region; for profile, "
                   "aws_profile\",\n"
                   "  \"origins\": {\n    \"west\": {\n"));
    example_group(to, SCOPE_ORIGIN, "      ");
    text_add(to, S("\n    }\n  },\n\n"
                   "  \"# buckets\": \"Rules of a BUCKET or a BUCKET/PREFIX. "
                   "If an entry leaves out a setting, the value of the setting above applies, or "
                   "the default if there is none above\",\n"
                   "  \"buckets\": {\n    \"datasets/imagenet\": {\n"));
    example_group(to, SCOPE_BUCKET, "      ");
    text_add(to, S("\n    }\n  },\n\n"
                   "  \"# Further key pairs of clients. "
                   "To use them, remove '# ' from the next line\": 0,\n"
                   "  \"# keys\": [\n    {\n"));
    example_group(to, SCOPE_KEY, "      ");
    text_add(to, S("\n    }\n  ]\n}\n"));
}
