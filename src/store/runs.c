/* runs.c - which folders were in service together, and which missed a run of another one.
 * SPDX-License-Identifier: Apache-2.0
 *
 * One counter could not tell which folders missed a run: if two folders are in service one after
 * the other, each of them missed a run. So format files have a serial for each pair of volumes.
 * Serials never coincide, because they are times, with a random part if that time was used already.
 *
 * A folder writes the serial of a run before it serves in it. When another folder leaves, it writes
 * the serial of the next run a little later. A crash before that does no harm: the folder that left
 * has no clean mark, so all its entries are unproved (folder.c). A folder notes that another one has
 * come only after that one serves. So a crash between two writes causes doubt, and never hides it.
 *
 * A format file that can't be read at a start may tell of a run, too. So the folders that were once
 * in use together with that one are doubted, until it can be read, or has left their lists.
 *
 * Threads: runs_learn is called once, before the volumes are opened; their committers call the
 * other functions. */
#include "store/runs.h"

#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/raise.h"
#include "store/installation.h"

#define SERIAL_RANDOM (1u << 20)

static void raise_serial(struct runs *runs, uint64_t above)
{
    uint64_t now = atomic_load(&runs->serial), next;
    uint32_t random;
    check(getentropy(&random, sizeof(random)) == 0);
    do
        next = MAX(MAX(now, above) + 1 + random % SERIAL_RANDOM, clock_ns(CLOCK_REALTIME) / 1000u);
    while (!atomic_compare_exchange_weak(&runs->serial, &now, next));
}

/* ---- the format files at the start ---- */

static bool same_id(const uint8_t a[VOLUME_ID_BYTES], const uint8_t b[VOLUME_ID_BYTES])
{
    return memcmp(a, b, VOLUME_ID_BYTES) == 0;
}

/* Returns the last run with the other volume of which this file can know. A file knows nothing of a
 * volume that left the settings since. */
static uint64_t known_run(const struct format *mine, const struct format *other)
{
    uint32_t place = format_place(mine, other->volume);
    return place < mine->volume_count ? mine->shared[place] : mine->serial;
}

/* If the other file claims that both shared a run, and this one does not know it, this one is an
 * older state of its folder. */
bool runs_missed(const struct format *mine, const struct format *other)
{
    uint64_t shared = format_shared(other, mine->volume);
    if (same_id(mine->volume, other->volume))    /* a copy */
        return other->serial != mine->serial &&
               other->serial > format_shared(mine, mine->volume);
    return other->serial > shared || known_run(mine, other) < shared;
}

/* `mine` is the page of the folder; NULL: it can't be read. */
static void learn(struct installation *all, size_t folder, const struct format *mine,
                  const struct format *other)
{
    struct runs *runs = &all->runs;
    const uint8_t *id = all->route[folder].id;
    uint64_t shared = format_shared(other, id);
    bool is_copy = same_id(other->volume, id);
    runs->missed[folder] |= mine ? runs_missed(mine, other) : !is_copy && other->serial > shared;
    if (is_copy)
        runs->copied[folder] = MAX(runs->copied[folder], other->serial);
    else
        raise_64(&runs->serial_least[folder], shared);
}

static bool is_readable(const struct installation *all, const struct page *pages,
                        const uint8_t id[VOLUME_ID_BYTES])
{
    for (size_t i = 0; i < all->count; i++)
        if (page_has_volume(&pages[i]) && same_id(pages[i].format.volume, id))
            return true;
    return false;
}

/* Returns the place of the volume in the route, or the number of places. */
static size_t place_of(const struct installation *all, const uint8_t id[VOLUME_ID_BYTES])
{
    const struct route_row *row = route_find(all->route, all->count, id);
    return row ? (size_t)(row - all->route) : all->count;
}

/* A folder that was never in service has nothing to tell. */
static void learn_unread(struct installation *all, size_t folder, const struct page *pages)
{
    const struct format *mine = &pages[folder].format;
    struct runs *runs = &all->runs;
    for (uint32_t i = 0; i < mine->volume_count; i++) {
        const uint8_t *id = mine->volumes[i].id;
        if (!mine->shared[i] || same_id(id, mine->volume) || is_readable(all, pages, id))
            continue;
        size_t place = place_of(all, id);
        runs->unsure[folder] = true;
        if (place < all->count)
            runs->unread[place] = true;
        else
            runs->left = true;
    }
}

void runs_learn(struct installation *all, const struct page *pages)
{
    uint64_t highest = 0;
    for (size_t i = 0; i < all->count; i++) {
        const struct format *mine = page_has_volume(&pages[i]) ? &pages[i].format : NULL;
        for (size_t k = 0; k < all->count && all->route[i].weight; k++)
            if (k != i && page_has_volume(&pages[k]))
                learn(all, i, mine, &pages[k].format);
        if (mine && all->route[i].weight)
            learn_unread(all, i, pages);
        if (mine)
            highest = MAX(highest, mine->serial);
        atomic_store(&all->runs.began[i], mine ? mine->serial : 0);
    }
    raise_serial(&all->runs, highest);
}

/* As runs_missed, but the files of the other folders have changed since the start. */
void runs_missed_of(struct installation *all, size_t folder, const struct format *format,
                    uint64_t last_run, bool ret[VOLUMES_MAX])
{
    struct runs *runs = &all->runs;
    uint64_t unread = 0;
    atomic_compare_exchange_strong(&runs->began[folder], &unread, last_run);
    memset(ret, 0, VOLUMES_MAX * sizeof(*ret));
    for (size_t i = 0; i < all->count; i++) {
        uint64_t shared = format_shared(format, all->route[i].id);
        uint64_t began = atomic_load(&runs->began[i]);
        if (i == folder)
            continue;
        raise_64(&runs->serial_least[i], shared);    /* for a folder that is opened later */
        ret[i] = last_run > shared || (began && shared > began);
    }
}

/* ---- the present run ---- */

void runs_join(struct installation *all, size_t folder, uint64_t serial)
{
    if (serial > atomic_load(&all->runs.serial))    /* the folder was in use elsewhere */
        raise_serial(&all->runs, serial);
    atomic_store(&all->runs.serving[folder], true);
}

void runs_leave(struct installation *all, size_t folder)
{
    atomic_store(&all->runs.serving[folder], false);
    raise_serial(&all->runs, 0);
}

bool runs_note(const struct installation *all, struct format *format)
{
    const struct runs *runs = &all->runs;
    uint64_t serial = atomic_load(&runs->serial);    /* before `serving`, which changes first */
    bool news = format->serial != serial;
    format->serial = serial;
    for (uint32_t i = 0; i < format->volume_count; i++) {
        const uint8_t *id = format->volumes[i].id;
        uint64_t *shared = &format->shared[i], before = *shared;
        size_t place = place_of(all, id);
        if (place == all->count)
            continue;
        if (same_id(id, format->volume))
            *shared = MAX(before, runs->copied[place]);
        else if (atomic_load(&runs->serving[place]) && !atomic_load(&all->bans.missed[place]))
            *shared = serial;
        news |= *shared != before;
    }
    return news;
}
