/* test_base.c - slices, arenas, lists, mailboxes; what we may use. SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/header.h"
#include "base/arena.h"
#include "base/budget.h"
#include "base/cores.h"
#include "base/pressure.h"
#include "base/list.h"
#include "base/mailbox.h"
#include "base/read_epoch.h"
#include "base/workers.h"

TEST(a_number_is_digits_and_nothing_else)
{
    uint64_t n = 7;
    ok(slice_u64(S("18446744073709551615"), &n) && n == UINT64_MAX);
    ok(!slice_u64(S("18446744073709551616"), &n));
    ok(!slice_u64(S(""), &n) && !slice_u64(S("+1"), &n) && !slice_u64(S("1 "), &n));
    ok(n == UINT64_MAX);
}

TEST(cutting_tells_an_empty_rest_from_none)
{
    slice rest = S("a,");
    same(slice_cut(&rest, ','), S("a"));
    ok(rest.ptr != NULL && rest.len == 0);
    same(slice_cut(&rest, ','), S(""));
    ok(rest.ptr == NULL);
}

TEST(text_grows_and_keeps_what_it_had)
{
    struct arena arena = { 0 };
    struct text text = text_in(&arena);
    for (int i = 0; i < 1000; i++)
        text_printf(&text, "%d,", i);
    ok(slice_starts(text_slice(&text), S("0,1,2,")));
    ok(slice_starts_nocase(S("X-Amz-"), S("x-amz-")) && !slice_starts_nocase(S("x-am"), S("x-amz-")));
    static const char *const words[] = { "te", "via" };
    ok(slice_is_one_of(S("via"), words, 2) && !slice_is_one_of(S("Via"), words, 2));
    ok(slice_is_one_of_nocase(S("Via"), words, 2) && !slice_is_one_of_nocase(S("vi"), words, 2));
    ok(slice_ends(text_slice(&text), S("998,999,")));
    arena_free(&arena);
    ok(arena.newest == NULL);
}

TEST(a_number_is_written_as_printf_writes_it)
{
    static const uint64_t numbers[] = { 0, 7, 10, 99, 100, 4294967295u, 4294967296u, 10000000000000000000u,
                                        UINT64_MAX };
    struct arena arena = { 0 };
    for (size_t i = 0; i < countof(numbers); i++)
        for (unsigned digits = 0; digits <= 20; digits++) {
            struct text text = text_in(&arena);
            char hex[16];
            text_number(&text, numbers[i], digits);
            same(text_slice(&text),
                 arena_printf(&arena, "%0*" PRIu64, (int)MAX(digits, 1u), numbers[i]));
            hex_number_write(numbers[i], 16, hex);
            same(((slice){ hex, 16 }), arena_printf(&arena, "%016" PRIX64, numbers[i]));
        }
    arena_free(&arena);
}

TEST(two_texts_of_one_arena_grow_apart)
{
    struct arena arena = { 0 };
    struct text texts[] = { text_in(&arena), text_in(&arena) };
    static const size_t widths[] = { 1, 63, 64, 65, 254, 255, 256, 257, 5000 };
    size_t len = 0;
    for (size_t i = 0; i < countof(widths); i++) {
        text_printf(&texts[0], "%*d", (int)widths[i], 0);
        text_printf(&texts[1], "%*d", (int)widths[i], 1);
        if (i % 2)
            text_printf(&texts[1], "%*d", (int)widths[i], 1);
        len += widths[i];
    }
    ok(texts[0].len == len);
    for (size_t at = 0, i = 0; i < countof(widths); at += widths[i++])
        for (size_t k = 0; k < widths[i]; k++)
            ok(texts[0].ptr[at + k] == (k + 1 < widths[i] ? ' ' : '0'));
    ok(slice_ends(text_slice(&texts[1]), S("1")) && !slice_has(text_slice(&texts[1]), '0'));
    arena_free(&arena);
}

TEST(a_list_grows_and_keeps_its_items)
{
    struct arena arena = { 0 };
    size_t *list = NULL;
    for (size_t i = 0; i < 1000; i++) {
        list = arena_grow(&arena, list, i, sizeof(*list));
        list[i] = i;
    }
    for (size_t i = 0; i < 1000; i++)
        ok(list[i] == i);
    arena_free(&arena);
}

TEST(a_part_is_found_where_it_begins_first)
{
    ok(slice_find(S("a<b><b>"), S("<b>")) == 1 && slice_find(S("a<b"), S("<b>")) == 3);
    ok(slice_find(S(""), S("<b>")) == 0 && slice_find((slice){ NULL, 0 }, S("<b>")) == 0);
}

struct counted {
    struct ticket *ticket;
    int woken;
};

static void count(void *arg)
{
    ((struct counted *)arg)->woken++;
}

static void *wake_many(void *arg)
{
    struct ticket *ticket = arg;
    for (int i = 0; i < 1000; i++)
        ticket_wake(ticket);
    ticket_unref(&ticket);
    return NULL;
}

TEST(wakes_between_two_deliveries_are_one)
{
    struct mailbox *box = mailbox_new();
    struct counted waiter = { 0 };
    waiter.ticket = ticket_new(box, count, &waiter);
    pthread_t thread;
    ok(pthread_create(&thread, NULL, wake_many, ticket_ref(waiter.ticket)) == 0);
    pthread_join(thread, NULL);
    mailbox_deliver(box);
    ok(waiter.woken == 1);
    ticket_wake(waiter.ticket);
    poll(&(struct pollfd){ .fd = mailbox_fd(box), .events = POLLIN }, 1, 1000);
    mailbox_deliver(box);
    ok(waiter.woken == 2);
    ticket_end(&waiter.ticket);
    mailbox_free(&box);
}

TEST(a_wake_after_the_end_finds_nobody)
{
    struct mailbox *box = mailbox_new();
    struct counted waiter = { 0 };
    waiter.ticket = ticket_new(box, count, &waiter);
    struct ticket *other = ticket_ref(waiter.ticket);
    ticket_wake(other);
    ticket_end(&waiter.ticket);
    ok(waiter.ticket == NULL);
    ok(mailbox_deliver(box) == 1 && waiter.woken == 0);
    ticket_unref(&other);
    mailbox_free(&box);
}

TEST(a_wake_after_the_mailbox_is_gone_is_lost_without_harm)
{
    struct mailbox *box = mailbox_new();
    struct counted waiter = { 0 };
    waiter.ticket = ticket_new(box, count, &waiter);
    struct ticket *other = ticket_ref(waiter.ticket);
    ticket_end(&waiter.ticket);
    mailbox_free(&box);
    ok(box == NULL);
    ticket_wake(other);
    ok(waiter.woken == 0);
    ticket_unref(&other);
}

/* ---- a pool of threads ---- */

