/* manual.c - texts that are made from tables. SPDX-License-Identifier: Apache-2.0
 *
 * The manual has settings (base/config.def), budgets of memory (base/budget.def), metrics
 * (base/metric.def) and operations of S3 (s3/op.def) as Markdown between marks in man/.
 * scripts/generate writes them there. The story b28_manual fails if man/ is out of date. The texts
 * are lists, because tables would be wider than a terminal. This file also has `penstock help
 * operations`. */
#include <string.h>

#include "base/budget.h"
#include "cli/cli.h"
#include "origin/origin.h"

static const struct {
    const char *group;    /* a heading; the other members are then empty. NULL: a metric */
    const char *kind, *name, *labels, *help;
} metrics[] = {
#define GROUP(title) { title, "", "", "", "" },
#define COUNTER(id, name, labels, help) { NULL, "counter", name, labels, help },
#define GAUGE(id, name, labels, help) { NULL, "gauge", name, labels, help },
#define HISTOGRAM(id, name, labels, help) { NULL, "histogram", name, labels, help },
#define FAMILY(id, kind, name, label, help) { NULL, kind, name, label, help },
#include "base/metric.def"
#undef COUNTER
#undef GAUGE
#undef HISTOGRAM
};

/* ---- text ---- */

/* Returns the value of a label: "ok" for "result=\"ok\"". */
static slice label_value(const char *label)
{
    slice rest = slice_of(label);
    slice_cut(&rest, '"');
    return slice_cut(&rest, '"');
}

/* The thing that a help text is about. */
struct topic {
    const char *metric;     /* NULL: no metric */
    const char *choices;    /* of a setting with a list of words: "a|b|c"; or NULL */
    bool json;              /* the help text has a piece of JSON, which keeps its quotes */
};

/* True if the word is a value of the metric's label, followed by a colon or a comma, as in
 * "hit: the cache". */
static bool is_label_value(slice word, const char *metric)
{
    if (!metric || !word.len || !strchr(":,", word.ptr[word.len - 1]))
        return false;
    word.len--;
    for (size_t i = 0; i < countof(metrics); i++)
        if (strcmp(metrics[i].name, metric) == 0 && slice_eq(label_value(metrics[i].labels), word))
            return true;
    return false;
}

/* True if the word is one of the setting's words, followed by a colon, as in "never: no object". */
static bool is_choice(slice word, const char *choices)
{
    slice rest = slice_of(choices ? choices : "");
    if (!slice_ends(word, S(":")))
        return false;
    word.len--;
    while (rest.len)
        if (slice_eq(slice_cut(&rest, '|'), word))
            return true;
    return false;
}

/* True for a word that is written as code. It has a '_', as most names of settings and all names of
 * variables and metrics have. Or it is one of Penstock's own operations ("penstock-..."), or begins
 * like a path or with a character of Markdown. */
static bool is_code(slice word)
{
    return word.len && (memchr(word.ptr, '_', word.len) || strchr("/~*<", word.ptr[0]) ||
                        slice_starts(word, S("penstock-")));
}

/* True if the help text has the word in quotes, as in "other". The manual writes such a word as
 * code, without the quotes. */
static bool is_quoted(slice word, slice core)
{
    size_t before = (size_t)(core.ptr - word.ptr), end = before + core.len;
    return before > 0 && end < word.len && word.ptr[before - 1] == '"' && word.ptr[end] == '"';
}

static void add_word(struct text *to, slice word, const struct topic *topic)
{
    slice core = word;
    while (core.len && strchr("(\"", core.ptr[0]))
        core = slice_from(core, 1);
    while (core.len && strchr(",.;:)\"", core.ptr[core.len - 1]))
        core.len--;
    bool quoted = !topic->json && is_quoted(word, core);
    if (!is_code(core) && !quoted && !is_label_value(word, topic->metric) &&
        !is_choice(word, topic->choices)) {
        for (size_t i = 0; i < word.len; i++)
            text_printf(to, "%s%c", word.ptr[i] == '[' ? "\\" : "", word.ptr[i]);    /* no link */
        return;
    }
    size_t before = (size_t)(core.ptr - word.ptr);
    text_add(to, slice_sub(word, 0, before - quoted));
    text_printf(to, "`%.*s`", SLICE_ARG(core));
    text_add(to, slice_from(word, before + core.len + quoted));
}

/* Adds a help text as sentences, with a capital and a full stop. If the text begins with a word of
 * code, the word keeps its small letter. */
