/* lines.h - the lines of an answer about the cache, over all pages.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The commands that ask a running service (ls, du, pin ...) get a JSON object on each line. A long
 * answer comes in pages, one request for each page. */
#ifndef CLI_LINES_H
#define CLI_LINES_H

#include "cli/server.h"

#define LINES_FOLDERS_MAX 64u

/* The summary of all pages. */
struct lines_end {
    uint64_t rows;
    bool complete;
    bool folders[LINES_FOLDERS_MAX];    /* true: out of service. [0] is cache folder 1 */
    uint64_t extents_unread, extents_unnamed;
    bool listed_only;                   /* only what the origin lists to this client */
    bool list_cut;                      /* that list was too long for one answer */
};

/* A line of the answer: its text, with the line's end, and its members. */
struct json_t;
typedef void line_visit(void *arg, slice line, const struct json_t *row);

/* Asks for the pages of an answer, one after another, and calls `visit` with each line but the
 * summaries. Returns EXIT_GOOD; EXIT_INCOMPLETE if the service could not read all of its cache; or
 * EXIT_FAILED. A failure is reported; an incomplete answer is not. */
int lines_read(const struct server *server, const struct question *question, line_visit *visit,
              void *arg, struct lines_end *ret) MUST_USE;

/* Prints the summary as the service writes it. */
void lines_print_end(const struct lines_end *end);
/* Warns on stderr if the answer is incomplete, or if it depends on the client. */
void lines_warn(const struct server *server, const struct lines_end *end, struct arena *keep);

/* Calls `visit` with each line of an answer that comes without pages. Returns EXIT_GOOD, or EXIT_FAILED
 * after it has reported that the answer is malformed. */
int lines_each(const struct server *server, slice body, line_visit *visit, void *arg) MUST_USE;
/* Reports that the answer is malformed. Returns the exit status. */
int lines_malformed(const struct server *server);
/* With --json, prints a line as it came, and returns true. */
bool lines_print(const struct server *server, slice line);
/* The member is an array of numbers of cache folders. Adds these folders to `folders`. */
void lines_folders(const struct json_t *row, const char *member, bool folders[LINES_FOLDERS_MAX]);
/* Warns on stderr of a cache folder that is out of service. `so` says what that means. */
void lines_warn_folder(const struct server *server, uint64_t folder, const char *so);
/* The same for each cache folder in a member "folders_out". */
void lines_warn_folders(const struct server *server, const struct json_t *row, const char *so);

/* Warns on stderr if the answer lacks objects of extents that could not be read. */
void lines_warn_unread(const struct server *server, const struct json_t *row);
/* Warns on stderr if the answer lacks objects without names. `so` says what that means. */
void lines_warn_unnamed(const struct server *server, const struct json_t *row, const char *so);

/* Return a member of the line: a number, or a name. A name that is not UTF-8 stands percent-encoded
 * in another member (key_url instead of key); lines_name decodes it. */
uint64_t lines_number(const struct json_t *row, const char *member);
slice lines_name(const struct json_t *row, const char *member, struct arena *keep);

#endif
