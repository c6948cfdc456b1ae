/* breaker.c - decides whether an origin is down, and which calls may be sent meanwhile.
 * SPDX-License-Identifier: Apache-2.0 */
#include "origin/breaker.h"

#include <string.h>

enum breaker_result breaker_judge(enum err err, int status)
{
    switch (err) {
    case OK:    /* 501: the origin works, but does not support the request */
        return status < 500 || status == 501 ? BREAKER_ANSWER : BREAKER_FAILURE;
    case ERR_ORIGIN_CONNECT:
        return BREAKER_UNREACHED;
    case ERR_ORIGIN_TIMEOUT: case ERR_ORIGIN_CUT:
        return BREAKER_FAILURE;
    default:
        return BREAKER_NOTHING;
    }
}

/* ---- names ---- */

static void name_add(struct breaker_name *name, slice text)
{
    text.len = MIN(text.len, sizeof(name->text) - name->len);
    name->len += slice_put(name->text + name->len, text);
}

void breaker_name(struct breaker_name *name, slice bucket, slice key)
{
    name->len = 0;
    name_add(name, bucket);
    name_add(name, S("/"));
    name_add(name, key);
}

static bool is_in(const struct breaker_name *folder, const struct breaker_name *name)
{
    return name->len >= folder->len && memcmp(name->text, folder->text, folder->len) == 0;
}

static void name_copy(struct breaker_name *to, const struct breaker_name *from)
{
    to->len = 0;
    name_add(to, (slice){ from->text, from->len });
}

/* Makes the folder wider, until the name is in it. */
static void widen(struct breaker_name *folder, const struct breaker_name *name)
{
    size_t same = 0;
    while (same < folder->len && same < name->len && folder->text[same] == name->text[same])
        same++;
    while (same > 0 && folder->text[same - 1] != '/')
        same--;
    folder->len = same;
}

static void widen_to_bucket(struct breaker_name *folder)
{
    const char *end = memchr(folder->text, '/', folder->len);
    folder->len = end ? (size_t)(end - folder->text) + 1 : 0;
}

static uint64_t hash_of(const struct breaker_name *name)
{
    uint64_t hash = 0xcbf29ce484222325u;    /* FNV-1a: an equal hash only delays the opening */
    for (size_t i = 0; i < name->len; i++)
        hash = (hash ^ (unsigned char)name->text[i]) * 0x100000001b3u;
    return hash;
}

/* ---- failures ---- */

static void forget_failures(struct breaker *breaker)
{
    breaker->failures = breaker->unreached = breaker->name_count = 0;
}

static void note_name(struct breaker *breaker, const struct breaker_name *name)
{
    uint64_t hash = hash_of(name);
    for (unsigned i = 0; i < breaker->name_count; i++)
        if (breaker->names[i] == hash)
            return;
    if (breaker->name_count < BREAKER_NAMES)
        breaker->names[breaker->name_count++] = hash;
}

static void count_failure(struct breaker *breaker, const struct breaker_try *try, uint64_t now_ms)
{
    bool unreached = try->result == BREAKER_UNREACHED;
    if (!breaker->open && now_ms > breaker->failed_ms + BREAKER_MEMORY_MS)
        forget_failures(breaker);
    if (!breaker->failures) {
        breaker->sent_ms = try->sent_ms;
        name_copy(&breaker->folder, &try->name);
    }
    widen(&breaker->folder, &try->name);
    if (unreached)
        widen_to_bucket(&breaker->folder);
    breaker->sent_ms = MIN(breaker->sent_ms, try->sent_ms);
    breaker->failed_ms = now_ms;
    breaker->failures++;
    breaker->unreached += unreached;
    note_name(breaker, &try->name);
}

static bool is_down(const struct breaker *breaker, uint64_t now_ms)
{
    bool silent = now_ms >= MAX(breaker->sent_ms, breaker->answered_ms) + BREAKER_SILENT_MS;
    bool answers_elsewhere = breaker->answered_ms &&
                             now_ms < breaker->answered_ms + BREAKER_ELSEWHERE_MS &&
                             !is_in(&breaker->folder, &breaker->answered);
    return breaker->failures >= BREAKER_FAILURES && silent &&
           (breaker->name_count >= BREAKER_NAMES || breaker->unreached >= BREAKER_FAILURES) &&
           !answers_elsewhere;
}

/* ---- the breaker ---- */

bool breaker_refuses(const struct breaker *breaker, const struct breaker_name *name,
                     uint64_t now_ms)
{
    return breaker->open && now_ms < breaker->probe_ms && is_in(&breaker->folder, name);
}

enum breaker_say breaker_admit(struct breaker *breaker, const struct breaker_name *name,
                               uint64_t now_ms)
{
    if (!breaker->open || !is_in(&breaker->folder, name))
        return BREAKER_ADMITS;
    if (now_ms < breaker->probe_ms)
        return BREAKER_REFUSES;
    breaker->probe_ms = now_ms + BREAKER_PATIENCE_MS;
    return BREAKER_PROBES;
}

static enum breaker_change note_answer(struct breaker *breaker, const struct breaker_name *name,
                                       uint64_t now_ms)
{
    bool was_open = breaker->open;
    forget_failures(breaker);
    breaker->open = false;
    breaker->answered_ms = now_ms;
    name_copy(&breaker->answered, name);
    return was_open ? BREAKER_CLOSED : BREAKER_SAME;
}

static enum breaker_change note_failure(struct breaker *breaker, const struct breaker_try *try,
                                        uint64_t now_ms)
{
    count_failure(breaker, try, now_ms);
    if (breaker->open || !is_down(breaker, now_ms))
        return BREAKER_SAME;
    breaker->open = true;
    breaker->opened_ms = now_ms;
    breaker->probe_ms = now_ms + BREAKER_PROBE_MS;
    return BREAKER_OPENED;
}

enum breaker_change breaker_note(struct breaker *breaker, const struct breaker_try *try,
                                 uint64_t now_ms)
{
    check(!breaker->open || breaker->failures >= BREAKER_FAILURES);
    bool nothing = try->result == BREAKER_NOTHING;
    if (try->probe && breaker->open)
        breaker->probe_ms = now_ms + (nothing ? 0 : BREAKER_PROBE_MS);
    if (try->result == BREAKER_ANSWER)
        return note_answer(breaker, &try->name, now_ms);
    return nothing ? BREAKER_SAME : note_failure(breaker, try, now_ms);
}