static void add_sentence(struct text *to, const char *help, const struct topic *topic)
{
    slice words = slice_of(help);
    bool first = true;
    while (words.len) {
        slice word = slice_cut(&words, ' ');
        if (!first)
            text_char(to, ' ');
        if (first && word.len && word.ptr[0] >= 'a' && word.ptr[0] <= 'z' && !is_code(word)) {
            text_char(to, (char)(word.ptr[0] - 'a' + 'A'));
            word = slice_from(word, 1);
        }
        add_word(to, word, topic);
        first = false;
    }
    size_t len = strlen(help);
    text_add(to, len && help[len - 1] == '.' ? S("\n") : S(".\n"));
}

/* ---- settings ---- */

/* Adds the words of "a|b|c" as "`a`, `b` or `c`". */
static void add_choices(struct text *to, slice words)
{
    while (words.ptr) {
        slice word = slice_cut(&words, '|');
        text_printf(to, "`%.*s`%s", SLICE_ARG(word),
                    !words.ptr ? "" : memchr(words.ptr, '|', words.len) ? ", " : " or ");
    }
}

/* Adds, for example, "size, `1MiB` to `1TiB`, default `64MiB`; reloadable". */
static void add_form(struct text *to, const struct setting *setting)
{
    if (setting->type == TYPE_CHOICE)
        add_choices(to, slice_of(setting->unit));
    else if (setting->type == TYPE_URL)
        text_printf(to, "url: `%s`", url_forms(origin_url_kind, to->arena));
    else
        text_add(to, slice_of(setting_type_name(setting)));
    slice least = setting_number(setting, setting->min, to->arena);
    slice most = setting_number(setting, setting->max, to->arena);
    if (setting->max)
        text_printf(to, ", `%.*s` to `%.*s`", SLICE_ARG(least), SLICE_ARG(most));
    if (setting->standard[0] && setting->standard[0] != '=')
        text_printf(to, "%s default `%s`", setting->type == TYPE_CHOICE ? ";" : ",",
                    setting->standard);
    if (setting->reloadable)
        text_add(to, S("; reloadable"));
}

static void add_setting(struct text *to, const struct setting *setting)
{
    text_printf(to, "- `%s` (", setting->name);
    add_form(to, setting);
    text_add(to, S("). "));
    add_sentence(to, setting->help, &(struct topic){
                     .choices = setting->type == TYPE_CHOICE ? setting->unit : NULL,
                     .json = strchr(setting->help, '{') });
}

static void add_heading(struct text *to, const char *title)
{
    text_printf(to, "%s### %s\n\n", to->len ? "\n" : "", title);
}

void manual_settings(struct text *to)
{
    static const char *const titles[SCOPE_CONSTANT] = {
        [SCOPE_ORIGIN] = "Each origin of `origins`", [SCOPE_BUCKET] = "Each entry of `buckets`",
        [SCOPE_KEY] = "Each entry of `keys`",
    };
    help_each_setting(to, titles, add_heading, add_setting);
}

/* ---- the budgets of `memory` ---- */

void manual_memory(struct text *to)
{
    const struct setting *memory = setting_find(SCOPE_GLOBAL, S("memory"));
    for (size_t i = 0; i < BUDGET_COUNT; i++) {
        const struct budget_row *row = &budget_rows[i];
        slice least = setting_number(memory, row->least, to->arena);
        slice most = setting_number(memory, row->most, to->arena);
        text_printf(to, "- `%s` (`%.*s` to `%.*s`, share %u %%). ", row->name, SLICE_ARG(least),
                    SLICE_ARG(most), row->share);
        add_sentence(to, arena_printf(to->arena, "%s. When it is full: %s", row->holds,
                                      row->full).ptr, &(struct topic){ .metric = NULL });
    }
}

/* ---- metrics ---- */

/* Adds the entry of the metric in row `first`, and returns the row after its last row. */
static size_t add_metric(struct text *to, size_t first)
{
    slice rest = slice_of(metrics[first].labels), label = slice_cut(&rest, '=');
    size_t i = first;
    check(first < countof(metrics) && !metrics[first].group);
    text_printf(to, "- `%s` (%s", metrics[first].name, metrics[first].kind);
    if (label.len)
        text_printf(to, rest.ptr ? "; `%.*s`: " : "; `%.*s`", SLICE_ARG(label));
    for (; i < countof(metrics) && strcmp(metrics[i].name, metrics[first].name) == 0; i++) {
        slice value = label_value(metrics[i].labels);
        if (value.len)
            text_printf(to, "%s`%.*s`", i > first ? ", " : "", SLICE_ARG(value));
    }
    text_add(to, S("). "));
    add_sentence(to, metrics[first].help, &(struct topic){ .metric = metrics[first].name });
    return i;
}

