/* fuzz_trace.c - any bytes as traceparent and tracestate: what is read is written as it came, and
 * the rest is refused. SPDX-License-Identifier: Apache-2.0
 *
 * The input is a traceparent, and after its first line end, a tracestate. */
#include <string.h>

#include "base/trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    slice state = { (const char *)data, size }, parent = slice_cut(&state, '\n');
    char text[TRACEPARENT_BYTES];
    struct trace trace, again;
    if (trace_parse(parent, &trace)) {
        trace_write(&trace, text);
        check(trace.given && trace_parse((slice){ text, sizeof(text) }, &again));
        check(!memcmp(&trace.id, &again.id, sizeof(trace.id)) && trace.flags == again.flags);
        check(slice_eq(slice_sub(parent, 3, 49), (slice){ text + 3, 49 }));
        check(!slice_starts(parent, S("00")) || parent.len == TRACEPARENT_BYTES);
    }
    bool sent = state.ptr && trace_state_is_valid(state);
    check(!sent || state.len <= TRACESTATE_BYTES_MAX);
    for (size_t i = 0; sent && i < state.len; i++)    /* a tab may stand beside a comma */
        check((state.ptr[i] >= ' ' && state.ptr[i] <= '~') || state.ptr[i] == '\t');
    return 0;
}
