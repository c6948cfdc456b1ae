/* events.h - the latest reasons why records were not stored, or left the cache.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A volume keeps the latest event of each kind for as many records as it has places. A newer event
 * of another record may take a place, so an event may be forgotten early. All is lost at a restart.
 * It serves explanations for people (store/explain.h); no decision depends on it. Any thread. */
#ifndef STORE_EVENTS_H
#define STORE_EVENTS_H

#include "store/store.h"

enum event_kind { KEPT_OUT, TAKEN_OUT, EVENT_KINDS };
#define EVENT(id, name, kind, text) id,
enum event_why {
    EVENT_NONE,
#include "store/event.def"
    EVENT_COUNT
};

struct event {
    enum event_why why;               /* EVENT_NONE: no event is known */
    int64_t at_s;                     /* wall time */
};

struct events;
struct events *events_new(void) MUST_USE;
void events_free(struct events **events);
/* Notes an event of the record that has this unit; METADATA_UNIT: of the metadata, and so of the
 * whole object. */
void events_note(struct events *events, const struct object_id *id, uint32_t unit,
                 enum event_why why);
/* Finds the latest event of this kind, of the record or of the whole object. */
struct event events_find(struct events *events, const struct object_id *id, uint32_t unit,
                         enum event_kind kind);
const char *event_name(enum event_why why);    /* "evicted" ... */
const char *event_text(enum event_why why);

#endif
