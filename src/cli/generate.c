/* generate.c - texts made from the tables of commands and settings.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Help, the rows of the man page, the example file and completion: a new row in base/config.def is
 * all that a new setting needs to be in each. scripts/generate writes those that are kept. */
#include <config.h>
#include <string.h>

#include "cli/cli.h"
#include "s3/request.h"

static const struct {
    const char *head, *member;    /* how a group is introduced, and the way to its rows */
} scopes[SCOPE_COUNT] = {
    [SCOPE_GLOBAL] = { "Flags --NAME VALUE, variables PENSTOCK_NAME, keys of the settings file",
                       "" },
    [SCOPE_ORIGIN] = { "\"origins\": { NAME: { ... } }, in the file only", "origins.NAME." },
    [SCOPE_BUCKET] = { "\"buckets\": { BUCKET or BUCKET/PREFIX: { ... } }, in the file only",
                       "buckets.BUCKET." },
    [SCOPE_KEY] = { "\"keys\": [ { ... } ], in the file only", "keys[]." },
};

static slice flag_name(struct arena *keep, const struct setting *setting)
{
    slice name = arena_copy(keep, slice_of(setting->name));
    for (char *c = (char *)(uintptr_t)name.ptr; *c; c++)
        *c = *c == '_' ? '-' : *c;
    return name;
}

void generate_help(struct text *to)
{
    text_add(to, S("Penstock " PACKAGE_VERSION
                   ": an S3 endpoint on this node, with a cache behind it.\n\n"));
    for (size_t i = 0; i < command_count; i++) {
        slice call = arena_printf(to->arena, "%s %s", commands[i].name, commands[i].args);
        text_printf(to, "  penstock %-26.*s %s\n", SLICE_ARG(call), commands[i].help);
    }
    text_add(to, S("\n"
        "  penstock config --example                the settings file with every setting in it\n"
        "  penstock config --completion bash        what bash needs to complete flags\n"
        "\n"
        "Settings are flags, PENSTOCK_ variables or a JSON file (--config FILE), in this order. "
        "To begin:\n"
        "  penstock serve --origin https://s3.us-east-1.amazonaws.com"
        " --cache-dir /var/cache/penstock\n"
        "Exit status: 0 fine, 1 failed, 2 wrong usage or wrong settings. More: man penstock\n"));
}

void generate_help_settings(struct text *to)
{
    for (unsigned scope = 0; scope < SCOPE_COUNT; scope++) {
        text_printf(to, "%s%s\n", scope ? "\n" : "", scopes[scope].head);
        for (size_t i = 0; i < setting_count; i++) {
            const struct setting *setting = &settings[i];
            if (setting->scope != scope)
                continue;
            const char *standard = setting->standard[0] == '=' ? "" : setting->standard;
            text_printf(to, "  %-22s %-24s %s", setting->name, setting_type_name(setting),
                        setting->help);
            text_printf(to, standard[0] ? " [%s]" : "%s", standard);
            text_add(to, setting->reloadable ? S(" (reloadable)\n") : S("\n"));
        }
    }
    text_add(to, S("\nA secret may also lie in a file: "
                   "NAME_file, --NAME-file, PENSTOCK_NAME_FILE.\n"));
}

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

static void example_group(struct text *to, enum setting_scope scope, const char *indent)
{
    const char *comma = "";
    for (size_t i = 0; i < setting_count; i++) {
        if (settings[i].scope != scope)
            continue;
        text_add(to, slice_of(comma));
        example_row(to, &settings[i], example_value(&settings[i]), indent);
        comma = ",\n";
    }
}

