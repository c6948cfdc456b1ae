/* log_kept.c - the latest warnings and errors, kept in memory. SPDX-License-Identifier: Apache-2.0
 *
 * An operator who looks at /status sees what was logged, without the log. Each line of level warn or
 * error comes here, even if log_level hides it. A fault that repeats takes one entry, which counts
 * its lines, so that it does not push out the others. The table has a fixed size, so logging still
 * allocates no memory. Threads: any; one lock guards the table. */
#include <pthread.h>
#include <string.h>

#include "base/log_inside.h"

#define FACTS_MAX 1200u

struct kept {
    enum log_level level;
    const char *event;                /* NULL: this place is free */
    uint64_t count, first_ns, last_ns;
    size_t len;
    char facts[FACTS_MAX];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;    /* guards all that follows */
static struct kept table[LOG_KEPT_MAX];
static uint64_t forgotten;

/* Returns the first fact, or an empty slice if its value is a number, such as a count. */
static slice subject_of(slice facts)
{
    slice word = log_next_word(&facts), value = word;
    (void)slice_cut(&value, '=');
    return log_is_number(value) ? S("") : word;
}

static slice facts_of(const struct kept *kept)
{
    return (slice){ kept->facts, kept->len };
}

/* Returns the entry of this event and subject, else a free place, else the entry whose latest line
 * is the oldest. */
static struct kept *place_for(const struct log_entry *entry, slice facts)
{
    struct kept *oldest = &table[0];
    slice subject = subject_of(facts);
    for (size_t i = 0; i < LOG_KEPT_MAX; i++) {
        struct kept *kept = &table[i];
        if (kept->event && strcmp(kept->event, entry->event) == 0 &&
            slice_eq(subject_of(facts_of(kept)), subject))
            return kept;
        if (kept->last_ns < oldest->last_ns)    /* 0 if the place is free */
            oldest = kept;
    }
    forgotten += oldest->event != NULL;
    *oldest = (struct kept){ .event = entry->event, .first_ns = entry->when_ns };
    return oldest;
}

void log_keep(const struct log_entry *entry)
{
    slice facts = slice_sub(entry->facts, 0, FACTS_MAX);
    pthread_mutex_lock(&lock);
    struct kept *kept = place_for(entry, facts);
    kept->level = entry->level;
    kept->count++;
    kept->last_ns = entry->when_ns;
    kept->len = slice_put(kept->facts, facts);
    pthread_mutex_unlock(&lock);
}

/* ---- reading ---- */

/* Splits the facts into the sentence of the fact "why", without its quotes, and all others. */
static void split(struct arena *keep, slice facts, struct log_kept *ret)
{
    struct text others = text_in(keep);
    ret->why = S("");
    while (facts.len) {
        slice word = log_next_word(&facts), value = word;
        slice name = slice_cut(&value, '=');
        bool is_why = slice_eq(name, S("why")) && slice_starts(value, S("\""));
        slice sentence = slice_from(value, 1);
        if (is_why && slice_ends(sentence, S("\"")))    /* it does not if the facts were cut */
            sentence.len--;
        if (is_why)
            ret->why = arena_copy(keep, sentence);
        else if (word.len)
            text_printf(&others, text_slice(&others).len ? " %.*s" : "%.*s", SLICE_ARG(word));
    }
    ret->facts = text_slice(&others);
}

/* Puts the entry at its place in a list of `count` entries, the latest first. */
static void insert(const struct kept **list, size_t count, const struct kept *kept)
{
    size_t at = count;
    for (; at > 0 && list[at - 1]->last_ns < kept->last_ns; at--)
        list[at] = list[at - 1];
    list[at] = kept;
}

size_t log_kept_read(struct arena *keep, struct log_kept **ret, uint64_t *ret_forgotten)
{
    const struct kept *sorted[LOG_KEPT_MAX];
    size_t count = 0;
    *ret = arena_alloc(keep, LOG_KEPT_MAX * sizeof(**ret));
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < LOG_KEPT_MAX; i++)
        if (table[i].event)
            insert(sorted, count++, &table[i]);
    for (size_t i = 0; i < count; i++) {
        const struct kept *kept = sorted[i];
        (*ret)[i] = (struct log_kept){
            .level = kept->level, .event = kept->event, .count = kept->count,
            .first_s = (int64_t)(kept->first_ns / 1000000000u),
            .last_s = (int64_t)(kept->last_ns / 1000000000u) };
        split(keep, facts_of(kept), &(*ret)[i]);
    }
    *ret_forgotten = forgotten;
    pthread_mutex_unlock(&lock);
    return count;
}
