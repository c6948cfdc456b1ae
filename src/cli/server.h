/* server.h - signed S3 requests of the operator's commands to the running service.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_SERVER_H
#define CLI_SERVER_H

#include "cli/cli.h"
#include "cli/show.h"
#include "s3/sigv4.h"

/* The service that a command asks, and the key that signs. */
struct server {
    const char *command;       /* "ls", for messages */
    slice url, url_from;       /* without a slash at its end; and what has set it: "--url" ... */
    slice region;
    struct sigv4_credentials keys;
    slice keys_from;           /* "env AWS_ACCESS_KEY_ID" ... */
    const char *ca_file;       /* or NULL */
    uint64_t until_ms;         /* the command gives up then (mono_ms) */
    struct sigv4 *sigv4;
};

/* Options that all these commands have, for their tables. */
#define SERVER_OPTIONS \
    { "--url", "URL", "ask the Penstock at this URL, http://HOST:PORT or https://HOST:PORT" }, \
    { "--timeout", "SECONDS", "give up after this time (default 600)" }
#define SERVER_MORE \
    "The address of the service comes from --url, --listen, PENSTOCK_LISTEN, " \
    "AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL or the setting listen. The key comes from AWS_ACCESS_KEY_ID and " \
    "AWS_SECRET_ACCESS_KEY, from AWS_PROFILE, or from the settings, if you may read them.\n"

/* Takes the s3:// URL out of argv. Returns false, and reports it, if there is none, or a wrong
 * one. */
bool server_word(struct cli *cli, const char *command, struct s3_url *ret) MUST_USE;
/* Takes --url and --timeout out of argv, reads the settings from the rest of it, and finds address
 * and key. Returns EXIT_GOOD; after any other status the reason is reported, and *ret is empty. */
int server_find(struct cli *cli, const char *command, struct server *ret) MUST_USE;
void server_end(struct server *server);

#define SERVER_SLOW_WALK \
    "It looks through all of its cache, which takes long if the cache is large"
#define SERVER_LIST_RIGHT \
    "\"list\" on this prefix, and the origin must allow it to list the prefix"
struct question {
    const char *method;
    struct s3_url of;          /* the key stands in the path, if there is one */
    slice query;               /* "penstock-ls&prefix=a%2F" */
    const char *right;         /* the right that the client needs, for messages: "list" on ... */
    const char *slow;          /* a sentence: why the answer may take long */
    bool may_be_empty;         /* an answer without a line is one, too */
};
/* Asks, and waits for the whole answer, in keep. If the service has no place for the request now,
 * asks again. If the answer takes long, says so on stderr. Returns EXIT_GOOD, or EXIT_FAILED after
 * it has reported what is wrong. */
int server_ask(const struct server *server, const struct question *question, struct arena *keep,
               slice *ret_body) MUST_USE;

/* ---- refusal.c ---- */

struct refused {
    int status;                /* 0: there was no answer */
    slice body;
    slice software;            /* the answer's header Server; may be empty */
    slice why;                 /* if status is 0 */
    bool late;                 /* the command has given up */
};
/* Reports on stderr what happened, why, and what to do. */
void refusal_report(const struct server *server, const struct question *question,
                    const struct refused *refused, struct arena *keep);
/* True if the service has no place for the request now. */
bool refusal_is_busy(const struct refused *refused, struct arena *keep) MUST_USE;

/* Adds NAME=VALUE to a query, with a '&' before it. */
void query_add(struct text *to, const char *name, slice value);

#endif
