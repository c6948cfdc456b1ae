/* completion.c - completion of a command line in three shells. SPDX-License-Identifier: Apache-2.0
 *
 * The script of each shell passes the words of the line to `penstock config --complete`, and offers
 * the candidates that this command prints. So the tables of commands and settings are read in one
 * place, and a script stays right when Penstock is upgraded. Each candidate is a line: the word,
 * then a tab and its help, if it has one. The line FILE means that the name of a file is a
 * candidate, too. */
#include <string.h>

#include "cli/cli.h"

/* ---- the candidates ---- */

/* Adds a line for a word, if it begins with the word under the cursor. */
static void offer(struct text *to, slice current, slice word, const char *help)
{
    if (slice_starts(word, current))
        text_printf(to, "%.*s%s%s\n", SLICE_ARG(word), *help ? "\t" : "", help);
}

/* Offers the values of an option. "a|b" gives a line for each word, "FILE" gives the line FILE, and
 * any other value gives no line. */
static void offer_values(struct text *to, slice current, slice prefix, const char *value)
{
    if (value && strcmp(value, "FILE") == 0)
        text_add(to, S("FILE\n"));
    slice words = slice_of(value && strchr(value, '|') ? value : NULL);
    while (words.ptr) {
        slice word = slice_cut(&words, '|');
        offer(to, current, arena_printf(to->arena, "%.*s%.*s", SLICE_ARG(prefix), SLICE_ARG(word)),
              "");
    }
}

static const char *value_of(const struct setting *setting)
{
    return setting->type == TYPE_CHOICE ? setting->unit
         : setting->type == TYPE_BOOL ? "true|false"
         : setting->type == TYPE_PATH ? "FILE" : "VALUE";
}

/* Returns the flags of a command: its own options, --help, and the settings if it takes them. */
static struct command_option *list_flags(const struct command *command, struct arena *keep)
{
    size_t count = 0, most = 2;    /* --help, and the end of the list */
    for (const struct command_option *o = command->options; o && o->flag; o++)
        most++;
    struct command_option *flags = arena_alloc(keep, (most + 2 * setting_count) * sizeof(*flags));
    for (const struct command_option *o = command->options; o && o->flag; o++)
        flags[count++] = *o;
    flags[count++] = (struct command_option){ "--help", NULL, "show its help" };
    for (size_t i = 0; i < setting_count && command->takes_settings; i++) {
        const struct setting *setting = &settings[i];
        if (setting->scope != SCOPE_GLOBAL)
            continue;
        const char *flag = arena_printf(keep, "--%.*s", SLICE_ARG(setting_flag(setting, keep))).ptr;
        flags[count++] = (struct command_option){ flag, value_of(setting), setting->help };
        if (setting->type == TYPE_SECRET)
            flags[count++] = (struct command_option){ arena_printf(keep, "%s-file", flag).ptr,
                                                      "FILE", setting->help };
    }
    check(count < most + 2 * setting_count);
    return flags;
}

static void offer_commands(struct text *to, slice current)
{
    for (size_t i = 0; i < command_count; i++)
        offer(to, current, slice_of(commands[i]->name), commands[i]->help);
}

static void complete_command(struct text *to, const struct command *command, slice before,
                             slice current)
{
    const struct command_option *flags = list_flags(command, to->arena), *flag = flags;
    slice rest = current, prefix = S("");
    slice name = slice_cut(&rest, '=');
    if (rest.ptr) {    /* "--io=u": the value is in the same word */
        before = name;
        prefix = slice_sub(current, 0, name.len + 1);
    }
    while (flag->flag && !(flag->value && slice_eq(before, slice_of(flag->flag))))
        flag++;
    if (flag->flag) {
        offer_values(to, current, prefix, flag->value);
        return;
    }
    offer_values(to, current, S(""), command->words);
    if (command == &command_help)
        offer_commands(to, current);
    for (flag = flags; flag->flag; flag++)
        offer(to, current, slice_of(flag->flag), flag->help);
}

void completion_candidates(struct text *to, const char *line)
{
    slice rest = slice_of(line), name = slice_cut(&rest, ' '), before = S(""), current = S("");
    const char *nearest;
    if (!rest.ptr) {
        offer_commands(to, name);
        return;
    }
    const struct command *command = command_find(arena_copy(to->arena, name).ptr, &nearest);
    while (rest.ptr) {
        if (!slice_eq(current, S("=")))    /* bash makes three words of "--io=u" */
            before = current;
        current = slice_cut(&rest, ' ');
    }
    if (slice_eq(current, S("=")))
        current = S("");
    if (command)
        complete_command(to, command, before, current);
}

/* ---- the scripts ---- */

void completion_bash(struct text *to)
{
    text_add(to, S(
        "# bash completion of penstock, made by: penstock config --completion bash\n"
        "_penstock() {\n"
        "    local IFS=' ' line words word=${COMP_WORDS[COMP_CWORD]}\n"
        "    words=\"${COMP_WORDS[*]:1:COMP_CWORD}\"\n"
        "    IFS=$'\\n'\n"
        "    COMPREPLY=()\n"
        "    while read -r line; do\n"
        "        case $line in\n"
        "        FILE) COMPREPLY+=($(compgen -f -- \"$word\")) ;;\n"
        "        *) COMPREPLY+=(\"${line%%$'\\t'*}\") ;;\n"
        "        esac\n"
        "    done < <(\"${COMP_WORDS[0]}\" config --complete \"$words\" 2>/dev/null)\n"
        "}\n"
        "complete -F _penstock penstock\n"));
}

void completion_zsh(struct text *to)
{
    text_add(to, S(
        "#compdef penstock\n"
        "# zsh completion of penstock, made by: penstock config --completion zsh\n"
        "_penstock() {\n"
        "    local line\n"
        "    local -a found\n"
        "    for line in ${(f)\"$(${~words[1]} config --complete \"${words[2,CURRENT]}\""
        " 2>/dev/null)\"}; do\n"
        "        if [ \"$line\" = FILE ]; then _files\n"
        "        else found+=(\"${${line//:/\\\\:}/$'\\t'/:}\"); fi\n"
        "    done\n"
        "    _describe penstock found\n"
        "}\n"
        "if [ \"$funcstack[1]\" = _penstock ]; then _penstock \"$@\"; "
        "else compdef _penstock penstock; fi\n"));
}

void completion_fish(struct text *to)
{
    text_add(to, S(
        "# fish completion of penstock, made by: penstock config --completion fish\n"
        "function __penstock_candidates\n"
        "    set -l before (commandline -opc)\n"
        "    set -l word (commandline -ct)\n"
        "    set -l words (string trim -l -- \"$before[2..] $word\")\n"
        "    for line in ($before[1] config --complete \"$words\" 2>/dev/null)\n"
        "        if test \"$line\" = FILE\n"
        "            __fish_complete_path \"$word\"\n"
        "        else\n"
        "            echo $line\n"
        "        end\n"
        "    end\n"
        "end\n"
        "complete -c penstock -f -a '(__penstock_candidates)'\n"));
}
