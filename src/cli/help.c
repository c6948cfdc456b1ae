/* help.c - help for the program, for each command and for each setting.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Help is made from the tables of commands (command.def), settings (base/config.def) and operations
 * (manual.c). Texts are wrapped at 80 columns, because terminals are at least that wide. */
#include <config.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "origin/origin.h"

#define WIDTH 80u
#define NAME_WIDTH 24u    /* of the left column */

static const char *const scope_heads[SCOPE_COUNT] = {
    [SCOPE_ORIGIN] = "Settings of \"origins\": { NAME: { ... } }, in the file only",
    [SCOPE_BUCKET] = "Settings of \"buckets\": { BUCKET or BUCKET/PREFIX: { ... } }, "
                     "in the file only",
    [SCOPE_KEY] = "Settings of \"keys\": [ { ... } ], in the file only",
    [SCOPE_GONE] = "A setting of older versions. It has no effect now",
    [SCOPE_CONSTANT] = "An old setting. Penstock still uses your value, and warns. The next "
                       "version will refuse the setting",
};

/* Adds the words of a text to a line that already has `column` characters. Further lines begin at
 * `indent`. */
static void add_wrapped(struct text *to, slice words, size_t column, size_t indent)
{
    check(column < WIDTH && indent < WIDTH);
    for (bool first = true; words.len; first = false) {
        slice word = slice_cut(&words, ' ');
        if (!first && column + 1 + word.len > WIDTH) {
            text_printf(to, "\n%*s", (int)indent, "");
            column = indent;
        } else if (!first) {
            text_char(to, ' ');
            column++;
        }
        text_add(to, word);
        column += word.len;
    }
    text_char(to, '\n');
}

/* Adds a name on the left, and a text to the right of it. If the name is long, the text begins on
 * the next line. */
static void add_row(struct text *to, slice name, slice words)
{
    text_printf(to, "  %.*s", SLICE_ARG(name));
    if (name.len + 3 > NAME_WIDTH)
        text_printf(to, "\n%*s", (int)NAME_WIDTH, "");
    else
        text_printf(to, "%*s", (int)(NAME_WIDTH - name.len - 2), "");
    add_wrapped(to, words, NAME_WIDTH, NAME_WIDTH);
}

/* Returns, for example, "TEXT (size, default 16MiB, reloadable)". */
static slice text_of(struct arena *keep, const struct setting *setting)
{
    const char *standard = setting_standard(setting);
    bool inherited = setting->standard[0] == '=';
    const char *type = setting_type_name(setting);
    if (setting->type == TYPE_URL)
        type = arena_printf(keep, "url: %s", url_forms(origin_url_kind, keep)).ptr;
    return arena_printf(keep, "%s (%s%s%s%s)", setting->help, type,
                        standard[0] && !inherited ? ", default " : "",
                        inherited ? "" : standard, setting->reloadable ? ", reloadable" : "");
}

static void setting_row(struct text *to, const struct setting *setting)
{
    add_row(to, slice_of(setting->name), text_of(to->arena, setting));
}

/* ---- the program ---- */

/* Returns the names on the line of a command: "pin, unpin". */
static slice names_of(struct arena *keep, const struct command *command)
{
    struct text names = text_in(keep);
    text_printf(&names, "%s", command->name);
    for (size_t i = 0; i < command_count; i++)
        if (commands[i]->with && strcmp(commands[i]->with, command->name) == 0)
            text_printf(&names, ", %s", commands[i]->name);
    return text_slice(&names);
}

static void help_commands(struct text *to)
{
    text_add(to, S("Penstock " PACKAGE_VERSION
                   ": an S3 endpoint on this node, with a cache behind it.\n"));
    for (size_t i = 0; i < command_count; i++)
        if (!commands[i]->with)
            text_printf(to, "  penstock %-13.*s %s\n",
                        SLICE_ARG(names_of(to->arena, commands[i])), commands[i]->help);
    text_add(to, S(    /* no blank lines: all of it must fit 24 lines */
        "A setting is a flag, a PENSTOCK_ variable or a key in a JSON file (--config FILE).\n"
        "A flag beats a variable, and a variable beats the file. To begin:\n"
        "  penstock serve --origin https://s3.us-east-1.amazonaws.com"
        " --cache-dir ~/penstock-cache\n"
        "More: penstock COMMAND --help, penstock help SETTING, man penstock\n"
        "Exit status: 0 success, 1 failure, 2 wrong usage or settings, 3 done in part.\n"));
}

const struct command *command_find(const char *name, const char **ret_nearest)
{
    *ret_nearest = NULL;
    for (size_t i = 0; i < command_count; i++) {
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
        if (!*ret_nearest && name_distance(slice_of(commands[i]->name), slice_of(name)) <= 2)
            *ret_nearest = commands[i]->name;
    }
    return NULL;
}

/* ---- one command ---- */

