/* read_trace.h - the latest reads of clients, for follow jobs (jobs/follow.h).
 * SPDX-License-Identifier: Apache-2.0
 *
 * While a job watches, each get that is answered with bytes adds the hash of its name. A read
 * that the trace has no room for is lost: the position of a follow job is then a little wrong,
 * which costs bandwidth only. Any thread may call these functions, unless a comment says
 * otherwise. */
#ifndef CACHE_READ_TRACE_H
#define CACHE_READ_TRACE_H

#include "base/slice.h"

struct read_trace;
struct read_trace *read_trace_new(void) MUST_USE;
void read_trace_free(struct read_trace **trace);    /* accepts NULL */
/* Returns the name of a read: a hash of the access key of its client, bucket and key, and the
 * position of the first byte. Another process has other hashes. */
uint64_t read_trace_hash(const struct read_trace *trace, slice reader, slice bucket, slice key,
                         uint64_t first) MUST_USE;
/* To be called as often with false as with true. */
void read_trace_watch(struct read_trace *trace, bool begins);
bool read_trace_is_watched(const struct read_trace *trace);    /* cheap */
void read_trace_add(struct read_trace *trace, uint64_t hash);    /* never waits */
/* Returns the number of reads that were added so far. */
uint64_t read_trace_head(const struct read_trace *trace) MUST_USE;
/* Takes the oldest of the first `until` reads, at most `max`, and returns their number. One
 * thread. */
size_t read_trace_take(struct read_trace *trace, uint64_t until, uint64_t *ret, size_t max);

#endif
