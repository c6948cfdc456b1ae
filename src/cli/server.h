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
    bool json;                 /* the option --json */
    struct s3_url of;          /* the bucket, and the prefix or key, of the command line */
    slice url, url_from;       /* without a slash at its end; and what has set it: "--url" ... */
    slice region;
    struct sigv4_credentials keys;
    slice keys_from;           /* "env AWS_ACCESS_KEY_ID" ... */
    const char *ca_file;       /* or NULL */
    uint64_t timeout_ms;       /* the option --timeout */
    uint64_t until_ms;         /* the command gives up then (mono_ms) */
    uint64_t away_ms;          /* the service may be away for so long, for a restart */
    struct sigv4 *sigv4;
};

/* Options that all these commands have, for their tables. */
#define SERVER_OPTIONS \
    { "--json", NULL, "print the JSON of the service" }, \
    { "--url", "URL", "ask the Penstock at this URL, http://HOST:PORT or https://HOST:PORT" }, \
    { "--timeout", "SECONDS", "give up after this time (default 600)" }
#define SERVER_MORE \
    "The command asks the service at the first of these addresses that is set: --url, --listen, " \
    "PENSTOCK_LISTEN, AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, the setting \"listen\". It signs " \
    "with the first of these key pairs that is set: (1) the files that AWS_ACCESS_KEY_ID_FILE " \
    "and AWS_SECRET_ACCESS_KEY_FILE name; (2) AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; (3) " \
    "the profile that AWS_PROFILE names; (4) access_key or keys in the settings file, if you may " \
    "read this file; (5) the profile that aws_profile names, or else the default profile.\n"

/* Runs a command that sends requests to the service: takes the options above and the s3:// URL out
 * of argv, reads the settings from the rest of argv, finds address and key, and calls `work`.
 * Returns the status of `work`. If `work` is not called, reports the reason, and returns EXIT_USAGE
 * or EXIT_FAILED. `keep` lives longer than the work.
 *
 * `judge`, if not NULL, looks for mistakes in the command's own options and the URL. It reports a
 * mistake, and returns false. It is called before the search for address and key, so that a mistake
 * of the caller is reported before a mistake in the environment. */
typedef int server_work(void *arg, const struct server *server, struct arena *keep);
typedef bool server_judge(const void *arg, const struct s3_url *of);
int server_run(struct cli *cli, const char *command, server_judge *judge, server_work *work,
               void *arg) MUST_USE;

#define SERVER_SLOW_WALK \
    "The service looks through all of its cache, which takes long if the cache is large"
#define SERVER_CACHE_RIGHT "\"cache\" on this prefix or key. An access key with an origin " \
    "identity of its own can't have this right"
#define SERVER_LIST_RIGHT \
    "\"list\" on this prefix, and the origin must allow the access key to list the prefix"
struct question {
    const char *method;
    struct s3_url of;          /* the key stands in the path, if there is one */
    slice query;               /* "penstock-ls&prefix=a%2F" */
    slice body;                /* of a POST; may be empty */
    const char *right;         /* the right that the client needs, for messages: "list" on ... */
    const char *slow;          /* a sentence: why the answer may take long */
    bool may_be_empty;         /* an answer without a line is right, too */
    bool is_xml;               /* the answer is S3's own, in XML */
};
/* Asks, and waits for the whole answer. The answer lies in keep. If the service has no place for
 * the request now, asks again. If the answer takes long, says so on stderr. Returns EXIT_GOOD, or
 * EXIT_FAILED after it has reported what is wrong. */
int server_ask(const struct server *server, const struct question *question, struct arena *keep,
               slice *ret_body) MUST_USE;

/* Adds NAME=VALUE to a query, with a '&' before it. The value is percent-encoded. */
void query_add(struct text *to, const char *name, slice value);

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

#endif
