/* control.c - what the origin was told to do, and what it has counted.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A rule is a glob over "bucket/key" (a listing's key is "bucket/"), optionally one method, and the
 * behaviours it sets. A request takes each behaviour from the newest rule that fits and sets it;
 * a rule with times=N is used up after N requests it fits. Lines of a control body, in order:
 *
 *     reset=rules               forgets every rule
 *     seed=N                    starts the sequence of chance() again
 *     object=KEY SIZE           the key exists (SIZE -1: no more)
 *     objects=FORMAT N SIZE     N keys, one %d-like place for the number; SIZE may be "A-B"
 *     file=KEY PATH             the key exists, and has the bytes of this file
 *     flip=GLOB                 a new version of every such object, now
 *     match=GLOB [METHOD]       begins a new rule; without it a behaviour makes a new rule for all
 *     as=ACCESSKEY              the rule is for what is signed with it; "-": for what is not signed
 *     NAME=NUMBER               a behaviour (scripted.h lists them)
 *     region=NAME               x-amz-bucket-region of a status answer
 *     code=NAME                 the S3 error code of a status answer */
#include "scripted.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RULES_MAX 256
#define LOG_LINES_MAX 2000000

struct rule {
    char glob[KEY_BYTES_MAX];
    int method;                  /* -1: any */
    char as[KEY_ID_BYTES];       /* empty: anybody */
    struct behaviour set;        /* values; named by `has` */
    uint64_t has;
    bool has_region, has_code;
};

static struct rule *rules[RULES_MAX];    /* oldest first */
static size_t rule_count;
static uint64_t chance_seed, chance_at;
static uint64_t connections, connections_open, requests_open;
static char **log_lines;
static size_t log_count, log_cap, log_lost;

static const struct {
    const char *name, *help;
    size_t offset;
    int64_t value;
} table[] = {
#define X(name, value, help) { #name, help, offsetof(struct behaviour, name), value },
    BEHAVIOURS(X)
#undef X
};
#define TABLE_ROWS (sizeof(table) / sizeof(table[0]))

static int64_t *field(struct behaviour *behaviour, size_t row)
{
    return (int64_t *)((char *)behaviour + table[row].offset);
}

double now_s(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

double chance(void)
{
    pthread_mutex_lock(&lock);
    uint64_t x = (chance_seed + ++chance_at) * 0x9e3779b97f4a7c15u;
    pthread_mutex_unlock(&lock);
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (double)((x ^ x >> 31) >> 11) / 9007199254740992.0;
}

void behaviour_for(const char *key, enum method method, const char *as, struct behaviour *ret)
{
    memset(ret, 0, sizeof(*ret));
    for (size_t row = 0; row < TABLE_ROWS; row++)
        *field(ret, row) = table[row].value;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < rule_count; i++) {
        struct rule *rule = rules[i];
        if (rule->set.times == 0 || (rule->method >= 0 && rule->method != (int)method)
            || fnmatch(rule->glob, key, 0) != 0 || (*rule->as && strcmp(rule->as, as) != 0))
            continue;
        if (rule->set.times > 0)
            rule->set.times--;
        for (size_t row = 0; row < TABLE_ROWS; row++)
            if (rule->has >> row & 1)
                *field(ret, row) = *field(&rule->set, row);
        if (rule->has_region)
            memcpy(ret->region, rule->set.region, sizeof(ret->region));
        if (rule->has_code)
            memcpy(ret->code, rule->set.code, sizeof(ret->code));
    }
    pthread_mutex_unlock(&lock);
}

/* ---- reading control lines ---- */

static struct rule *rule_new(const char *text)
{
    if (rule_count == RULES_MAX)
        return NULL;
    struct rule *rule = calloc(1, sizeof(*rule));
    snprintf(rule->glob, sizeof(rule->glob), "%s", text);
    rule->method = -1;
    rule->set.times = -1;
    char *space = strrchr(rule->glob, ' ');
    for (int m = 0; space && m < METHOD_COUNT; m++)
        if (strcmp(space + 1, method_names[m]) == 0) {
            rule->method = m;
            *space = 0;
        }
    pthread_mutex_lock(&lock);
    rules[rule_count++] = rule;
    pthread_mutex_unlock(&lock);
    return rule;
}

static void rules_reset(void)
{
    pthread_mutex_lock(&lock);
    while (rule_count > 0)
        free(rules[--rule_count]);
    pthread_mutex_unlock(&lock);
}

