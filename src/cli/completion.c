/* completion.c - what shells need to complete a line. SPDX-License-Identifier: Apache-2.0
 *
 * A script a shell, made from the tables of commands and settings. All three know the same: the
 * commands, the options of the command on the line, the settings as flags where it takes them, and
 * the words or files that may follow a flag. */
#include <string.h>

#include "cli/cli.h"

/* What may stand behind a flag: words (parted by '|'), a file, something else, or nothing. */
struct flag {
    slice name;            /* with its dashes */
    const char *value;     /* NULL: it takes none */
    const char *help;
};

static const char *value_of(const struct setting *setting)
{
    return setting->type == TYPE_CHOICE ? setting->unit
         : setting->type == TYPE_BOOL ? "true|false"
         : setting->type == TYPE_PATH ? "FILE" : "VALUE";
}

/* Calls `add` for each flag of a command: its own options, then the settings. */
static void each_flag(struct text *to, const struct command *command,
                      void (*add)(struct text *to, const struct command *command, struct flag flag))
{
    const struct command_option *option = command->options;
    for (; option && option->flag; option++)
        add(to, command, (struct flag){ slice_of(option->flag), option->value, option->help });
    for (size_t i = 0; i < setting_count && command->takes_settings; i++) {
        const struct setting *setting = &settings[i];
        if (setting->scope != SCOPE_GLOBAL)
            continue;
        slice flag = setting_flag(setting, to->arena);
        slice name = arena_printf(to->arena, "--%.*s", SLICE_ARG(flag));
        add(to, command, (struct flag){ name, value_of(setting), setting->help });
        if (setting->type == TYPE_SECRET)
            add(to, command, (struct flag){ arena_printf(to->arena, "%.*s-file", SLICE_ARG(name)),
                                            "FILE", setting->help });
    }
}

static bool is_words(const char *value)
{
    return value && strchr(value, '|');
}

static bool is_file(const char *value)
{
    return value && strcmp(value, "FILE") == 0;
}

/* "a|b" as "a b" */
static void add_words(struct text *to, const char *words)
{
    for (; *words; words++)
        text_char(to, *words == '|' ? ' ' : *words);
}

/* What may be the first argument of a command, flags aside, is the same as a flag's value; help
 * knows the commands, too. */
static void add_first_words(struct text *to, const struct command *command)
{
    if (is_words(command->words))
        add_words(to, command->words);
    for (size_t i = 0; i < command_count && command == &command_help; i++)
        text_printf(to, " %s", commands[i]->name);
}

/* ---- bash ---- */

static void bash_flag(struct text *to, const struct command *command, struct flag flag)
{
    (void)command;
    text_printf(to, " %.*s", SLICE_ARG(flag.name));
}

static void bash_value(struct text *to, const struct command *command, struct flag flag)
{
    if (!flag.value)
        return;
    text_printf(to, "    %s\\ %.*s) ", command->name, SLICE_ARG(flag.name));
    if (is_words(flag.value)) {
        text_add(to, S("COMPREPLY=($(compgen -W \""));
        add_words(to, flag.value);
        text_add(to, S("\" -- \"$word\"))"));
    } else if (is_file(flag.value)) {
        text_add(to, S("COMPREPLY=($(compgen -f -- \"$word\"))"));
    } else {
        text_char(to, ':');
    }
    text_add(to, S("; return ;;\n"));
}

static void bash(struct text *to)
{
    text_add(to, S("# bash completion of penstock, made by: penstock config --completion bash\n"
                   "_penstock() {\n"
                   "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
                   "    COMPREPLY=()\n"
                   "    if [ \"$COMP_CWORD\" = 1 ]; then\n"
                   "        COMPREPLY=($(compgen -W \""));
    for (size_t i = 0; i < command_count; i++)
        text_printf(to, "%s%s", i ? " " : "", commands[i]->name);
    text_add(to, S("\" -- \"$word\"))\n        return\n    fi\n"
                   "    case \"${COMP_WORDS[1]} $before\" in\n"));
    for (size_t i = 0; i < command_count; i++)
        each_flag(to, commands[i], bash_value);
    text_add(to, S("    esac\n    case ${COMP_WORDS[1]} in\n"));
    for (size_t i = 0; i < command_count; i++) {
        text_printf(to, "    %s) COMPREPLY=($(compgen -W \"", commands[i]->name);
        add_first_words(to, commands[i]);
        each_flag(to, commands[i], bash_flag);
        text_printf(to, " --help\" %s-- \"$word\")) ;;\n", is_file(commands[i]->words) ? "-f " : "");
    }
    text_add(to, S("    esac\n}\ncomplete -F _penstock penstock\n"));
}

/* ---- zsh ---- */

