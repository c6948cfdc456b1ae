/* pin_pass.c - finds the records to pin. SPDX-License-Identifier: Apache-2.0
 *
 *   recyclers wait ── each volume: rows with names ──> index: the object's records ──> a bit each
 *                                                                    recyclers go on ──┘
 *
 * A pass reads the tables of contents of all volumes (pin_walk.c). A record that was pinned before,
 * and that the pass does not find, is unpinned: its prefix was unpinned, or its metadata was
 * removed. The budget goes to the oldest pin first; within a pin, the records that were pinned
 * before go first. So a pass pins the same records again if nothing has changed.
 *
 * If a walk makes no progress, the disk of the volume that it is in hangs. Then the pass is given
 * up: the recyclers of the other volumes go on, and another pass begins without that volume. The
 * walk ends when its disk answers, and a pass with that volume follows. If only one read of the
 * disk is lost, the walk never ends, but its volume answers. So while the volume is in service,
 * another walk tries it after a while; at most HANGING_MAX walks hang in one volume.
 *
 * All recyclers wait while a pass runs. So after each pass comes a pause that is at least as long
 * as the pass was. Passes that are wanted during the pause become one pass (H8). So the recyclers
 * wait for at most half of the time, whatever the number of pins and unpins. Only a few events end
 * the pause (pin_pass_want_now), such as the opening of a folder. None of them comes often.
 *
 * A pass leaves out a volume that does not serve when the pass begins, for example because a commit
 * takes long. The recycler of this volume waits, so another pass follows soon after the volume
 * serves.
 *
 * Threads: one thread begins the passes, one after the other, and watches them. Each walk has a
 * thread of its own. */
#include "store/pin_pass.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/metric.h"
#include "base/thread.h"
#include "store/pin_walk.h"
#include "store/pinned.h"

#define RETRY_MS 600000u              /* until bytes that found no room are tried again */
#define LOOK_MS 100u                  /* between two looks at a walk */
#define PATIENCE 2u                   /* a walk hangs after so many times commit_ms_max */
#define HANGING_MAX 4u                /* walks that hang in one volume */
#define LEFT_OUT_MS 1000u             /* from a pass to one for volumes that it left out */
#define LEFT_OUT_MS_MAX 60000u        /* ... if many passes in turn left out some */

struct pin_pass {
    struct store *store;
    pthread_t thread;                 /* 0: not started */
    pthread_mutex_t lock;             /* guards the members below */
    pthread_cond_t more, ended;
    uint64_t wanted, done;            /* numbers of passes */
    uint64_t urgent;                  /* the latest one that is wanted without a pause */
    uint64_t rest_ms;                 /* the end of the pause after the latest pass */
    uint64_t retry_ms;                /* next try of what found no room */
    uint64_t left_out_ms, pause_ms;   /* next try of volumes that were left out; the pause before */
    bool stopping;
    struct list hanging;              /* walks that were given up and have not ended */
};

/* A walk and its thread. */
struct walking {
    struct list link;
    struct pin_pass *pass;
    struct pin_walk walk;
    pthread_t thread;
    bool skip[VOLUMES_MAX];           /* volumes in which another walk hangs */
    uint64_t given_up_ms;             /* when the walk was given up */
    bool passed_by;                   /* given up long ago: other walks try its volume again */
    bool over;                        /* under the lock of the pass */
};

static void *walk_run(void *arg)
{
    struct walking *walking = arg;
    pin_walk(&walking->walk, walking->skip);
    pthread_mutex_lock(&walking->pass->lock);
    walking->over = true;
    pthread_cond_signal(&walking->pass->more);
    pthread_mutex_unlock(&walking->pass->lock);
    return NULL;
}

static struct walking *walking_new(struct pin_pass *pass)
{
    struct walking *walking = must_alloc(sizeof(*walking));
    walking->pass = pass;
    walking->walk.store = pass->store;
    pthread_mutex_init(&walking->walk.lock, NULL);
    atomic_init(&walking->walk.moved_ms, mono_ms());
    list_init(&walking->link);
    return walking;
}

static void walking_free(struct walking *walking)
{
    pthread_join(walking->thread, NULL);
    pthread_mutex_destroy(&walking->walk.lock);
    free(walking);
}

/* ---- walks that hang; under the lock ---- */

/* Frees the walks that have ended. Their volumes take part in the next pass. */
static void end_hanging(struct pin_pass *pass)
{
    list_each_safe(struct walking, walking, &pass->hanging, link) {
        (void)!pin_walk_give_up(&walking->walk);
        if (!walking->over)
            continue;
        list_del(&walking->link);
        walking_free(walking);
        pass->wanted++;
    }
}