void generate_example(struct text *to, struct arena *keep)
{
    text_add(to, S("{\n  \"#\": \"Every setting of Penstock with its default. What begins with # "
                   "is a comment; leave out what you don't change.\",\n\n"));
    for (size_t i = 0; i < setting_count; i++) {
        const struct setting *setting = &settings[i];
        if (setting->scope != SCOPE_GLOBAL || strcmp(setting->name, "config") == 0)
            continue;
        bool has_words = setting->unit[0] && setting->type != TYPE_DURATION;
        slice words = has_words ? arena_printf(keep, " (%s)", setting->unit) : S("");
        text_printf(to, "  \"# %s\": ", setting->name);
        add_json(to, arena_printf(keep, "%s%.*s", setting->help, SLICE_ARG(words)).ptr);
        text_add(to, S(",\n"));
        example_row(to, setting, setting->standard, "  ");
        text_add(to, S(",\n\n"));
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

/* ---- the man page ---- */

/* Escaped, and broken at spaces: mandoc wants source lines of at most 80. */
static void man_text(struct text *to, const char *text)
{
    for (size_t column = 0; *text; text++, column++) {
        if (*text == '\\') {
            text_add(to, S("\\e"));
        } else if (*text == '-') {
            text_add(to, S("\\-"));
        } else if (*text == ' ' && column + strcspn(text + 1, " ") > 66) {
            text_char(to, '\n');
            column = 0;
        } else {
            text_char(to, *text);
        }
    }
}

static void man_row(struct text *to, const struct setting *setting)
{
    if (setting->scope == SCOPE_GLOBAL)
        text_printf(to, ".It Fl \\-%.*s Ar ", SLICE_ARG(flag_name(to->arena, setting)));
    else
        text_printf(to, ".It Cm %s Ar ", setting->name);
    text_add(to, slice_of(setting_type_name(setting)));
    text_char(to, '\n');
    man_text(to, setting->help);
    text_add(to, S(".\n"));
    const char *standard = setting->standard[0] == '=' ? "" : setting->standard;
    if (standard[0]) {
        text_add(to, S("Default: "));
        man_text(to, standard);
        text_add(to, S(".\n"));
    }
    if (setting->reloadable)
        text_add(to, S("Reloadable.\n"));
}

void generate_man(struct text *to)
{
    static const char *const titles[SCOPE_COUNT] = {
        "Everywhere", "Each of origins", "Each of buckets", "Each of keys",
    };
    for (unsigned scope = 0; scope < SCOPE_COUNT; scope++) {
        text_printf(to, ".Ss %s\n.Bl -tag -width Ds\n", titles[scope]);
        for (size_t i = 0; i < setting_count; i++)
            if (settings[i].scope == scope)
                man_row(to, &settings[i]);
        text_add(to, S(".El\n"));
    }
}

/* ---- the operations ---- */

static const char *answered_by(const struct s3_operation *row)
{
    static const char *const routes[] = {
        [S3_CACHE] = "cache, or origin", [S3_LIST] = "origin, alike together", [S3_PASS] = "origin",
        [S3_ITEMS] = "cache, or origin",
    };
    return routes[row->route];
}

static const char *changes(const struct s3_operation *row)
{
    static const char *const texts[] = {
        [S3_MUTATES_NOTHING] = "-", [S3_MUTATES_KEY] = "its object",
        [S3_MUTATES_PROPERTY] = "what is said of it",
        [S3_MUTATES_KEYS] = "those in its body", [S3_MUTATES_FORM] = "that of its form",
        [S3_MUTATES_GRANTS] = "who may read",
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

void generate_man_operations(struct text *to)
{
    text_add(to, S(".Bl -column \"UpdateObjectEncryption....................\" "
                   "\"origin, alike together\" \"those in its body\" \"admin\"\n"
                   ".It Sy Operation Ta Sy Answered by Ta Sy Leaves the cache Ta Sy Right\n"));
    for (int op = 0; op < S3_OP_COUNT; op++) {
        const struct s3_operation *row = s3_operation((enum s3_op)op);
        text_printf(to, ".It %s Ta %s Ta %s Ta %s\n", row->name, answered_by(row),
                    row->mutates ? changes(row) : "\\-", takes(row));
    }
    text_add(to, S(".El\n"));
}

/* ---- completion ---- */

void generate_completion(struct text *to)
{
    text_add(to, S("# bash completion of penstock, made by: penstock config --completion bash\n"
                   "_penstock() {\n"
                   "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
                   "    COMPREPLY=()\n"
                   "    if [ \"$COMP_CWORD\" = 1 ]; then\n"
                   "        COMPREPLY=($(compgen -W \""));
    for (size_t i = 0; i < command_count; i++)
        text_printf(to, "%s%s", i ? " " : "", commands[i].name);
    text_add(to, S("\" -- \"$word\"))\n        return\n    fi\n    case $before in\n"));
    for (size_t i = 0; i < setting_count; i++) {
        const struct setting *setting = &settings[i];
        if (setting->scope != SCOPE_GLOBAL)
            continue;
        slice flag = flag_name(to->arena, setting);
        if (setting->type == TYPE_CHOICE) {
            slice words = arena_copy(to->arena, slice_of(setting->unit));
            for (char *c = (char *)(uintptr_t)words.ptr; *c; c++)
                *c = *c == '|' ? ' ' : *c;
            text_printf(to, "    --%.*s) "
                        "COMPREPLY=($(compgen -W \"%.*s\" -- \"$word\")); return ;;\n",
                        SLICE_ARG(flag), SLICE_ARG(words));
        } else if (setting->type == TYPE_PATH) {
            text_printf(to, "    --%.*s) COMPREPLY=($(compgen -f -- \"$word\")); return ;;\n",
                        SLICE_ARG(flag));
        }
    }
    text_add(to, S("    esac\n    COMPREPLY=($(compgen -W \""));
    for (size_t i = 0; i < setting_count; i++)
        if (settings[i].scope == SCOPE_GLOBAL)
            text_printf(to, "%s--%.*s", i ? " " : "",
                        SLICE_ARG(flag_name(to->arena, &settings[i])));
    text_add(to, S("\" -- \"$word\"))\n}\ncomplete -F _penstock penstock\n"));
}