struct job {
    struct list link;
    unsigned turns;                   /* that it takes */
};

static pthread_barrier_t met;
static pthread_mutex_t turns_lock = PTHREAD_MUTEX_INITIALIZER;
static char turns[64];
static size_t turn_count;

static bool meet_others(struct list *link)
{
    (void)link;
    pthread_barrier_wait(&met);
    return true;
}

TEST(a_pool_has_as_many_threads_as_work_waits_and_no_more_than_it_may)
{
    enum { MOST = 3 };
    struct job jobs[2 * MOST];
    struct workers *workers = workers_new(MOST, "test", meet_others);
    ok(pthread_barrier_init(&met, NULL, MOST) == 0);    /* fewer would wait for ever */
    for (size_t i = 0; i < countof(jobs); i++) {
        list_init(&jobs[i].link);
        workers_put(workers, &jobs[i].link);
    }
    workers_free(&workers);
    ok(workers == NULL);
    pthread_barrier_destroy(&met);
}

/* The first turn of all waits until both jobs are there. */
static bool take_turn(struct list *link)
{
    struct job *job = list_of(link, struct job, link);
    pthread_mutex_lock(&turns_lock);
    turns[turn_count++] = job->turns > 10 ? 'L' : 's';
    pthread_mutex_unlock(&turns_lock);
    job->turns--;
    return job->turns % 10 == 0;
}