static uint64_t patience(const struct pin_pass *pass)
{
    return (uint64_t)PATIENCE * pass->store->options.commit_ms_max;
}

static bool hangs(const struct pin_pass *pass, struct walking *walking)
{
    return mono_ms() > atomic_load(&walking->walk.moved_ms) + patience(pass);
}

static unsigned hanging_in(struct pin_pass *pass, size_t volume)
{
    unsigned count = 0;
    list_each(struct walking, walking, &pass->hanging, link)
        count += pin_walk_stop(&walking->walk) == volume;
    return count;
}

/* Lets other walks try the volumes that are in service. */
static void pass_by_hanging(struct pin_pass *pass)
{
    list_each(struct walking, walking, &pass->hanging, link) {
        size_t at = pin_walk_stop(&walking->walk);
        if (walking->passed_by || mono_ms() < walking->given_up_ms + patience(pass) ||
            !volume_is_serving(pass->store->volumes[at]) || hanging_in(pass, at) >= HANGING_MAX)
            continue;
        walking->passed_by = true;
        pass->wanted++;
    }
}

/* Returns true when the walk has ended, or was given up. */
static bool look_at(struct pin_pass *pass, struct walking *walking)
{
    end_hanging(pass);
    if (walking->over)
        return true;
    if (pass->stopping)
        (void)pin_walk_stop(&walking->walk);
    if (pass->stopping || !hangs(pass, walking))
        return false;
    (void)pin_walk_stop(&walking->walk);
    walking->given_up_ms = mono_ms();
    list_add(&pass->hanging, &walking->link);
    metric_add(M_PINS_GIVEN_UP, 1);
    return true;
}

/* Finds the volumes that no walk may try. */
static void find_hanging(struct pin_pass *pass, bool skip[VOLUMES_MAX])
{
    list_each(struct walking, other, &pass->hanging, link) {
        size_t at = pin_walk_stop(&other->walk);
        skip[at] |= !other->passed_by;
    }
}

/* ---- passes ---- */

/* Returns true if the walk was given up, so that another pass is due at once. Under the lock, which
 * it releases while it waits. */
static bool pass_once(struct pin_pass *pass)
{
    struct walking *walking = walking_new(pass);
    find_hanging(pass, walking->skip);
    check(thread_start(&walking->thread, walk_run, walking, "pins-walk"));
    while (!look_at(pass, walking))
        cond_wait_until(&pass->more, &pass->lock, mono_ns() + LOOK_MS * 1000000u);
    if (!list_empty(&walking->link)) {    /* without its volume */
        end_hanging(pass);
        return true;
    }
    walking_free(walking);
    return false;
}

static bool some_found_no_room(struct store *store)
{
    bool some = false;
    for (size_t i = 0; i < store->volume_count; i++)
        some |= atomic_exchange(&store->volumes[i]->pinned.over, false);
    return some;
}

/* Returns true if some open volumes need a pass, because the latest passes left them out. `now`:
 * only if one of these volumes would take part in a pass that begins now. Volumes that are not open
 * ask for a pass when they are opened. */
static bool some_are_left_out(struct pin_pass *pass, bool now)
{
    bool skip[VOLUMES_MAX] = { false }, some = false;
    find_hanging(pass, skip);
    for (size_t i = 0; i < pass->store->volume_count; i++) {
        struct volume *volume = pass->store->volumes[i];
        some |= atomic_load(&volume->service.open) && pinned_needs_pass(volume) &&
                (!now || (volume_is_serving(volume) && !skip[i]));
    }
    return some;
}

static uint64_t wake_ms(struct pin_pass *pass)
{
    uint64_t wake = pass->retry_ms;
    if (some_are_left_out(pass, false))
        wake = MIN(wake, mono_ms() + LEFT_OUT_MS);
    return list_empty(&pass->hanging) ? wake : MIN(wake, mono_ms() + LOOK_MS);
}

/* Under the lock. Lets the recyclers work. */
static void rest(struct pin_pass *pass)
{
    while (mono_ms() < pass->rest_ms && pass->urgent <= pass->done && !pass->stopping) {
        end_hanging(pass);
        cond_wait_until(&pass->more, &pass->lock, MIN(pass->rest_ms, mono_ms() + LOOK_MS) * 1000000u);
    }
}

/* Under the lock. Sleeps until a pass is wanted. */
static void wait_for_work(struct pin_pass *pass)
{
    rest(pass);
    if (pass->wanted == pass->done && !pass->stopping)
        cond_wait_until(&pass->more, &pass->lock, wake_ms(pass) * 1000000u);
    end_hanging(pass);
    pass_by_hanging(pass);
    if (pass->wanted == pass->done && mono_ms() >= pass->left_out_ms)
        pass->wanted += some_are_left_out(pass, true);
    if (mono_ms() < pass->retry_ms)
        return;
    pass->wanted += some_found_no_room(pass->store);
    pass->retry_ms = mono_ms() + RETRY_MS;
}

