/* inside.h - declarations that only the files of this folder share.
 * SPDX-License-Identifier: Apache-2.0
 *
 *   any thread: draft.c ──> jobs.c: the table ──> thread `jobs`: run.c ──> source.c: items
 *                               │                                   ├──> prefix_size.c: total
 *                               │                                   └──> item.c: gets
 *                               └──> thread `job-files`: files.c: states on the disk
 *
 * A *job* is what clients see. While it is in progress, it has a *run*: a ring of consecutive
 * items (a *job item* each). They end in any order, and are settled in the order of the list: the
 * cursor of the job never passes an item that is not done. So the state on the disk is right at any
 * moment, and the next process repeats at most the items of the ring. */
#ifndef JOBS_INSIDE_H
#define JOBS_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/list.h"
#include "jobs/follow.h"
#include "jobs/jobs.h"
#include "s3/list_pages.h"
#include "store/route.h"

#define RUN_ITEMS 512u                /* H8: items of the ring */

/* The part of a job that changes. Under the lock. */
struct job_report {
    enum job_state state;
    slice why;                        /* why the job ended; a text of job->keep */
    int64_t ended_s;
    struct job_sums done;             /* of all items that are done */
    struct job_sums settled;          /* of those before the cursor */
    struct job_readers readers;       /* of JOB_FOLLOW */
    char after[S3_KEY_BYTES_MAX];     /* the bytes of cursor.after */
    struct job_cursor cursor;
    struct job_failure failures[JOB_FAILURES_MAX];    /* settled ones; texts of job->keep */
    size_t failure_count;
    const char *waits;                /* why the job waits: static text; NULL: it does not */
    struct job_total total;
};

/* For the rate: bytes that were done at two times, which are 5 to 10 s and 0 to 5 s ago. */
struct job_pace {
    uint64_t old_ms, old_bytes, new_ms, new_bytes;
};

struct job {
    struct list link;                 /* jobs->all */
    uint64_t id;
    struct arena keep;                /* under the lock, after the start */
    struct job_spec spec;
    int64_t began_s;
    size_t folder;                    /* the cache folder with its files */
    struct job_report report;
    struct job_pace pace;
    bool canceled;                    /* a client wants it to end; under the lock */
    uint64_t version, saved;          /* of the report, and in the file; under the lock */
    bool has_run;                     /* under the lock; the thread `jobs` changes it */
};

/* The thread `job-files` (files.c). */
struct files {
    pthread_t thread;
    pthread_mutex_t writing;          /* held during folder_write, which is for one thread */
    pthread_cond_t wake, saved;       /* with the lock of the jobs */
    bool stopping, urgent;            /* under the lock */
    int64_t began_s;                  /* the start of this process, by the wall clock */
    atomic_bool read[VOLUMES_MAX];    /* the jobs of this folder were found */
    atomic_bool looked;               /* the thread has looked into all folders once */
};

struct jobs {
    struct jobs_options options;
    struct reader_judge judge;
    bool started;                     /* the threads run */
    atomic_uint follows;              /* runs of JOB_FOLLOW; the thread `jobs` changes it */
    pthread_mutex_t lock;
    struct list all;                  /* under the lock, the oldest first */
    size_t count;
    struct files files;
    /* ---- only the thread `jobs` uses these, except `ending` and the ticket ---- */
    pthread_t thread;
    atomic_bool ending;
    struct mailbox *box;
    struct ticket *look;              /* wakes the thread: a job came or ends, or it must end */
    struct cache_loop *cache;
    struct list runs;
    struct list ready;                /* items whose turn is over, but that have bytes to read */
    unsigned gets;
};

static inline struct store *jobs_store(const struct jobs *jobs)
{
    return cache_store(jobs->options.cache);
}

/* ---- jobs.c: the table. All under the lock ---- */
struct job *jobs_add(struct jobs *jobs, const struct job_file *file, size_t folder);
struct job *jobs_get(struct jobs *jobs, uint64_t id);       /* NULL: none */
void jobs_remove(struct jobs *jobs, struct job *job);       /* it must have no run */
/* Notes that the report has changed. `urgent`: it is to be saved at once. */
void job_changed(struct jobs *jobs, struct job *job, bool urgent);
/* Logs an event of a job. Needs no lock, because it reads only `file`. */
void job_log(const char *event, const struct job_file *file);
/* Returns the content of the job's state file, in keep. The failures are left out unless
 * `with_failures`. */
struct job_file job_file_of(const struct job *job, bool with_failures, struct arena *keep);

/* ---- files.c ---- */
/* Replaces the state of a job in the folder jobs/ by these bytes. Any thread. Returns OK, or an
 * error of folder_write. */
