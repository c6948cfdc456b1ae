/* rows.h - the lines of an answer about the cache, over all pages. SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_ROWS_H
#define CLI_ROWS_H

#include "cli/server.h"

#define ROWS_FOLDERS_MAX 64u

/* The summary of all pages. */
struct rows_end {
    uint64_t rows;
    bool complete;
    bool folders[ROWS_FOLDERS_MAX];    /* those out of service; the first one is cache folder 1 */
    uint64_t extents_unread;
};

/* A line of the answer: its text, with the line's end, and its members. */
struct json_t;
typedef void rows_visit(void *arg, slice line, const struct json_t *row);

/* Asks for the pages of an answer, one after another, and gives each line but the summaries to
 * `visit`. Returns EXIT_GOOD; EXIT_INCOMPLETE if the service could not read all of its cache; or
 * EXIT_FAILED. A failure is reported; an incomplete answer is not. */
int rows_read(const struct server *server, const struct question *question, rows_visit *visit,
              void *arg, struct rows_end *ret) MUST_USE;

/* Prints the summary as the service writes it. */
void rows_print_end(const struct rows_end *end);
/* Warns on stderr if the answer is incomplete. */
void rows_warn(const struct server *server, const struct rows_end *end, struct arena *keep);

/* Gives each line of an answer that has no pages to `visit`. Returns EXIT_GOOD, or EXIT_FAILED after
 * it has reported that the answer is malformed. */
int rows_each(const struct server *server, slice body, rows_visit *visit, void *arg) MUST_USE;
/* Warns on stderr of the cache folders in a member "folders_out". `so` says what that means. */
void rows_warn_folders(const struct server *server, const struct json_t *row, const char *so);

/* A member that is a number or a name. A name that is not UTF-8 is decoded (NAME_url). */
uint64_t rows_number(const struct json_t *row, const char *member);
slice rows_name(const struct json_t *row, const char *member, struct arena *keep);

#endif