static bool add_objects(char *value)
{
    char *size_text = strrchr(value, ' ');
    if (size_text == NULL)
        return false;
    *size_text++ = 0;
    char *count_text = strrchr(value, ' ');
    const char *place = strchr(value, '%');
    if (count_text == NULL || place == NULL || strchr(place + 1, '%'))
        return false;
    *count_text++ = 0;
    const char *kind = place + 1 + strspn(place + 1, "0123456789");
    if (*kind != 'd')
        return false;
    int width = atoi(place + 1);
    long long least = atoll(size_text), most = least;
    if (strchr(size_text, '-'))
        most = atoll(strchr(size_text, '-') + 1);
    for (long i = 0; i < atol(count_text); i++) {
        char key[KEY_BYTES_MAX];
        snprintf(key, sizeof(key), "%.*s%0*ld%s", (int)(place - value), value, width, i, kind + 1);
        object_set(key, least + (most > least ? (int64_t)(chance() * (double)(most - least)) : 0));
    }
    return true;
}

static bool set_behaviour(struct rule **rule, const char *name, const char *value)
{
    if (*rule == NULL)
        *rule = rule_new("*");
    if (*rule == NULL)
        return false;
    if (strcmp(name, "as") == 0) {
        snprintf((*rule)->as, sizeof((*rule)->as), "%s", value);
        return true;
    }
    if (strcmp(name, "region") == 0) {
        snprintf((*rule)->set.region, sizeof((*rule)->set.region), "%s", value);
        return (*rule)->has_region = true;
    }
    if (strcmp(name, "code") == 0) {
        snprintf((*rule)->set.code, sizeof((*rule)->set.code), "%s", value);
        return (*rule)->has_code = true;
    }
    for (size_t row = 0; row < TABLE_ROWS; row++) {
        char *end;
        if (strcmp(table[row].name, name) != 0)
            continue;
        pthread_mutex_lock(&lock);
        *field(&(*rule)->set, row) = strtoll(value, &end, 10);
        (*rule)->has |= (uint64_t)1 << row;
        pthread_mutex_unlock(&lock);
        return *value && *end == 0;
    }
    return false;
}

static bool add_file(char *value)
{
    char *path = strrchr(value, ' ');
    if (path == NULL || strchr(value, '/') == NULL)
        return false;
    *path = 0;
    return object_map(value, path + 1);
}

static bool apply_line(struct rule **rule, const char *name, char *value)
{
    if (strcmp(name, "reset") == 0) {
        rules_reset();
        *rule = NULL;
        return true;
    }
    if (strcmp(name, "seed") == 0) {
        pthread_mutex_lock(&lock);
        chance_seed = strtoull(value, NULL, 10) << 32;
        chance_at = 0;
        pthread_mutex_unlock(&lock);
        return true;
    }
    if (strcmp(name, "object") == 0) {
        char *size = strrchr(value, ' ');
        if (size == NULL || strchr(value, '/') == NULL)
            return false;
        *size = 0;
        object_set(value, atoll(size + 1));
        return true;
    }
    if (strcmp(name, "objects") == 0)
        return add_objects(value);
    if (strcmp(name, "file") == 0)
        return add_file(value);
    if (strcmp(name, "flip") == 0)
        return objects_flip(value) > 0;
    if (strcmp(name, "match") == 0)
        return (*rule = rule_new(value)) != NULL;
    return set_behaviour(rule, name, value);
}

bool control_apply(char *lines, char *ret_why, size_t why_bytes)
{
    struct rule *rule = NULL;
    char *rest;
    for (char *line = strtok_r(lines, "\r\n", &rest); line; line = strtok_r(NULL, "\r\n", &rest)) {
        char *value = strchr(line, '=');
        if (*line == '#')
            continue;
        if (value)
            *value++ = 0;
        if (value == NULL || !apply_line(&rule, line, value)) {
            snprintf(ret_why, why_bytes, "can't do \"%.200s=%.200s\"\n", line, value ? value : "");
            return false;
        }
    }
    return true;
}

void control_help(FILE *to)
{
    for (size_t row = 0; row < TABLE_ROWS; row++)
        fprintf(to, "    %-18s %s (%ld)\n", table[row].name, table[row].help,
                (long)table[row].value);
}

/* ---- counting ---- */

uint64_t count_request(const char *key, enum method method, const struct span *span)
{
    pthread_mutex_lock(&lock);
    struct counts *counts = &object_get(key)->counts;
    counts->requests[method]++;
    uint64_t open = ++requests_open;
    if (span) {
        if (counts->span_count < SPANS_MAX) {
            if (counts->spans == NULL)
                counts->spans = malloc(SPANS_MAX * sizeof(struct span));
            counts->spans[counts->span_count] = *span;
        }
        counts->span_count++;
    }
    pthread_mutex_unlock(&lock);
    return open;
}

static void log_add(char *take_line)    /* under lock */
{
    if (log_count == LOG_LINES_MAX) {
        log_lost++;
        free(take_line);
        return;
    }
    if (log_count == log_cap) {
        log_cap = log_cap ? log_cap * 2 : 1024;
        log_lines = realloc(log_lines, log_cap * sizeof(char *));
    }
    log_lines[log_count++] = take_line;
}