enum err files_write(struct jobs *jobs, int folder, uint64_t id, slice bytes) MUST_USE;
bool files_start(struct jobs *jobs) MUST_USE;
void files_stop(struct jobs *jobs);    /* saves what is not saved */
/* The name of a job's file in the folder jobs/. */
#define JOB_NAME_BYTES 32u
const char *job_name(uint64_t id, bool list, char ret[JOB_NAME_BYTES]);

/* ---- lister.c: the keys of a prefix, a page after another ---- */

struct lister {
    struct job_run *run;
    struct list_pages pages;
    struct list_get *get;             /* the call in progress, or NULL */
    bool began;                       /* the first page has come */
    unsigned empty;                   /* pages without keys in a row */
};
/* The list begins behind the key `after`, or behind the last page that `from` has taken. */
void lister_begin(struct lister *lister, struct job_run *run, slice after);
void lister_begin_behind(struct lister *lister, const struct lister *from);
void lister_end(struct lister *lister);
bool lister_has_more(const struct lister *lister);
/* Takes the next page, or asks for it. Returns OK with *ret, in keep. Returns ERR_WAIT if the page
 * is on its way: job_run_wake is called when it comes. Returns ERR_NOT_FOUND if no call may begin:
 * there is no further page, the run has got its end, or an outage lets it pause. */
enum err lister_next(struct lister *lister, struct arena *keep, struct listing *ret) MUST_USE;

/* ---- source.c: the items of a run, in their order ---- */

struct page;                          /* items that have come */
struct job_source {
    struct job_run *run;
    struct page *page, *ahead;        /* the page that items are taken from, and the next one */
    bool over;                        /* there is no further item */
    struct lister lister;             /* of a prefix */
    int file;                         /* of a list: its file; -1: not open */
    bool at_end;                      /* of a list: all its blocks were read */
    uint64_t offset;                  /* of the next block */
    uint64_t items;                   /* number of items before the next one */
};
/* The place of an item in its list, for the cursor. */
struct item_position {
    uint64_t block;
    uint32_t row;
};
void job_source_begin(struct job_source *source, struct job_run *run);
void job_source_end(struct job_source *source);
/* Returns OK with the next item, whose key is valid until the next call. Returns ERR_WAIT if the
 * item comes later: try again after job_run_wake, or after the pause of an outage. Returns
 * ERR_NOT_FOUND if there is no further item, or the run has got its end. */
enum err job_source_next(struct job_source *source, struct item *ret,
                         struct item_position *ret_position) MUST_USE;

/* ---- prefix_size.c: the objects and bytes of a prefix, for the progress ---- */

struct prefix_size {
    struct lister lister;             /* begins behind the first page of the source */
    struct job_total total;
    bool began;
};
void prefix_size_begin(struct prefix_size *size, struct job_run *run, const struct listing *first);
void prefix_size_go_on(struct prefix_size *size);
void prefix_size_end(struct prefix_size *size);

/* ---- item.c: one item ---- */

enum job_item_phase {
    JOB_ITEM_WAITS,                      /* to begin, or to begin again */
    JOB_ITEM_READS,                      /* a get is in progress */
    JOB_ITEM_LANDS,                      /* all bytes came; the store has not decided on them yet */
    JOB_ITEM_DONE
};

struct job_item_result {
    uint64_t bytes, peers_bytes, origin_bytes;
    bool fetched, not_kept;             /* fetched: some bytes were missing when the item began */
    bool skipped;                     /* of JOB_FOLLOW: nobody is expected to read it any more */
    enum err err;                     /* OK: the item did not fail */
    int status;
};

/* The tries of an item that failed because of the origin or of a limit of Penstock. */
struct job_item_outage {
    unsigned tries;                   /* only the tries that count: see rest() in item.c */
    uint64_t last_ms;                 /* when the last try failed */
    uint64_t successes;               /* run->successes at the last try */
};

struct job_item {
    struct job_run *run;
    struct list link;                 /* jobs->ready, or unlinked */
    enum job_item_phase phase;
    char *key;                        /* the memory of item.key */
    struct item item;
    struct item_position position;
    uint64_t follow_index;            /* of JOB_FOLLOW */
    size_t range;                     /* index of the job's range that is read now */
    struct get_ask ask;
    struct get *get;
    bool foreseen, decided;           /* the forecast is no hit; the get has its answer */
    bool unknown;                     /* the forecast had no metadata of the object */
    uint64_t at, want;                /* bytes of the get: read so far; to be read */
    struct metadata *metadata;        /* the version that was read last */
    uint64_t lands_ms;                /* when JOB_ITEM_LANDS began */
    struct job_item_result result;
    struct job_item_outage outage;
    bool counted;                     /* in the report's sums `done` */
};
void job_item_init(struct job_item *job_item, struct job_run *run, const struct item *item,
                   const struct item_position *position);
