/* test_jobs.c - jobs with a real store and a fake origin. SPDX-License-Identifier: Apache-2.0 */
#include "cache_unit.h"

#include <dirent.h>
#include <sys/time.h>

#include "jobs/jobs.h"

#define SIZE 100000u    /* all objects of a test take half of the cache */
#define OBJECTS 300u

static struct jobs *jobs;
static atomic_bool client_is_gone;
static struct arena keep;
static slice owner = { "KEY", 3 };

/* ---- a front that allows everything, as long as the client is there ---- */

static enum err find(void *arg, slice access_key, struct reader *ret)
{
    (void)arg;
    *ret = (struct reader){ .access_key = access_key };
    return atomic_load(&client_is_gone) ? ERR_UNKNOWN_KEY : OK;
}

static enum err may_get(void *arg, struct arena *scratch, const struct reader *reader, slice bucket,
                        const struct item *item, struct get_ask *ret)
{
    (void)arg;
    (void)scratch;
    (void)reader;
    struct s3_range range = item->range;
    if (item->kind == ITEM_SPAN)
        range = (struct s3_range){ .kind = RANGE_SPAN, .first = item->first,
                                   .last = item->first + item->length - 1 };
    *ret = (struct get_ask){ .rules = &house.rules, .bucket = bucket, .key = item->key,
                             .range = range,
                             .conditions = { .if_modified_since = -1,
                                             .if_unmodified_since = -1 } };
    return slice_eq(item->key, S("forbidden")) ? ERR_POLICY : OK;
}

static void begin_jobs(void)
{
    struct reader_judge judge = { .find = find, .may_get = may_get };
    jobs = jobs_new(&(struct jobs_options){ .cache = house.cache, .gets_max = 8 });
    ok(jobs_start(jobs, &judge));
}

static void end_jobs(void)
{
    jobs_stop(jobs);
    jobs_free(&jobs);
}

static void begin(void)
{
    new_house(SIZE);
    begin_jobs();
}

static void end(void)
{
    end_jobs();
    arena_free(&keep);
    drop_house();
}

/* ---- jobs ---- */

static struct item item_of(const char *key)
{
    return (struct item){ .key = slice_of(key), .length = ITEM_OPEN };
}

/* Starts a job of `count` keys that begin with this letter, and of the items in `more`. */
static uint64_t start(char letter, unsigned count, const struct item *more, size_t more_count)
{
    struct job_spec spec = { .owner = owner, .bucket = S("data"), .by_list = true };
    struct job_draft *draft;
    uint64_t id;
    char key[16];
    /* The jobs may not be read yet, or there may be 256 reports. */
    for (unsigned tries = 0; job_draft_new(jobs, spec.owner, &draft) && tries < 10000; tries++)
        usleep(1000);
    ok(draft != NULL);
    for (unsigned i = 0; i < count; i++) {
        snprintf(key, sizeof(key), "%c%05u", letter, i);
        struct item item = item_of(key);
        ok(job_draft_add(draft, &item) == OK);
    }
    for (size_t i = 0; i < more_count; i++)
        ok(job_draft_add(draft, &more[i]) == OK);
    ok(job_draft_start(&draft, &spec, &id) == OK);
    return id;
}

static struct job_view view_of(uint64_t id)
{
    struct job_view view;
    ok(jobs_find(jobs, id, &keep, &view));
    return view;
}

static struct job_view ended(uint64_t id)
{
    uint64_t until = mono_ms() + 60000;
    struct job_view view = view_of(id);
    for (; view.file.state == JOB_RUNNING; view = view_of(id)) {
        check(mono_ms() < until);
        usleep(5000);
    }
    return view;
}

static void wait_for_objects(uint64_t id, uint64_t objects)
{
    uint64_t until = mono_ms() + 60000;
    while (view_of(id).file.sums.objects < objects) {
        check(mono_ms() < until);
        usleep(1000);
    }
}

/* Returns the number of files in the folder of the jobs whose names end so. */
static unsigned files(const char *ending)
{
    char path[128];
    unsigned count = 0;
    snprintf(path, sizeof(path), "%s/jobs", house.folder);
    DIR *dir = opendir(path);
    ok(dir != NULL);
    for (struct dirent *item; (item = readdir(dir));)
        count += item->d_name[0] != '.' && slice_ends(slice_of(item->d_name), slice_of(ending));
    closedir(dir);
    return count;
}

static void make_file(const char *name, int64_t written_s)
{
    char path[160];
    snprintf(path, sizeof(path), "%s/jobs/%s", house.folder, name);
    int fd = open(path, O_CREAT | O_WRONLY, 0600);
    ok(fd >= 0 && write(fd, "x", 1) == 1 && close(fd) == 0);
    struct timeval times[2] = { { written_s, 0 }, { written_s, 0 } };
    ok(utimes(path, times) == 0);
}

/* ---- what they do ---- */