/* Blanks and what is not ASCII as %XX: a line stays a line of words. */
static const char *word(const char *text, char *ret, size_t bytes)
{
    size_t at = 0;
    for (; *text && at + 4 < bytes; text++) {
        if (*text <= ' ' || *text == '%' || *text >= 127)
            at += (size_t)sprintf(ret + at, "%%%02X", (unsigned char)*text);
        else
            ret[at++] = *text;
    }
    ret[at] = 0;
    return at ? ret : "-";
}

void count_end(const char *key, enum method method, const char *range, int status,
               uint64_t bytes, const char *if_match, bool aborted, bool error)
{
    char key_word[3 * KEY_BYTES_MAX], range_word[128], match_word[128], *line;
    if (asprintf(&line, "%.6f %s %s %s %d %lu %s %s\n", now_s(), method_names[method],
                 word(key, key_word, sizeof(key_word)), word(range, range_word, sizeof(range_word)),
                 status, (unsigned long)bytes, word(if_match, match_word, sizeof(match_word)),
                 aborted ? "aborted" : "whole") < 0)
        abort();
    pthread_mutex_lock(&lock);
    struct counts *counts = &object_get(key)->counts;
    counts->bytes += bytes;
    counts->aborted += aborted;
    counts->errors += error;
    requests_open--;
    log_add(line);
    pthread_mutex_unlock(&lock);
}

void count_connection(int by)
{
    pthread_mutex_lock(&lock);
    connections += by > 0;
    connections_open += (uint64_t)(int64_t)by;
    pthread_mutex_unlock(&lock);
}

static void json_text(FILE *to, const char *text)
{
    fputc('"', to);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fprintf(to, "\\%c", *text);
        else if ((unsigned char)*text < ' ')
            fprintf(to, "\\u%04x", *text);
        else
            fputc(*text, to);
    }
    fputc('"', to);
}

struct writing {
    FILE *to;
    struct counts sum;
    bool with_keys, comma;
};

static void counts_write_one(FILE *to, const struct counts *counts)
{
    static const char *const names[] = { "get", "head", "put", "delete", "post", "list" };
    for (int m = 0; m < METHOD_COUNT; m++)
        fprintf(to, "\"%s\":%lu,", names[m], (unsigned long)counts->requests[m]);
    fprintf(to, "\"errors\":%lu,\"aborted\":%lu,\"bytes\":%lu", (unsigned long)counts->errors,
            (unsigned long)counts->aborted, (unsigned long)counts->bytes);
}

static void write_key(const struct object *object, void *arg)
{
    struct writing *writing = arg;
    const struct counts *counts = &object->counts;
    uint64_t requests = 0;
    for (int m = 0; m < METHOD_COUNT; m++) {
        writing->sum.requests[m] += counts->requests[m];
        requests += counts->requests[m];
    }
    writing->sum.bytes += counts->bytes;
    writing->sum.aborted += counts->aborted;
    writing->sum.errors += counts->errors;
    if (!writing->with_keys || requests == 0)
        return;
    fputs(writing->comma ? ",\n" : "\n", writing->to);
    writing->comma = true;
    json_text(writing->to, object->key);
    fputs(":{", writing->to);
    counts_write_one(writing->to, counts);
    fprintf(writing->to, ",\"size\":%ld,\"version\":%lu,\"etag\":", (long)object->size,
            (unsigned long)object->version);
    json_text(writing->to, object->etag);
    fprintf(writing->to, ",\"sha256\":\"%s\",\"spans\":[", object->sha256);
    for (uint64_t i = 0; i < counts->span_count && i < SPANS_MAX; i++)
        fprintf(writing->to, "%s[%ld,%ld]", i ? "," : "", (long)counts->spans[i].first,
                (long)counts->spans[i].last);
    fputs("]}", writing->to);
}

void counts_write(FILE *to, bool with_keys)
{
    struct writing writing = { .to = to, .with_keys = with_keys };
    pthread_mutex_lock(&lock);
    fputs("{\"keys\":{", to);
    objects_each(write_key, &writing);
    fputs("},\n", to);
    counts_write_one(to, &writing.sum);
    fprintf(to, ",\"connections\":%lu,\"connections_open\":%lu,"
            "\"requests_open\":%lu,\"log_lost\":%lu}\n",
            (unsigned long)connections, (unsigned long)connections_open,
            (unsigned long)requests_open, (unsigned long)log_lost);
    pthread_mutex_unlock(&lock);
}

static void reset_key(const struct object *object, void *arg)
{
    (void)arg;
    struct counts *counts = &((struct object *)object)->counts;
    free(counts->spans);
    memset(counts, 0, sizeof(*counts));
}

void counts_reset(void)
{
    pthread_mutex_lock(&lock);
    objects_each(reset_key, NULL);
    while (log_count > 0)
        free(log_lines[--log_count]);
    connections = connections_open;
    log_lost = 0;
    pthread_mutex_unlock(&lock);
}

void log_write(FILE *to)
{
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < log_count; i++)
        fputs(log_lines[i], to);
    pthread_mutex_unlock(&lock);
}