void job_item_begin(struct job_item *job_item);    /* from JOB_ITEM_WAITS */
void job_item_skip(struct job_item *job_item);     /* the same: it ends without being read */
void job_item_go_on(struct job_item *job_item);    /* an item of jobs->ready */
void job_item_look(struct job_item *job_item);     /* JOB_ITEM_LANDS: has the store decided? */
void job_item_free(struct job_item *job_item);     /* in any phase */

/* ---- run.c: a job in progress ---- */

/* While the origin fails, one item at a time is tried, after growing pauses. */
struct job_outage {
    unsigned tries;                   /* 0: there is no outage */
    uint64_t until_ms;
};

struct job_run {
    struct list link;                 /* jobs->runs */
    struct jobs *jobs;
    struct job *job;
    struct job_source source;
    struct prefix_size size;
    struct job_item *ring;             /* a ring of RUN_ITEMS */
    size_t first, count;
    unsigned reading;                 /* items with a get */
    unsigned waiting, landing;        /* items in these phases, at the latest turn */
    uint64_t looked_ms;               /* the latest look at the items that land */
    uint64_t successes;               /* answers of the origin */
    unsigned not_kept_row;              /* settled items in a row that the cache did not keep */
    struct run_follow *follow;        /* of JOB_FOLLOW; else NULL */
    struct job_outage outage;
    enum job_state state;             /* the end of the run; JOB_RUNNING: none yet */
    slice why;                        /* in the memory of the job */
};
void job_run_new(struct jobs *jobs, struct job *job);
void job_run_free(struct job_run **run);
/* Gives the run its end, unless it has one. job_run_turn then frees the run. `why` is copied. */
void job_run_stop(struct job_run *run, enum job_state state, slice why);
void job_run_succeeds(struct job_run *run);
/* Notes an outage: the run pauses. `why` is static text, for the report. */
void job_run_meets_outage(struct job_run *run, const char *why);
/* True if a further item, or a list call, may begin now. */
bool job_run_may_ask(const struct job_run *run);
void job_run_wake(struct job_run *run);
/* The first page of a prefix has come. */
void job_run_first_page(struct job_run *run, const struct listing *page);
/* Begins at most one item. Returns false if none can begin now. */
bool job_run_begin_one(struct job_run *run);
/* Looks at the items that land, and settles. Returns false if the run was over, and is freed. */
bool job_run_turn(struct job_run *run);
/* The time at which job_run_turn is to be called at the latest; UINT64_MAX: none. */
uint64_t job_run_due_ms(const struct job_run *run, uint64_t now_ms);

/* ---- run_follow.c: the readers of a job of JOB_FOLLOW ---- */

void run_follow_begin(struct job_run *run);    /* makes run->follow */
void run_follow_end(struct job_run *run);      /* does nothing if there is none */
/* Returns the present window of a job: all windows together take at most 3/8 of the cache. Any
 * thread. */
uint64_t run_follow_window(const struct jobs *jobs, const struct job_spec *spec);
/* Tells the store how many bytes the jobs keep ahead of their readers. */
void run_follow_note_windows(struct jobs *jobs);
/* Reads count from now on, so this is called before the client knows the job. run_follow_end
 * ends it. */
void run_follow_expect(struct jobs *jobs);
/* Returns the number of reads so far. */
uint64_t run_follow_reads(const struct jobs *jobs);
/* Tells all runs which of the first `until` reads clients have made since the last call. */
void run_follow_take_reads(struct jobs *jobs, uint64_t until);
/* Reads further items of the list, so that reads of them count. */
void run_follow_look_ahead(struct job_run *run);
/* True if the source may be asked for an item. After it has given one, run_follow_took returns the
 * item's follow_index. */
bool run_follow_may_take(const struct job_run *run);
uint64_t run_follow_took(struct job_run *run);
/* True if the window has room for an item. */
bool run_follow_may_begin(const struct job_run *run);
/* True if the item is to be skipped. */
bool run_follow_is_past(const struct job_run *run, const struct job_item *job_item);
void run_follow_brought(struct job_run *run, const struct job_item *job_item);    /* it is done */
/* Brings the report up to date. */
void run_follow_turn(struct job_run *run);
/* Returns a static text that says why no item begins, or NULL. `all_brought`: no item is left. */
const char *run_follow_waits(const struct job_run *run, bool all_brought);
/* Returns how the job ends now, or JOB_RUNNING. */
enum job_state run_follow_judge(const struct job_run *run, bool all_brought);
/* For a job that ends as JOB_UNREAD: logs a warning, and returns why it ends. */
slice run_follow_warn_unread(const struct job_run *run);

#endif
