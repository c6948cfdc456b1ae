/* test_store_events.c - which event of which record is found. SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "store/events.c"

static struct object_id id_of(uint32_t number)
{
    struct object_id id = { { 0 } };
    uint64_t hash = (number + 1) * 0x9E3779B97F4A7C15u;    /* ids are hashes */
    memcpy(id.bytes, &hash, sizeof(hash));
    memcpy(id.bytes + 8, &number, sizeof(number));
    return id;
}

static enum event_why found(struct events *events, uint32_t number, uint32_t unit,
                            enum event_kind kind)
{
    struct object_id id = id_of(number);
    return events_find(events, &id, unit, kind).why;
}

TEST(an_event_is_found_for_each_unit_of_its_record_and_for_no_other)
{
    struct events *events = events_new();
    struct object_id id = id_of(1);
    events_note(events, &id, 9, EVENT_EVICTED);
    ok(found(events, 1, 8, TAKEN_OUT) == EVENT_EVICTED);
    ok(found(events, 1, 15, TAKEN_OUT) == EVENT_EVICTED);
    ok(found(events, 1, 7, TAKEN_OUT) == EVENT_NONE && found(events, 1, 16, TAKEN_OUT) == EVENT_NONE);
    ok(found(events, 1, 8, KEPT_OUT) == EVENT_NONE);
    ok(found(events, 2, 8, TAKEN_OUT) == EVENT_NONE);
    events_free(&events);
    ok(events == NULL);
}

TEST(an_event_of_the_object_is_one_of_each_record)
{
    struct events *events = events_new();
    struct object_id id = id_of(1);
    events_note(events, &id, 8, EVENT_NOT_ADMITTED);
    events_note(events, &id, METADATA_UNIT, EVENT_REMOVED);
    ok(found(events, 1, 80, TAKEN_OUT) == EVENT_REMOVED);
    ok(found(events, 1, 8, KEPT_OUT) == EVENT_NOT_ADMITTED);
    ok(events_find(events, &id, 0, TAKEN_OUT).at_s > 0);
    events_free(&events);
}

TEST(a_full_table_forgets_and_never_mixes_records_up)
{
    struct events *events = events_new();
    uint32_t known = 0;
    for (uint32_t i = 0; i < 4 * PLACES; i++) {
        struct object_id id = id_of(i);
        events_note(events, &id, 0, i % 2 ? EVENT_NO_ROOM : EVENT_QUEUE_FULL);
    }
    for (uint32_t i = 0; i < 4 * PLACES; i++) {
        enum event_why why = found(events, i, 0, KEPT_OUT);
        ok(why == EVENT_NONE || why == (i % 2 ? EVENT_NO_ROOM : EVENT_QUEUE_FULL));
        known += why != EVENT_NONE;
    }
    ok(known > PLACES / 2 && known <= PLACES);
    events_free(&events);
}

TEST(each_event_has_a_name_and_a_text)
{
    for (int why = EVENT_NONE + 1; why < EVENT_COUNT; why++)
        ok(*event_name((enum event_why)why) && *event_text((enum event_why)why));
}

RUN(cmocka_unit_test(an_event_is_found_for_each_unit_of_its_record_and_for_no_other),
    cmocka_unit_test(an_event_of_the_object_is_one_of_each_record),
    cmocka_unit_test(a_full_table_forgets_and_never_mixes_records_up),
    cmocka_unit_test(each_event_has_a_name_and_a_text))