void help_command(struct text *to, const struct command *command)
{
    const struct command_option *option = command->options;
    slice usage = arena_printf(to->arena, "Usage: penstock %s %s", command->name, command->args);
    add_wrapped(to, slice_trim(usage), 0, 8);
    text_char(to, '\n');
    add_wrapped(to, slice_of(command->help), 0, 0);
    if (command->more) {
        text_char(to, '\n');
        for (slice lines = slice_of(command->more); lines.len;)
            add_wrapped(to, slice_cut(&lines, '\n'), 0, 0);
    }
    if (option)
        text_char(to, '\n');
    for (; option && option->flag; option++) {
        check(option->help);
        add_row(to, arena_printf(to->arena, "%s%s%s", option->flag, option->value ? " " : "",
                                 option->value ? option->value : ""), slice_of(option->help));
    }
    if (command->takes_settings)
        text_add(to, S("\nSETTINGS are flags, --NAME VALUE: see penstock help settings.\n"));
}

/* ---- the settings ---- */

void help_each_setting(struct text *to, const char *const titles[SCOPE_CONSTANT],
                       void (*heading)(struct text *to, const char *title),
                       void (*row)(struct text *to, const struct setting *setting))
{
    size_t section = 0;
    for (unsigned scope = 0; scope < SCOPE_CONSTANT; scope++) {
        if (titles[scope])
            heading(to, titles[scope]);
        for (size_t i = 0; i < setting_count; i++) {
            if (settings[i].scope != scope)
                continue;
            if (section < setting_section_count && setting_sections[section].first == i)
                heading(to, setting_sections[section++].title);
            row(to, &settings[i]);
        }
    }
    check(section == setting_section_count);    /* each section begins with a global setting */
}

static void heading(struct text *to, const char *title)
{
    text_printf(to, "\n%s\n", title);
}

static void help_settings(struct text *to)
{
    text_add(to, S("A setting is a flag --NAME VALUE, a variable PENSTOCK_NAME or a key of the\n"
                   "settings file. A flag beats a variable, and a variable beats the file. To\n"
                   "read a secret from a file of its own, give the path of that file as\n"
                   "NAME_file, --NAME-file or PENSTOCK_NAME_FILE.\n"));
    help_each_setting(to, scope_heads, heading, setting_row);
}

static void help_setting(struct text *to, const struct setting *setting)
{
    slice flag = setting_flag(setting, to->arena);
    setting_row(to, setting);
    if (setting->scope != SCOPE_GLOBAL) {
        text_printf(to, "\n%s\n", scope_heads[setting->scope]);
        return;
    }
    text_printf(to, "\n  flag      --%.*s\n  variable  PENSTOCK_", SLICE_ARG(flag));
    for (const char *c = setting->name; *c; c++)
        text_char(to, *c >= 'a' && *c <= 'z' ? (char)(*c - 'a' + 'A') : *c);
    text_printf(to, "\n  file      \"%s\" in the settings file\n", setting->name);
    if (setting->type == TYPE_SECRET)
        text_printf(to, "\nThe value can also be in a file of its own. Give the path of that file "
                    "as\n\"%s_file\" in the settings file, as --%.*s-file, or as the variable "
                    "above\nwith _FILE at the end of its name.\n",
                    setting->name, SLICE_ARG(flag));
}

/* ---- the command ---- */

static const struct setting *find_setting(slice name)
{
    const struct setting *found = NULL;
    for (unsigned scope = 0; scope < SCOPE_COUNT && !found; scope++)
        found = setting_find((enum setting_scope)scope, name);
    return found;
}

static int no_such_word(const char *word, const char *command)
{
    const char *nearest = command ? command : setting_nearest(SCOPE_GLOBAL, slice_of(word));
    fprintf(stderr, "penstock: %s is neither a command nor a setting", word);
    fprintf(stderr, nearest ? " (did you mean \"%s\"?)\n" : "\n", nearest);
    fputs("Try: penstock help, or penstock help settings\n", stderr);
    return EXIT_USAGE;
}

static int run_help(struct cli *cli)
{
    struct text text = text_in(&cli->arena);
    const char *word = cli->argc ? cli->argv[0] : NULL, *nearest = NULL;
    slice name = slice_of(word);
    while (slice_starts(name, S("-")))
        name = slice_from(name, 1);
    const struct command *command = word ? command_find(word, &nearest) : NULL;
    const struct setting *setting = find_setting(name);
    if (!word)
        help_commands(&text);
    else if (strcmp(word, "settings") == 0)
        help_settings(&text);
    else if (strcmp(word, "operations") == 0)
        manual_help_operations(&text);
    else if (command)
        help_command(&text, command);
    else if (setting)
        help_setting(&text, setting);
    else
        return no_such_word(word, nearest);
    fwrite(text.ptr, 1, text.len, stdout);
    return EXIT_GOOD;
}

const struct command command_help = {
    .name = "help", .args = "[COMMAND|SETTING|settings|operations]", .run = run_help,
    .help = "explain the commands, a command or setting, all settings or all operations",
    .words = "settings|operations",
};
