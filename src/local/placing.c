/* placing.c - where the items of a fill lie in its buffer. SPDX-License-Identifier: Apache-2.0
 *
 * All places are checked before a byte is read: each item lies inside the buffer, no two overlap,
 * and none lies where another fill is writing. An item of open length (the message gives no length:
 * the item ends where the object ends) may take the space up to the next item.
 * Threads: the session's keeper (its worker, inside.h) calls these functions. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/guard.h"
#include "local/inside.h"

struct place_of {
    uint64_t from, end;
    struct item *item;
};

static int by_place(const void *a, const void *b)
{
    const struct place_of *one = a, *other = b;
    return one->from < other->from ? -1 : one->from > other->from;
}

/* Gives each item of open length the space from its start up to the next item, or up to the end of
 * the buffer. */
static void end_places(const struct fill *fill, struct place_of *places)
{
    uint64_t next = fill->buffer->bytes;
    for (size_t i = fill->message->items.count; i-- > 0;) {
        struct place_of *place = &places[i];
        struct item *item = place->item;
        if (i + 1 < fill->message->items.count && place[1].from > place->from)
            next = place[1].from;
        if (item->length == ITEM_OPEN)
            item->max = MIN(item->max, next - place->from);
        place->end = place->from + (item->length == ITEM_OPEN ? item->max : item->length);
    }
}

static bool lies_inside(const struct fill *fill, const struct item *item)
{
    uint64_t bytes = item->length == ITEM_OPEN ? 0 : item->length;
    return !guard_on(GUARD_FILL_BOUNDS) ||
           (item->to <= fill->buffer->bytes && bytes <= fill->buffer->bytes - item->to);
}

static bool place_items(struct fill *fill, struct trouble *ret_why)
{
    const struct message *message = fill->message;
    struct place_of *places =
        arena_alloc(&fill->keep, (message->items.count + 1) * sizeof(*places));
    fill->places = places;
    for (size_t i = 0; i < message->items.count; i++) {
        struct item *item = &message->items.list[i];
        if (item->to == ITEM_OPEN)
            return refused(ret_why, 400, "bad_item", arena_printf(&fill->keep,
                           "items[%zu] has no place in the buffer: give \"to\", as in "
                           "[KEY, OFFSET, LENGTH, TO]", i));
        if (!lies_inside(fill, item))
            return refused(ret_why, 400, "bad_range", arena_printf(&fill->keep,
                           "items[%zu] does not lie inside the buffer, which has %" PRIu64 " "
                           "bytes: correct \"to\", or register a larger buffer",
                           i, fill->buffer->bytes));
        places[i] = (struct place_of){ item->to, item->to, item };
    }
    qsort(places, message->items.count, sizeof(*places), by_place);
    end_places(fill, places);
    return true;
}

/* An empty place overlaps nothing. */
static bool overlap(const struct place_of *a, const struct place_of *b)
{
    return a->from < b->end && b->from < a->end && a->from < a->end && b->from < b->end;
}

static bool are_apart(struct fill *fill, struct trouble *ret_why)
{
    const struct message *message = fill->message;
    const struct place_of *last = NULL;
    for (size_t i = 0; i < message->items.count; i++) {
        const struct place_of *place = &fill->places[i];
        if (last && overlap(last, place))
            return refused(ret_why, 400, "overlap", arena_printf(&fill->keep,
                           "items[%zu] and items[%zu] overlap in the buffer: give each its own "
                           "place (\"to\")",
                           (size_t)(last->item - message->items.list),
                           (size_t)(place->item - message->items.list)));
        if (place->end > place->from)
            last = place;
    }
    return true;
}

static bool collides(const struct fill *fill, const struct fill *other)
{
    size_t i = 0, j = 0;
    while (i < fill->message->items.count && j < other->message->items.count) {
        if (overlap(&fill->places[i], &other->places[j]))
            return true;
        if (fill->places[i].end < other->places[j].end)
            i++;
        else
            j++;
    }
    return false;
}

static bool is_free(struct fill *fill, struct trouble *ret_why)
{
    list_each(struct fill, other, &fill->buffer->busy, busy)
        if (collides(fill, other))
            return refused(ret_why, 409, "buffer_busy", S("another fill writes to the same part "
                           "of the buffer: wait for the reply of that fill"));
    return true;
}

bool fill_place(struct fill *fill, struct trouble *ret_why)
{
    return place_items(fill, ret_why) && are_apart(fill, ret_why) && is_free(fill, ret_why);
}
