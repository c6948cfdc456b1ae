/* trace.c - the trace context of a request, as W3C Trace Context has it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A client decides for its requests: if its flag "sampled" is set, the request is recorded, and
 * otherwise it is not. The limit of such requests a second protects the queue of spans from hostile
 * clients. Requests without a trace are recorded by chance. */
#include "base/trace.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/metric.h"

#define FLAG_SAMPLED 0x01u
#define FLAGS_KNOWN 0x03u             /* "sampled", and "random" of level 2 */
#define VERSION_INVALID 0xffu
#define STATE_MEMBERS_MAX 32u
#define STATE_WORD_MAX 256u
#define COUNT_BITS 24                 /* of `window` */

static struct {
    atomic_bool on;
    _Atomic uint64_t limit;           /* the ratio, as a part of 2^32 */
    atomic_uint a_second;
    _Atomic uint64_t window;          /* a second, and the requests that were recorded in it */
} sampling;

/* ---- the headers ---- */

static bool read_hex(slice text, uint8_t *ret, size_t bytes)    /* upper case is not valid */
{
    return slice_only(text, DIGIT_CHARS "abcdef") && slice_unhex(text, ret, bytes);
}

static bool is_zero(const uint8_t *id, size_t bytes)
{
    while (bytes && !id[bytes - 1])
        bytes--;
    return bytes == 0;
}

bool trace_parse(slice parent, struct trace *ret)
{
    struct trace got = { .given = true, .remote = true };
    uint8_t version;
    const char *text = parent.ptr;
    if (parent.len < TRACEPARENT_BYTES || text[2] != '-' || text[35] != '-' || text[52] != '-')
        return false;
    if (!read_hex(slice_sub(parent, 0, 2), &version, 1) ||
        !read_hex(slice_sub(parent, 3, 32), got.id, sizeof(got.id)) ||
        !read_hex(slice_sub(parent, 36, 16), got.span_id, sizeof(got.span_id)) ||
        !read_hex(slice_sub(parent, 53, 2), &got.flags, 1))
        return false;
    /* A later version may have more behind the flags, and these flags may have other meanings. */
    bool longer = parent.len > TRACEPARENT_BYTES;
    if (version == VERSION_INVALID || (longer && (!version || text[TRACEPARENT_BYTES] != '-')))
        return false;
    if (is_zero(got.id, sizeof(got.id)) || is_zero(got.span_id, sizeof(got.span_id)))
        return false;
    got.flags &= version ? FLAG_SAMPLED : FLAGS_KNOWN;
    *ret = got;
    return true;
}

static bool is_member(slice member)
{
    slice value = member, key = slice_cut(&value, '=');
    if (!key.len || key.len > STATE_WORD_MAX || !value.len || value.len > STATE_WORD_MAX)
        return false;
    for (size_t i = 0; i < value.len; i++)
        if (value.ptr[i] < ' ' || value.ptr[i] > '~' || value.ptr[i] == '=')
            return false;
    return slice_only(key, LOWER_CHARS DIGIT_CHARS "_-*/@") &&
           slice_has(S(LOWER_CHARS DIGIT_CHARS), key.ptr[0]);
}

bool trace_state_is_valid(slice state)
{
    size_t members = 0;
    if (!state.len || state.len > TRACESTATE_BYTES_MAX)
        return false;
    for (slice rest = state; rest.ptr;) {
        slice member = slice_trim(slice_cut(&rest, ','));
        if (!member.len)
            continue;    /* empty members are valid */
        if (!is_member(member) || ++members > STATE_MEMBERS_MAX)
            return false;
    }
    return members > 0;
}

void trace_write(const struct trace *trace, char ret[TRACEPARENT_BYTES])
{
    check(trace->given);
    memcpy(ret, "00-", 3);
    hex_write(trace->id, sizeof(trace->id), ret + 3);
    ret[35] = '-';
    hex_write(trace->span_id, sizeof(trace->span_id), ret + 36);
    ret[52] = '-';
    hex_write(&trace->flags, 1, ret + 53);
}

/* ---- ids ---- */

static void make_id(uint8_t *ret, size_t bytes)
{
    do
        check(getrandom(ret, bytes, 0) == (ssize_t)bytes);
    while (is_zero(ret, bytes));
}

void trace_child(const struct trace *parent, struct trace *ret)
{
    struct trace child = *parent;
    child.span = NULL;
    if (child.recorded) {
        child.remote = false;
        memcpy(child.parent_id, parent->span_id, sizeof(child.parent_id));
        make_id(child.span_id, sizeof(child.span_id));
    }
    *ret = child;
}

void trace_sibling(struct trace *trace)
{
    if (trace->recorded)
        make_id(trace->span_id, sizeof(trace->span_id));
}

void trace_copy(const struct trace *from, struct arena *keep, struct trace *ret)
{
    *ret = from ? *from : (struct trace){ 0 };
    ret->span = NULL;
    if (ret->state.len)
        ret->state = arena_copy(keep, ret->state);
}

/* ---- which requests are recorded ---- */

void trace_sample(const struct trace_sampling *to)
{
    check(to->ratio >= 0 && to->ratio <= 1 && to->a_second < 1u << COUNT_BITS);
    atomic_store(&sampling.limit, (uint64_t)(to->ratio * 4294967296.0));
    atomic_store(&sampling.a_second, to->a_second);
    atomic_store(&sampling.on, to->on);
}

/* Xorshift. Chance, not secrecy: this runs for each request without a trace. */
static bool happens(uint64_t limit)
{
    static _Thread_local uint64_t state;
    if (!limit)
        return false;
    if (!state)
        make_id((uint8_t *)&state, sizeof(state));
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state >> 32 < limit;
}

static bool is_within_limit(void)
{
    uint64_t now_s = mono_ns() / 1000000000u, next, most = atomic_load(&sampling.a_second);
    uint64_t seen = atomic_load(&sampling.window);
    do {
        uint64_t count = seen >> COUNT_BITS == now_s ? seen & ((1u << COUNT_BITS) - 1) : 0;
        if (count >= most) {
            metric_add(M_TRACES_LIMITED, 1);
            return false;
        }
        next = now_s << COUNT_BITS | (count + 1);
    } while (!atomic_compare_exchange_weak(&sampling.window, &seen, next));
    return true;
}

void trace_decide(struct trace *trace)
{
    if (!atomic_load_explicit(&sampling.on, memory_order_relaxed))
        return;
    if (trace->given ? !(trace->flags & FLAG_SAMPLED) || !is_within_limit()
                     : !happens(atomic_load_explicit(&sampling.limit, memory_order_relaxed)))
        return;
    memcpy(trace->parent_id, trace->span_id, sizeof(trace->parent_id));
    if (!trace->given)
        make_id(trace->id, sizeof(trace->id));
    make_id(trace->span_id, sizeof(trace->span_id));
    trace->flags |= FLAG_SAMPLED;
    trace->given = trace->recorded = true;
}