TEST(a_list_is_brought_and_then_all_is_a_hit)
{
    const struct item more[] = {
        item_of("a00001"), item_of("forbidden"),
        { .key = S("b"), .kind = ITEM_SPAN, .first = 1, .length = 2 },
        { .key = S("a00002"), .kind = ITEM_SPAN, .first = SIZE, .length = 1 },
    };
    begin();
    struct job_view view = ended(start('a', OBJECTS, more, countof(more)));
    struct job_sums sums = view.file.sums;
    ok(view.file.state == JOB_DONE && view.file.spec.listed == OBJECTS + 4);
    ok(sums.objects == OBJECTS + 4 && sums.failed == 2 && sums.not_kept == 0);
    ok(sums.hits + sums.fetched == OBJECTS + 2 && sums.fetched >= OBJECTS + 1);
    ok(sums.bytes == (OBJECTS + 1) * (uint64_t)SIZE + 2);
    ok(view.file.failure_count == 2 && view.file.failures[0].status == 403);
    same(view.file.failures[0].key, S("forbidden"));
    same(view.file.failures[1].code, S("InvalidRange"));
    unsigned gets = atomic_load(&fake.gets);
    ok(gets >= OBJECTS + 1 && gets <= OBJECTS + 2);
    sums = ended(start('a', OBJECTS, NULL, 0)).file.sums;
    ok(sums.hits == OBJECTS && sums.fetched == 0 && sums.origin_bytes == 0);
    ok(atomic_load(&fake.gets) == gets);
    end();
}

/* So many hits end at once that the window is empty before the list is at its end. */
TEST(a_list_longer_than_the_window_is_brought_to_its_end)
{
    enum { MANY = 5000 };
    struct item *more = calloc(MANY, sizeof(*more));
    begin();
    (void)ended(start('i', 1, NULL, 0));
    for (unsigned i = 0; i < MANY; i++)
        more[i] = item_of("i00000");
    struct job_view view = ended(start('i', 0, more, MANY));
    ok(view.file.state == JOB_DONE && view.file.sums.hits == MANY);
    free(more);
    end();
}

TEST(a_job_goes_on_in_the_next_process)
{
    begin();
    uint64_t id = start('c', OBJECTS, NULL, 0), seen = 0;
    for (unsigned i = 1; i <= 5; i++) {
        wait_for_objects(id, MIN(seen + OBJECTS / 10, (uint64_t)OBJECTS));
        end_jobs();
        begin_jobs();
        uint64_t until = mono_ms() + 60000;
        for (struct job_view view; !jobs_find(jobs, id, &keep, &view);)
            check(mono_ms() < until);
        uint64_t now = view_of(id).file.sums.objects;
        ok(now >= seen);    /* a stop saves what is settled */
        seen = now;
    }
    struct job_view view = ended(id);
    ok(view.file.state == JOB_DONE && view.file.sums.objects == OBJECTS);
    ok(view.file.sums.bytes == OBJECTS * (uint64_t)SIZE && view.file.sums.failed == 0);
    ok(atomic_load(&fake.gets) <= OBJECTS + 5 * 8);
    uint64_t until = mono_ms() + 60000;
    while (files(".list"))    /* the list goes with the last save */
        check(mono_ms() < until);
    ok(files("") == 1);
    end();
}

TEST(a_job_waits_for_an_origin_that_is_down)
{
    begin();
    uint64_t id = start('d', OBJECTS, NULL, 0);
    wait_for_objects(id, OBJECTS / 10);
    atomic_store(&fake.down, true);
    uint64_t until = mono_ms() + 60000;
    while (!view_of(id).waits.len)
        check(mono_ms() < until);
    struct job_view *latest;
    ok(jobs_latest(jobs, 0, &keep, &latest) == 1 && latest[0].file.id == id);
    unsigned gets = atomic_load(&fake.gets);
    usleep(1500000);
    ok(atomic_load(&fake.gets) <= gets + 8 + 2);    /* those that were on their way, and tries */
    atomic_store(&fake.down, false);
    struct job_view view = ended(id);
    ok(view.file.state == JOB_DONE && view.file.sums.objects == OBJECTS);
    ok(view.file.sums.failed == 0 && !view.waits.len);
    end();
}

/* The cache takes no fetches any more, while those in progress still bring bytes. */
TEST(no_object_fails_because_penstock_stops)
{
    begin();
    atomic_store(&fake.slow_us, 3000);    /* so that they end one after another */
    uint64_t id = start('s', OBJECTS, NULL, 0);
    wait_for_objects(id, 3);
    cache_stop(house.cache);
    usleep(200000);
    struct job_view view = view_of(id);
    ok(view.file.state == JOB_RUNNING && view.file.sums.failed == 0);
    atomic_store(&fake.slow_us, 0);
    end();
}

TEST(a_job_ends_when_its_client_is_gone)
{
    begin();
    uint64_t id = start('e', OBJECTS, NULL, 0);
    wait_for_objects(id, 10);
    atomic_store(&client_is_gone, true);
    struct job_view view = ended(id);
    atomic_store(&client_is_gone, false);
    ok(view.file.state == JOB_REFUSED && view.file.why.len && view.file.sums.objects < OBJECTS);
    end();
}