/* Within single quotes; in a description of _arguments, brackets and colons would end it. */
static void zsh_text(struct text *to, const char *text)
{
    for (; *text; text++) {
        if (*text == '\'')
            text_add(to, S("'\\''"));
        else if (strchr("[]:\\", *text))
            text_printf(to, "\\%c", *text);
        else
            text_char(to, *text);
    }
}

static void zsh_value(struct text *to, const char *value)
{
    if (is_file(value)) {
        text_add(to, S(":file:_files"));
    } else if (is_words(value)) {
        text_add(to, S(":word:("));
        add_words(to, value);
        text_char(to, ')');
    } else if (value) {
        text_printf(to, ":%s: ", value);
    }
}

static void zsh_flag(struct text *to, const struct command *command, struct flag flag)
{
    (void)command;
    text_printf(to, " \\\n            '%.*s%s[", SLICE_ARG(flag.name), flag.value ? "=" : "");
    zsh_text(to, flag.help);
    text_char(to, ']');
    zsh_value(to, flag.value);
    text_char(to, '\'');
}

static void zsh(struct text *to)
{
    text_add(to, S("#compdef penstock\n"
                   "# zsh completion of penstock, made by: penstock config --completion zsh\n"
                   "_penstock() {\n    local -a commands\n    commands=("));
    for (size_t i = 0; i < command_count; i++) {
        text_printf(to, "\n        '%s:", commands[i]->name);
        zsh_text(to, commands[i]->help);
        text_char(to, '\'');
    }
    text_add(to, S("\n    )\n"
                   "    if ((CURRENT == 2)); then\n"
                   "        _describe command commands\n        return\n    fi\n"
                   "    local command=$words[2]\n    shift words\n    ((CURRENT--))\n"
                   "    case $command in\n"));
    for (size_t i = 0; i < command_count; i++) {
        const struct command *command = commands[i];
        text_printf(to, "    %s)\n        _arguments '--help[show its help]'", command->name);
        if (is_file(command->words))
            text_add(to, S(" '1:file:_files'"));
        if (is_words(command->words)) {
            text_add(to, S(" '1:word:("));
            add_first_words(to, command);
            text_add(to, S(")'"));
        }
        each_flag(to, command, zsh_flag);
        text_add(to, S(" ;;\n"));
    }
    text_add(to, S("    esac\n}\n"
                   "if [ \"$funcstack[1]\" = _penstock ]; then _penstock \"$@\"; "
                   "else compdef _penstock penstock; fi\n"));
}

/* ---- fish ---- */

static void fish_text(struct text *to, const char *text)
{
    text_char(to, '\'');
    for (; *text; text++) {
        if (*text == '\'' || *text == '\\')
            text_char(to, '\\');
        text_char(to, *text);
    }
    text_char(to, '\'');
}

static void fish_line(struct text *to, const struct command *command)
{
    text_printf(to, "complete -c penstock -n '__fish_seen_subcommand_from %s' ", command->name);
}

static void fish_flag(struct text *to, const struct command *command, struct flag flag)
{
    fish_line(to, command);
    text_printf(to, "-l %.*s", SLICE_ARG(slice_from(flag.name, 2)));
    if (is_file(flag.value))
        text_add(to, S(" -r -F"));
    else if (flag.value)
        text_add(to, S(" -x"));
    if (is_words(flag.value)) {
        text_add(to, S(" -a '"));
        add_words(to, flag.value);
        text_char(to, '\'');
    }
    text_add(to, S(" -d "));
    fish_text(to, flag.help);
    text_char(to, '\n');
}

static void fish(struct text *to)
{
    text_add(to, S("# fish completion of penstock, made by: penstock config --completion fish\n"
                   "complete -c penstock -f\n"));
    for (size_t i = 0; i < command_count; i++) {
        const struct command *command = commands[i];
        text_printf(to, "complete -c penstock -n __fish_use_subcommand -a %s -d ", command->name);
        fish_text(to, command->help);
        text_char(to, '\n');
        if (is_file(command->words)) {
            fish_line(to, command);
            text_add(to, S("-F\n"));
        } else if (command->words) {
            fish_line(to, command);
            text_add(to, S("-a '"));
            add_first_words(to, command);
            text_add(to, S("'\n"));
        }
        each_flag(to, command, fish_flag);
        fish_line(to, command);
        text_add(to, S("-l help -d 'show its help'\n"));
    }
}

/* ---- all ---- */

static const struct {
    const char *shell;
    void (*write)(struct text *to);
} scripts[] = { { "bash", bash }, { "zsh", zsh }, { "fish", fish } };

bool completion_script(struct text *to, const char *shell)
{
    for (size_t i = 0; i < countof(scripts); i++) {
        if (strcmp(scripts[i].shell, shell) != 0)
            continue;
        scripts[i].write(to);
        return true;
    }
    return false;
}