TEST(long_work_takes_turns_with_the_rest_and_the_end_waits_for_all)
{
    struct job long_one = { .turns = 14 }, other = { .turns = 2 };
    struct workers *workers = workers_new(1, "test", take_turn);
    list_init(&long_one.link);
    list_init(&other.link);
    turn_count = 0;
    pthread_mutex_lock(&turns_lock);
    workers_put(workers, &long_one.link);
    workers_put(workers, &other.link);
    pthread_mutex_unlock(&turns_lock);
    workers_free(&workers);
    same(((slice){ turns, turn_count }), S("LsLsLL"));
}

TEST(memory_is_at_most_the_machines)
{
    uint64_t machine = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    ok(memory_allowed("").bytes >= 16 * MIB && memory_allowed("").bytes <= machine);
}

/* ---- what a cgroup allows: a tree of files in place of the kernel's ---- */

static char tree[] = "/tmp/penstock-cgroup-XXXXXX";

static void tree_file(const char *path, const char *text)
{
    char command[512], whole[512];
    snprintf(command, sizeof(command), "mkdir -p \"$(dirname %s%s)\"", tree, path);
    ok(system(command) == 0);
    snprintf(whole, sizeof(whole), "%s%s", tree, path);
    FILE *file = fopen(whole, "w");
    ok(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

static void expect_allowed(uint64_t bytes, const char *by)
{
    struct memory_allowed allowed = memory_allowed(tree);
    if (allowed.bytes != bytes || !strstr(allowed.by, by))
        fail_msg("%ju by %s, not %ju by %s", (uintmax_t)allowed.bytes, allowed.by,
                 (uintmax_t)bytes, by);
}

static void tree_begin(const char *groups, const char *mounts)
{
    strcpy(tree + sizeof(tree) - 7, "XXXXXX");
    ok(mkdtemp(tree) != NULL);
    tree_file("/proc/self/cgroup", groups);
    tree_file("/proc/self/mountinfo", mounts);
}

static void tree_end(void)
{
    char command[128];
    snprintf(command, sizeof(command), "rm -r %s", tree);
    ok(system(command) == 0);
}

TEST(the_tightest_group_of_version_2_allows_so_much_memory)
{
    tree_begin("0::/pods/p1/box\n", "30 23 0:26 / /cg rw,nosuid - cgroup2 cgroup2 rw\n");
    tree_file("/cg/pods/p1/box/memory.max", "max\n");
    tree_file("/cg/pods/p1/memory.max", "536870912\n");
    tree_file("/cg/pods/memory.max", "4294967296\n");
    expect_allowed(512 * MIB, "/cg/pods/p1/memory.max");
    tree_file("/cg/pods/p1/box/memory.high", "268435456\n");
    expect_allowed(256 * MIB, "/cg/pods/p1/box/memory.high");
    tree_end();
}

TEST(the_tightest_group_of_version_1_allows_so_much_memory)
{
    tree_begin("5:cpu,cpuacct:/other\n4:memory:/a/b\n0::/\n",
               "31 23 0:27 / /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
               "32 23 0:28 / /cg/memory rw shared:9 - cgroup cgroup rw,memory\n"
               "33 23 0:29 / /cg/unified rw - cgroup2 cgroup2 rw\n");
    tree_file("/cg/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
    tree_file("/cg/memory/a/memory.limit_in_bytes", "104857600\n");
    tree_file("/cg/cpu/other/memory.limit_in_bytes", "1\n");
    expect_allowed(100 * MIB, "/cg/memory/a/memory.limit_in_bytes");
    tree_end();
}

TEST(a_container_that_sees_a_part_of_the_tree_finds_its_group_there)
{
    tree_begin("4:memory:/docker/abc/sub\n",
               "32 23 0:28 /docker/abc /cg/memory ro - cgroup cgroup rw,memory\n");
    tree_file("/cg/memory/sub/memory.limit_in_bytes", "209715200\n");
    tree_file("/cg/memory/memory.limit_in_bytes", "104857600\n");
    expect_allowed(100 * MIB, "/cg/memory/memory.limit_in_bytes");
    tree_file("/proc/self/cgroup", "4:memory:/docker/abcd\n");    /* beside it: not ours to see */
    expect_allowed(100 * MIB, "/cg/memory/memory.limit_in_bytes");
    tree_end();
}

TEST(without_cgroups_the_machine_has_so_much_memory)
{
    tree_begin("", "");
    expect_allowed((uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE), "RAM");
    tree_end();
}

TEST(the_worst_pressure_of_the_groups_and_of_the_machine_counts)
{
    tree_begin("0::/pods/box\n", "30 23 0:26 / /cg rw,nosuid - cgroup2 cgroup2 rw\n");
    ok(memory_pressure(tree) == 0);    /* a kernel without PSI */
    tree_file("/proc/pressure/memory", "some avg10=1.99 avg60=50.00 avg300=0.00 total=9\n");
    ok(memory_pressure(tree) == 1);
    tree_file("/cg/pods/box/memory.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n");
    tree_file("/cg/pods/memory.pressure", "some avg10=12.34 avg60=0.00 avg300=0.00 total=7\n");
    ok(memory_pressure(tree) == 12);
    tree_file("/cg/pods/memory.pressure", "nonsense\n");
    ok(memory_pressure(tree) == 1);
    tree_end();
}

/* ---- budgets ---- */

static uint64_t sum_of(const struct budgets *budgets)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < BUDGET_COUNT; i++)
        sum += budgets->bytes[i];
    return sum;
}

TEST(budgets_have_their_least_and_never_more_than_memory_together)
{
    struct budgets least = budgets_divide(MEMORY_LEAST), before = least;
    for (size_t i = 0; i < BUDGET_COUNT; i++)
        ok(least.bytes[i] == budget_rows[i].least);
    ok(sum_of(&least) == MEMORY_LEAST);
    for (uint64_t memory = MEMORY_LEAST; memory <= 512 * GIB; memory += memory / 7) {
        struct budgets budgets = budgets_divide(memory);
        ok(sum_of(&budgets) <= memory);
        for (size_t i = 0; i < BUDGET_COUNT; i++)
            ok(budgets.bytes[i] >= before.bytes[i] && budgets.bytes[i] <= budget_rows[i].most);
        before = budgets;
    }
    struct budgets usual = budgets_divide(1 * GIB);
    ok(sum_of(&usual) > 1000 * MIB);
}

TEST(memory_is_half_of_what_is_allowed_between_its_least_and_its_most)
{
    ok(budgets_default(512 * MIB) == 256 * MIB);
    ok(budgets_default(64 * GIB) == 1536 * MIB);
    ok(budgets_default(32 * MIB) == MEMORY_LEAST);
}

TEST(a_header_is_known_by_its_row_or_by_how_it_begins)
{
    static const struct {
        const char *name;
        enum header_fate fate;
    } cases[] = {
        { "X-Amz-Date", HEADER_OURS }, { "authorization", HEADER_OURS },
        { "X-Forwarded-Proto", HEADER_OURS }, { "X-HTTP-Method-Override", HEADER_OURS },
        { "accept", HEADER_UNSENT }, { "Range", HEADER_SENT }, { "traceparent", HEADER_UNSENT },
        { "x-amz-sdk-retry", HEADER_SENT }, { "x-amz-checksum-mode", HEADER_SENT },
        { "x-amz-checksum-crc32", HEADER_ORIGIN }, { "x-amz-meta-a.b", HEADER_ORIGIN },
        { "x-amz-meta-Snowball-Auto-Extract", HEADER_FOREIGN }, { "x-amz-", HEADER_FOREIGN },
        { "X-Minio-Force-Delete", HEADER_FOREIGN }, { "x-named", HEADER_FOREIGN },
        { "x-minio", HEADER_UNKNOWN }, { "x-namedly", HEADER_UNKNOWN }, { "", HEADER_UNKNOWN },
        { "x-obs-a-name-that-is-longer-than-any-row-of-the-table-may-be-by-far", HEADER_FOREIGN },
    };
    for (size_t i = 0; i < countof(cases); i++)
        if (header_judge(slice_of(cases[i].name), S("a, X-Named")).fate != cases[i].fate)
            fail_msg("%s", cases[i].name);
    ok(header_judge(S("X-Amz-Copy-Source"), S("")).once);
    ok(!header_judge(S("x-amz-copy-source-range"), S("")).once);
    ok(header_judge(S("x-amz-grant-read"), S("")).admin);
    ok(header_is_disguised(S("x-minio_a")) && header_is_disguised(S("X_Amz-Acl")));
    ok(!header_is_disguised(S("x-amz-meta-a_b")) && !header_is_disguised(S("my_header")));
    ok(!header_listed_breaks(S("x-trace_id")) && header_listed_breaks(S("x-a.b")));
    ok(header_listed_breaks(S("X_Forwarded-For")) && header_listed_breaks(S("")));
}

struct epoch_reader {
    struct read_epochs *epochs;
    atomic_uint inside, leave, left;
};

static void *stay_in_an_epoch(void *arg)
{
    struct epoch_reader *all = arg;
    struct read_epoch *epoch = read_epoch_enter(all->epochs);
    atomic_fetch_add(&all->inside, 1);
    while (!atomic_load(&all->leave))
        sched_yield();
    atomic_fetch_add(&all->left, 1);
    read_epoch_leave(epoch);
    return NULL;
}

static void *leave_later(void *arg)
{
    struct epoch_reader *all = arg;
    usleep(20000);
    atomic_store(&all->leave, 1);
    return NULL;
}

TEST(a_writer_waits_for_all_readers_that_are_in_an_epoch_and_for_no_other)
{
    enum { READERS = 64, MORE = 4 };    /* more threads than there are slots */
    struct epoch_reader all = { .epochs = read_epochs_new() };
    pthread_t threads[READERS + MORE], opener;
    read_epochs_wait(all.epochs);
    for (size_t i = 0; i < countof(threads); i++)
        ok(pthread_create(&threads[i], NULL, stay_in_an_epoch, &all) == 0);
    while (atomic_load(&all.inside) < READERS)
        sched_yield();
    ok(pthread_create(&opener, NULL, leave_later, &all) == 0);
    read_epochs_wait(all.epochs);
    ok(atomic_load(&all.left) >= READERS);
    for (size_t i = 0; i < countof(threads); i++)
        pthread_join(threads[i], NULL);
    pthread_join(opener, NULL);
    ok(atomic_load(&all.left) == READERS + MORE);
    read_epochs_wait(all.epochs);
    read_epochs_free(&all.epochs);
}

RUN(cmocka_unit_test(a_writer_waits_for_all_readers_that_are_in_an_epoch_and_for_no_other),
    cmocka_unit_test(memory_is_at_most_the_machines),
    cmocka_unit_test(the_tightest_group_of_version_2_allows_so_much_memory),
    cmocka_unit_test(the_tightest_group_of_version_1_allows_so_much_memory),
    cmocka_unit_test(a_container_that_sees_a_part_of_the_tree_finds_its_group_there),
    cmocka_unit_test(without_cgroups_the_machine_has_so_much_memory),
    cmocka_unit_test(the_worst_pressure_of_the_groups_and_of_the_machine_counts),
    cmocka_unit_test(budgets_have_their_least_and_never_more_than_memory_together),
    cmocka_unit_test(memory_is_half_of_what_is_allowed_between_its_least_and_its_most),
    cmocka_unit_test(a_header_is_known_by_its_row_or_by_how_it_begins),
    cmocka_unit_test(a_number_is_digits_and_nothing_else),
    cmocka_unit_test(cutting_tells_an_empty_rest_from_none),
    cmocka_unit_test(text_grows_and_keeps_what_it_had),
    cmocka_unit_test(two_texts_of_one_arena_grow_apart),
    cmocka_unit_test(a_number_is_written_as_printf_writes_it),
    cmocka_unit_test(a_list_grows_and_keeps_its_items),
    cmocka_unit_test(a_part_is_found_where_it_begins_first),
    cmocka_unit_test(wakes_between_two_deliveries_are_one),
    cmocka_unit_test(a_wake_after_the_end_finds_nobody),
    cmocka_unit_test(a_wake_after_the_mailbox_is_gone_is_lost_without_harm),
    cmocka_unit_test(a_pool_has_as_many_threads_as_work_waits_and_no_more_than_it_may),
    cmocka_unit_test(long_work_takes_turns_with_the_rest_and_the_end_waits_for_all))
