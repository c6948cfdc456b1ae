/* carrier.c - the threads that carry exchanges. SPDX-License-Identifier: Apache-2.0
 *
 * An exchange is one HTTP request to an origin, with its answer (curl.h). Each carrier thread owns
 * a multi handle with its connections, a pool of easy handles and a mailbox. Other threads only
 * post to the mailbox. The carriers share DNS answers and TLS sessions, under locks. */
#include "origin/carrier.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/thread.h"

#define IDLE_CONNECTIONS_MAX 256L

static void *carry(void *arg)
{
    struct carrier *carrier = arg;
    struct curl_waitfd mail = {
        .fd = mailbox_fd(carrier->errands.box), .events = CURL_WAIT_POLLIN,
    };
    int running;
    while (!errands_over(&carrier->errands)) {
        uint64_t now_ms = mono_ms();
        errands_run(&carrier->errands, now_ms);
        check(curl_multi_perform(carrier->multi, &running) == CURLM_OK);
        exchanges_end_finished(carrier);
        /* An answer that came while this thread had no processor is not late: it was read above. */
        exchanges_end_stuck(carrier, now_ms);
        int wait_ms = errands_wait_ms(&carrier->errands, mono_ms());
        if (!list_empty(&carrier->exchanges))
            wait_ms = MIN(wait_ms, TICK_MS);
        if (!errands_over(&carrier->errands))
            check(curl_multi_poll(carrier->multi, &mail, 1, wait_ms, NULL) == CURLM_OK);
    }
    return NULL;
}

static void share_lock(CURL *easy, curl_lock_data data, curl_lock_access access, void *arg)
{
    pthread_mutex_lock(&((struct carriers *)arg)->share_locks[data]);
}

static void share_unlock(CURL *easy, curl_lock_data data, void *arg)
{
    pthread_mutex_unlock(&((struct carriers *)arg)->share_locks[data]);
}

static void global_init(void)
{
    check(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK);
}

void curl_init(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, global_init);
}

static CURLSH *share_new(struct carriers *all)
{
    CURLSH *share = curl_share_init();
    check(share != NULL);
    for (size_t i = 0; i < countof(all->share_locks); i++)
        pthread_mutex_init(&all->share_locks[i], NULL);
    curl_share_setopt(share, CURLSHOPT_LOCKFUNC, share_lock);
    curl_share_setopt(share, CURLSHOPT_UNLOCKFUNC, share_unlock);
    curl_share_setopt(share, CURLSHOPT_USERDATA, all);
    curl_share_setopt(share, CURLSHOPT_SHARE, CURL_LOCK_DATA_DNS);
    curl_share_setopt(share, CURLSHOPT_SHARE, CURL_LOCK_DATA_SSL_SESSION);
    return share;
}

void *carriers_new(unsigned threads)
{
    struct carriers *all = carriers_new_for("origin", threads);
    all->for_origins = true;
    return all;
}

struct carriers *carriers_new_for(const char *name, unsigned threads)
{
    curl_init();
    struct carriers *all = must_alloc(sizeof(*all));
    all->count = MAX(1u, MIN(threads, CARRIERS_MAX));
    all->share = share_new(all);
    for (unsigned i = 0; i < all->count; i++) {
        struct carrier *carrier = &all->carriers[i];
        carrier->all = all;
        errands_init(&carrier->errands);
        carrier->multi = curl_multi_init();
        check(carrier->multi != NULL);
        curl_multi_setopt(carrier->multi, CURLMOPT_MAXCONNECTS, IDLE_CONNECTIONS_MAX);
        curl_multi_setopt(carrier->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING);
        list_init(&carrier->exchanges);
        check(thread_start(&carrier->thread, carry, carrier, "%s-%u", name, i));
    }
    return all;
}

struct errands *carriers_next(struct carriers *all)
{
    return &all->carriers[atomic_fetch_add(&all->next, 1) % all->count].errands;
}

void carriers_free(void *take_all)
{
    struct carriers *all = take_all;
    for (unsigned i = 0; i < all->count; i++) {
        errands_stop(&all->carriers[i].errands);
        check(curl_multi_wakeup(all->carriers[i].multi) == CURLM_OK);
    }
    for (unsigned i = 0; i < all->count; i++)
        pthread_join(all->carriers[i].thread, NULL);
    for (unsigned i = 0; i < all->count; i++) {
        struct carrier *carrier = &all->carriers[i];
        while (carrier->pool_count)
            curl_easy_cleanup(carrier->pool[--carrier->pool_count]);
        curl_multi_cleanup(carrier->multi);
        errands_end(&carrier->errands);
    }
    curl_share_cleanup(all->share);
    for (size_t i = 0; i < countof(all->share_locks); i++)
        pthread_mutex_destroy(&all->share_locks[i]);
    free(all);
}