TEST(a_job_can_be_ended)
{
    begin();
    atomic_store(&fake.held, true);
    uint64_t id = start('f', OBJECTS, NULL, 0);
    ok(view_of(id).file.state == JOB_RUNNING);
    ok(jobs_cancel(jobs, id) == OK && view_of(id).file.state == JOB_CANCELED);
    ok(jobs_cancel(jobs, id) == OK);
    ok(jobs_cancel(jobs, id + 1) == ERR_NOT_FOUND);
    atomic_store(&fake.held, false);
    end_jobs();
    begin_jobs();
    uint64_t until = mono_ms() + 60000;
    for (struct job_view view; !jobs_find(jobs, id, &keep, &view);)
        check(mono_ms() < until);
    ok(view_of(id).file.state == JOB_CANCELED);
    end();
}

TEST(an_owner_has_half_of_the_places_that_others_leave)
{
    struct job_draft *draft;
    begin();
    atomic_store(&fake.held, true);
    for (unsigned i = 0; i < JOBS_RUN_MAX / 2; i++)
        (void)start('g', 1, NULL, 0);
    ok(job_draft_new(jobs, S("KEY"), &draft) == ERR_LIMIT && !draft);
    ok(job_draft_new(jobs, S("OTHER"), &draft) == OK);
    job_draft_free(&draft);
    atomic_store(&fake.held, false);
    end();
}

TEST(lists_without_a_job_and_damaged_states_go)
{
    begin();
    (void)ended(start('h', 1, NULL, 0));
    end_jobs();
    make_file("00000000000000ab", 1000);          /* no state */
    make_file("00000000000000ac.list", 1000);       /* left over */
    make_file("00000000000000ad.list", wall_s() + 60);    /* of a job that is being made */
    make_file("notes", 1000);                       /* of somebody else */
    begin_jobs();
    uint64_t until = mono_ms() + 60000;
    while (files("000000ac.list") || files("000000ab"))
        check(mono_ms() < until);
    ok(files("000000ad.list") == 1 && files("notes") == 1 && files("") == 3);
    end();
}

/* Returns the path of the only list. */
static const char *list_path(void)
{
    static char path[400];
    snprintf(path, sizeof(path), "%s/jobs", house.folder);
    DIR *dir = opendir(path);
    ok(dir != NULL);
    for (struct dirent *item; (item = readdir(dir));)
        if (slice_ends(slice_of(item->d_name), S(".list")))
            snprintf(path, sizeof(path), "%s/jobs/%s", house.folder, item->d_name);
    closedir(dir);
    ok(slice_ends(slice_of(path), S(".list")));
    return path;
}

TEST(a_list_that_was_cut_is_damaged)
{
    enum { MANY = 5000 };
    uint32_t head[4];
    struct item *more = calloc(MANY, sizeof(*more));
    for (unsigned i = 0; i < MANY; i++)
        more[i] = item_of("j00000");
    begin();
    atomic_store(&fake.held, true);
    uint64_t id = start('j', 0, more, MANY);
    free(more);
    end_jobs();
    int fd = open(list_path(), O_RDWR);    /* cut behind the first block: no checksum is wrong */
    ok(fd >= 0 && read(fd, head, sizeof(head)) == sizeof(head));
    ok(ftruncate(fd, (off_t)(sizeof(head) + head[1])) == 0 && close(fd) == 0);
    atomic_store(&fake.held, false);
    begin_jobs();
    while (!jobs_are_known(jobs))
        usleep(1000);
    struct job_view view = ended(id);
    ok(view.file.state == JOB_FAILED && view.file.why.len && view.file.sums.objects < MANY);
    end();
}

TEST(many_jobs_of_one_client_leave_the_reports_of_others)
{
    struct job_view view, *latest;
    uint64_t last = 0;
    begin();
    owner = S("OTHER");
    uint64_t id = ended(start('k', 1, NULL, 0)).file.id;
    owner = S("KEY");
    for (unsigned i = 0; i < JOBS_MAX + 20; i++)
        last = ended(start('k', 1, NULL, 0)).file.id;
    assert_int_equal(jobs_latest(jobs, 20, &keep, &latest), 20);
    ok(latest[19].file.id == last);
    ok(jobs_find(jobs, id, &keep, &view));
    uint64_t until = mono_ms() + 60000;
    while (files("") >= JOBS_MAX)
        check(mono_ms() < until);
    ok(files("") == JOBS_MAX - 1);
    end();
}

RUN(cmocka_unit_test(a_list_is_brought_and_then_all_is_a_hit),
    cmocka_unit_test(a_list_that_was_cut_is_damaged),
    cmocka_unit_test(many_jobs_of_one_client_leave_the_reports_of_others),
    cmocka_unit_test(a_list_longer_than_the_window_is_brought_to_its_end),
    cmocka_unit_test(a_job_goes_on_in_the_next_process),
    cmocka_unit_test(a_job_waits_for_an_origin_that_is_down),
    cmocka_unit_test(no_object_fails_because_penstock_stops),
    cmocka_unit_test(a_job_ends_when_its_client_is_gone),
    cmocka_unit_test(a_job_can_be_ended),
    cmocka_unit_test(an_owner_has_half_of_the_places_that_others_leave),
    cmocka_unit_test(lists_without_a_job_and_damaged_states_go))