void manual_metrics(struct text *to)
{
    for (size_t i = 0; i < countof(metrics);) {
        if (metrics[i].group) {
            add_heading(to, metrics[i++].group);
        } else {
            i = add_metric(to, i);
        }
    }
}

/* ---- operations ---- */

struct words {
    const char *brief, *phrase;    /* in a column of the help; in a sentence of the manual */
};
static const struct words rights[] = {
    [S3_READ] = { "read", NULL },   [S3_LIST_KEYS] = { "list", NULL },
    [S3_WRITE] = { "write", NULL }, [S3_ADMIN] = { "admin", NULL },
    [S3_MANAGE_CACHE] = { "cache", NULL },
};
static const struct words routes[] = {
    [S3_CACHE] = { "cache, or origin", "the cache or the origin answers" },
    [S3_ITEMS] = { "cache, or origin", "the cache or the origin answers, item by item" },
    [S3_LIST] = { "origin, coalesced",
                  "the origin answers, and equal calls share its answer" },
    [S3_PASS] = { "origin", "the origin answers" },
    [S3_MANAGE] = { "Penstock", "Penstock answers, without the origin" },
    [S3_JOB] = { "Penstock", "Penstock answers, and reads the objects of the job as a GetObject would" },
    [S3_CACHED] = { "cache", "Penstock answers about its cache, if the origin lets the client list" },
};
static const struct words leaves[] = {
    [S3_MUTATES_NOTHING] = { "-", "nothing leaves the cache" },
    [S3_MUTATES_KEY] = { "the object", "the object leaves the cache" },
    [S3_MUTATES_PROPERTY] = { "object's metadata", "the metadata of the object leaves the cache" },
    [S3_MUTATES_KEYS] = { "objects in body", "the objects that the body names leave the cache" },
    [S3_MUTATES_FORM] = { "object in form", "the object that the form names leaves the cache" },
    [S3_MUTATES_GRANTS] = { "permissions",
                            "the permissions leave the cache, and so does the metadata of an "
                            "object that the path names" },
    [S3_MUTATES_HEADS] = { "bucket's metadata",
                           "the metadata of the bucket's objects leaves the cache" },
    [S3_MUTATES_CACHED] = { "objects in query",
                            "the objects that the query names leave the cache" },
    [S3_MUTATES_BUCKET] = { "permissions, metadata",
                            "the permissions and the metadata of the bucket's objects leave the "
                            "cache" },
};

static bool same_kind(const struct s3_operation *a, const struct s3_operation *b)
{
    return a->right == b->right && a->route == b->route && a->mutates == b->mutates;
}

/* Returns the words for a value of op.def. Without this check a new value would print "(null)". */
static const struct words *words_of(const struct words *table, size_t count, size_t value)
{
    check(value < count && table[value].brief);
    return &table[value];
}
#define WORDS(table, value) words_of(table, countof(table), value)

/* Adds the list of operations. Operations that are treated alike share an entry. */
void manual_operations(struct text *to)
{
    for (int op = 0; op < S3_OP_COUNT; op++) {
        const struct s3_operation *row = s3_operation((enum s3_op)op);
        bool is_first = true;
        for (int before = 0; before < op && is_first; before++)
            is_first = !same_kind(s3_operation((enum s3_op)before), row);
        if (!is_first)
            continue;
        text_printf(to, "- Right `%s`; %s; %s:", WORDS(rights, row->right)->brief,
                    WORDS(routes, row->route)->phrase, WORDS(leaves, row->mutates)->phrase);
        const char *between = " ";
        for (int other = op; other < S3_OP_COUNT; other++) {
            if (!same_kind(s3_operation((enum s3_op)other), row))
                continue;
            text_printf(to, "%s%s", between, s3_operation((enum s3_op)other)->name);
            between = ", ";
        }
        text_add(to, S(".\n"));
    }
}

void manual_help_operations(struct text *to)
{
    text_printf(to, "%-41s %-23s %-21s %s\n", "Operation", "answered by", "leaves the cache",
                "right");
    for (int op = 0; op < S3_OP_COUNT; op++) {
        const struct s3_operation *row = s3_operation((enum s3_op)op);
        text_printf(to, "%-41s %-23s %-21s %s\n", row->name, WORDS(routes, row->route)->brief,
                    WORDS(leaves, row->mutates)->brief, WORDS(rights, row->right)->brief);
    }
}
