/* admin.h - what operators see: metrics, status, health. SPDX-License-Identifier: Apache-2.0
 *
 * An http_app for the admin address: GET /metrics (Prometheus text), /status (JSON), /_/health/live
 * and /_/health/ready. It knows no S3 and changes nothing. What /status says is told by whoever
 * starts the house, fact by fact. */
#ifndef ADMIN_ADMIN_H
#define ADMIN_ADMIN_H

#include "http/http.h"
#include "store/store.h"

#define ADMIN_CONNECTIONS_MAX 16    /* a reserve of its own: answers when the S3 address is full */

/* A JSON document under way. A path is names with dots between them ("cache.used_bytes"); objects
 * on the way are made as needed, and a list stands for its last item. */
struct admin_page;
void admin_text(struct admin_page *page, const char *path, slice value);
void admin_number(struct admin_page *page, const char *path, uint64_t value);
/* part of whole, 0 to 1; null while whole is 0. */
void admin_ratio(struct admin_page *page, const char *path, uint64_t part, uint64_t whole);
void admin_real(struct admin_page *page, const char *path, double value);
void admin_flag(struct admin_page *page, const char *path, bool value);
void admin_item(struct admin_page *page, const char *path);    /* one more item of the list there */
void admin_store(struct admin_page *page, const char *path, const struct store_status *status);

struct admin_options {
    const char *version;
    const char *instance;     /* tells this process from others; NULL: nothing does */
    const char *host_name;    /* a Host that is taken beside addresses and localhost; NULL: none */
    slice token;              /* what opens the pages; empty: nothing is asked for, unless exposed */
    bool metrics_token;       /* /metrics needs it, too */
    bool exposed;             /* others than this machine reach the address */
    /* Both may be NULL; called on a loop. */
    void (*tell)(void *arg, struct admin_page *page);    /* the rest of /status */
    bool (*ready)(void *arg);
    void *arg;
};

struct admin;
struct admin *admin_new(const struct admin_options *options) MUST_USE;
void admin_free(struct admin **admin);
/* `listen` must live as long as the room http does. */
struct http_app admin_app(struct admin *admin, const char *listen) MUST_USE;

#endif