/* A volume that is always too slow must not keep the recyclers of the others waiting: each pass does
 * that for a while. */
static void read_plan_next(struct pin_pass *pass)
{
    bool some = some_are_left_out(pass, false);
    pass->pause_ms = some ? MIN(MAX(2 * pass->pause_ms, LEFT_OUT_MS), LEFT_OUT_MS_MAX) : 0;
    pass->left_out_ms = mono_ms() + pass->pause_ms;
}

/* Under the lock. A stop ends the passes early, so whoever waits for them learns of the stop. */
static void do_pass(struct pin_pass *pass)
{
    uint64_t number = pass->wanted, begun_ms = mono_ms();
    for (unsigned i = 0; i <= pass->store->volume_count && !pass->stopping; i++)
        if (!pass_once(pass))
            break;
    if (!pass->stopping)
        pass->done = number;
    pass->rest_ms = mono_ms() + (mono_ms() - begun_ms);
    read_plan_next(pass);
    pthread_cond_broadcast(&pass->ended);
}

static void *run(void *arg)
{
    struct pin_pass *pass = arg;
    pthread_mutex_lock(&pass->lock);
    pass->retry_ms = mono_ms() + RETRY_MS;
    while (!pass->stopping) {
        wait_for_work(pass);
        if (pass->wanted != pass->done && !pass->stopping)
            do_pass(pass);
    }
    while (!list_empty(&pass->hanging)) {
        end_hanging(pass);
        cond_wait_until(&pass->more, &pass->lock, mono_ns() + LOOK_MS * 1000000u);
    }
    pthread_cond_broadcast(&pass->ended);
    pthread_mutex_unlock(&pass->lock);
    return NULL;
}

struct pin_pass *pin_pass_new(struct store *store)
{
    struct pin_pass *pass = must_alloc(sizeof(*pass));
    pass->store = store;
    pthread_mutex_init(&pass->lock, NULL);
    pthread_cond_init(&pass->more, NULL);
    pthread_cond_init(&pass->ended, NULL);
    list_init(&pass->hanging);
    return pass;
}

void pin_pass_start(struct pin_pass *pass)
{
    check(thread_start(&pass->thread, run, pass, "pins"));
}

void pin_pass_end(struct pin_pass *pass)
{
    pthread_mutex_lock(&pass->lock);
    pass->stopping = true;
    pthread_cond_signal(&pass->more);
    pthread_cond_broadcast(&pass->ended);
    pthread_mutex_unlock(&pass->lock);
}

void pin_pass_stop(struct pin_pass *pass)
{
    pin_pass_end(pass);
    if (pass->thread)
        pthread_join(pass->thread, NULL);
    pass->thread = 0;
}

void pin_pass_free(struct pin_pass **pass)
{
    struct pin_pass *mine = *pass;
    *pass = NULL;
    if (!mine)
        return;
    check(!mine->thread);
    pthread_cond_destroy(&mine->more);
    pthread_cond_destroy(&mine->ended);
    pthread_mutex_destroy(&mine->lock);
    free(mine);
}

uint64_t pin_pass_want_now(struct pin_pass *pass)
{
    pthread_mutex_lock(&pass->lock);
    uint64_t number = pass->urgent = ++pass->wanted;
    pthread_cond_signal(&pass->more);
    pthread_mutex_unlock(&pass->lock);
    return number;
}

uint64_t pin_pass_want(struct pin_pass *pass)
{
    pthread_mutex_lock(&pass->lock);
    uint64_t number = ++pass->wanted;
    pthread_cond_signal(&pass->more);
    pthread_mutex_unlock(&pass->lock);
    return number;
}

bool pin_pass_is_done(struct pin_pass *pass, uint64_t number)
{
    pthread_mutex_lock(&pass->lock);
    bool done = pass->done >= number;
    pthread_mutex_unlock(&pass->lock);
    return done;
}

enum err pin_pass_wait(struct pin_pass *pass)
{
    pthread_mutex_lock(&pass->lock);
    uint64_t mine = ++pass->wanted;
    pthread_cond_signal(&pass->more);
    while (pass->done < mine && !pass->stopping)
        pthread_cond_wait(&pass->ended, &pass->lock);
    bool done = pass->done >= mine;
    pthread_mutex_unlock(&pass->lock);
    return done ? OK : ERR_STOPPING;
}
