/* events.c - the latest reasons why records were not stored, or left the cache.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Each kind of event has a table. A hash of the record selects the place, and the newest event
 * takes it. So a scan of a million objects that are not stored overwrites the events of other
 * refused records, but not the reasons why stored records left. */
#include "store/events.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "store/mean_age.h"
#include "store/rule.h"

#define PLACES 8192u                  /* of each kind, 32 bytes each */

struct place {
    struct object_id id;
    uint32_t first_unit;              /* of the record */
    struct event event;
};

struct events {
    pthread_mutex_t lock;
    struct place places[EVENT_KINDS][PLACES];
};

#undef EVENT
static const struct row {
    const char *name, *text;
    enum event_kind kind;
} rows[EVENT_COUNT] = {
    [EVENT_NONE] = { "", "", KEPT_OUT },
#define EVENT(id, name, kind, text) [id] = { name, text, kind },
#include "store/event.def"
};

struct events *events_new(void)
{
    struct events *events = must_alloc(sizeof(*events));
    pthread_mutex_init(&events->lock, NULL);
    return events;
}

void events_free(struct events **events)
{
    struct events *mine = *events;
    *events = NULL;
    if (!mine)
        return;
    pthread_mutex_destroy(&mine->lock);
    free(mine);
}

static uint32_t record_of(uint32_t unit)
{
    return unit == METADATA_UNIT ? unit : rule_first_unit(unit);
}

static struct place *place_of(struct events *events, enum event_kind kind,
                              const struct object_id *id, uint32_t first_unit)
{
    return &events->places[kind][mean_age_hash(id, first_unit) % PLACES];
}

void events_note(struct events *events, const struct object_id *id, uint32_t unit,
                 enum event_why why)
{
    uint32_t first = record_of(unit);
    check(why > EVENT_NONE && why < EVENT_COUNT);
    pthread_mutex_lock(&events->lock);
    *place_of(events, rows[why].kind, id, first) =
        (struct place){ .id = *id, .first_unit = first, .event = { why, wall_s() } };
    pthread_mutex_unlock(&events->lock);
}

static struct event find(struct events *events, const struct object_id *id, uint32_t first_unit,
                         enum event_kind kind)
{
    const struct place *place = place_of(events, kind, id, first_unit);
    bool found = place->event.why && place->first_unit == first_unit &&
                 memcmp(place->id.bytes, id->bytes, sizeof(id->bytes)) == 0;
    return found ? place->event : (struct event){ .why = EVENT_NONE };
}

struct event events_find(struct events *events, const struct object_id *id, uint32_t unit,
                         enum event_kind kind)
{
    pthread_mutex_lock(&events->lock);
    struct event of_record = find(events, id, record_of(unit), kind);
    struct event of_object = find(events, id, METADATA_UNIT, kind);
    pthread_mutex_unlock(&events->lock);
    return of_object.at_s >= of_record.at_s && of_object.why ? of_object : of_record;
}

const char *event_name(enum event_why why)
{
    return rows[why].name;
}

const char *event_text(enum event_why why)
{
    return rows[why].text;
}
