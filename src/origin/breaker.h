/* breaker.h - decides whether an origin is down, and which calls may be sent meanwhile.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Without a breaker, each call to an origin that is down waits for its own timeout, and a returning
 * origin gets all calls at once. The breaker opens when an origin is evidently down. While it is
 * open, calls are refused at once, but for one call a second: the probe. The first answer of the
 * origin closes the breaker.
 *
 * Each call has a name: BUCKET/KEY. The breaker counts failures since the last answer. It keeps the
 * longest folder that has all names that failed; a folder is a prefix of names that ends in '/', or
 * the empty prefix. Calls outside this folder are not refused. If they fail, too, the folder
 * becomes wider. If the origin answers one of them, the origin is not down. So one bad object or
 * one bad prefix does not cut off the rest of an origin. Nothing here does I/O: time is an argument
 * (rule H9 in src/README.md). The caller holds a lock. */
#ifndef ORIGIN_BREAKER_H
#define ORIGIN_BREAKER_H

#include "base/slice.h"

/* 5 failures in a row, as Envoy's outlier detection and gobreaker have by default. If a
 * busy origin fails in half of its calls, 5 failures in a row are not rare. So the breaker opens
 * only if there was also no answer for BREAKER_SILENT_MS. This time begins when the first of the
 * calls that failed was sent. */
#define BREAKER_FAILURES 5u
#define BREAKER_SILENT_MS 1000u
/* At least 3 different names must have failed, because an origin may fail for one object alone.
 * This limit is not for failures to connect: they have nothing to do with the object. But a bucket
 * may have a host of its own, so they count for the whole bucket. */
#define BREAKER_NAMES 3u
/* For this time after an answer outside the folder that fails, only this folder counts as bad. */
#define BREAKER_ELSEWHERE_MS 5000u
/* Failures with a longer pause between them do not count together. */
#define BREAKER_MEMORY_MS 60000u
/* One call a second is no load for an origin, and a longer pause would only delay its return. */
#define BREAKER_PROBE_MS 1000u
/* If a probe has no result after this time, the next call is a probe, too: the origin may have
 * returned after a hanging probe was sent. */
#define BREAKER_PATIENCE_MS 2000u

#define BREAKER_NAME_BYTES 1280u        /* of a longer name, only the beginning counts */
struct breaker_name {
    char text[BREAKER_NAME_BYTES];
    size_t len;
};

struct breaker {
    bool open;
    unsigned failures;              /* since the last answer */
    unsigned unreached;             /* of these: failures to connect */
    uint64_t sent_ms;               /* when the first of the tries that failed was sent */
    uint64_t failed_ms;             /* the last of these failures */
    uint64_t names[BREAKER_NAMES];  /* hashes of different names that failed */
    unsigned name_count;
    struct breaker_name folder;     /* has all names that failed */
    uint64_t opened_ms;
    uint64_t probe_ms;              /* while open: from then on, a call may be the probe */
    uint64_t answered_ms;           /* the last answer; 0: none yet */
    struct breaker_name answered;   /* the name of the last answer */
};

/* The result of a try. ANSWER: the origin works, whatever it answered. UNREACHED: no connection.
 * FAILURE: no answer, or an answer that the origin failed. NOTHING: says nothing about the origin,
 * as the end of a cancelled call. */
enum breaker_result { BREAKER_NOTHING, BREAKER_ANSWER, BREAKER_FAILURE, BREAKER_UNREACHED };
/* If `err` is OK, the answer had this status. */
enum breaker_result breaker_judge(enum err err, int status);

void breaker_name(struct breaker_name *name, slice bucket, slice key);

/* True if a call of this name would be refused now. */
bool breaker_refuses(const struct breaker *breaker, const struct breaker_name *name,
                     uint64_t now_ms) MUST_USE;
/* To be called for each try before it is sent. If it returns BREAKER_PROBES, the caller must note
 * the result of the try (breaker_note) with `probe` set, even if the result is BREAKER_NOTHING. */
enum breaker_say { BREAKER_ADMITS, BREAKER_PROBES, BREAKER_REFUSES };
enum breaker_say breaker_admit(struct breaker *breaker, const struct breaker_name *name,
                               uint64_t now_ms) MUST_USE;
/* Notes the result of a try. Returns whether the breaker has opened or closed by it. */
struct breaker_try {
    struct breaker_name name;
    enum breaker_result result;
    bool probe;
    uint64_t sent_ms;
};
enum breaker_change { BREAKER_SAME, BREAKER_OPENED, BREAKER_CLOSED };
enum breaker_change breaker_note(struct breaker *breaker, const struct breaker_try *try,
                                 uint64_t now_ms);

#endif
