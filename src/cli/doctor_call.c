/* doctor_call.c - one call to an origin, waited for. SPDX-License-Identifier: Apache-2.0
 *
 * A call ends on an origin thread; the main thread waits for `over`. The call is canceled when it
 * has brought enough bytes, or BODY_MS after its first byte. */
#include "cli/doctor_call.h"

#include <poll.h>
#include <string.h>

#include "base/clock.h"

#define BODY_MS 3000u
#define LOOK_MS 2

static void on_head(struct origin_call *call, const struct origin_reply *reply)
{
    struct visit *visit = container_of(call, struct visit, call);
    visit->status = reply->status;
    visit->first_ns = reply->first_byte_ns;
    visit->head_ns = visit->last_ns = mono_ns();
}

static enum origin_take on_body(struct origin_call *call, slice bytes)
{
    struct visit *visit = container_of(call, struct visit, call);
    uint64_t room = DOCTOR_BODY_BYTES - MIN(visit->bytes, DOCTOR_BODY_BYTES);
    if (visit->body)
        memcpy(visit->body + MIN(visit->bytes, DOCTOR_BODY_BYTES), bytes.ptr, MIN(bytes.len, room));
    visit->bytes += bytes.len;
    visit->last_ns = mono_ns();
    if (visit->bytes >= visit->bytes_max || visit->last_ns - visit->head_ns > BODY_MS * 1000000ul)
        origin_cancel(call);
    return ORIGIN_TAKEN;
}

static void on_done(struct origin_call *call, enum err err)
{
    struct visit *visit = container_of(call, struct visit, call);
    visit->err = err;
    atomic_store(&visit->over, true);
}

static const struct origin_events events = { on_head, on_body, on_done };

void doctor_call(const struct place *place, struct visit *visit)
{
    uint64_t until_ms = mono_ms() + DOCTOR_CALL_MS;
    visit->call.events = &events;
    visit->call.no_retry = true;
    visit->call.as = place->as;
    origin_start(place->origin, &visit->call);
    while (!atomic_load(&visit->over)) {
        if (mono_ms() > until_ms)
            origin_cancel(&visit->call);
        poll(NULL, 0, LOOK_MS);
    }
}
