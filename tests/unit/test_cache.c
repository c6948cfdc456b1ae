/* test_cache.c - gets against a real store and an origin that misbehaves on purpose.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cache_unit.h"

#include <glob.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "cache/getting.h"

static atomic_int wall_ahead_s;

/* The C library's, for a wall clock that somebody sets. */
int clock_gettime(clockid_t which, struct timespec *ret)
{
    int rc = (int)syscall(SYS_clock_gettime, which, ret);
    if (!rc && which == CLOCK_REALTIME)
        ret->tv_sec += atomic_load(&wall_ahead_s);
    return rc;
}

TEST(a_second_read_asks_the_origin_for_nothing)
{
    new_house(3 * MIB + 77);
    struct client client;
    client_begin(&client);
    ok(reads(&client, 0, 0));
    ok(client.answer->source == GET_MISS && atomic_load(&fake.gets) == 1);
    settle(&client);
    ok(reads(&client, 0, 0));
    ok(client.answer->source == GET_HIT && atomic_load(&fake.gets) == 1);
    ok(atomic_load(&fake.bytes) == 3 * MIB + 77);
    client_end(&client);
    drop_house();
}

TEST(what_is_here_is_read_straight_to_where_it_is_wanted)
{
    new_house(3 * MIB + 77);
    house.to = must_alloc(3 * MIB + 77);
    house.to_bytes = 3 * MIB + 77;
    struct client client;
    uint64_t commits = metric_read(M_STORE_COMMITS);
    client_begin(&client);
    /* From the origin: the caller copies, unless a commit comes before it asks for the next bytes. */
    ok(reads(&client, 0, 0) && (client.in_place == 0 || metric_read(M_STORE_COMMITS) > commits));
    settle(&client);
    ok(reads(&client, 0, 0) && client.in_place == 3 * MIB + 77);
    ok(client.answer->source == GET_HIT);
    ok(reads(&client, 1000, 2 * MIB + 1) && client.in_place == 2 * MIB - 1000);
    ok(reads(&client, 70000, 71000) && client.in_place == 0);    /* less than a block */
    client_end(&client);
    free(house.to);
    house.to = NULL;
    drop_house();
}

TEST(an_answer_that_does_not_fit_is_refused_before_any_byte)
{
    new_house(2 * MIB);
    uint8_t memory[100] = { 0 };
    struct client client;
    client_begin(&client);
    house.to = memory;
    house.to_bytes = sizeof(memory);
    for (int i = 0; i < 2; i++) {    /* a miss, and a hit */
        ask(&client, 0, 0);
        ok(decided(&client) == ERR_TOO_LARGE && memory[0] == 0);
        ask(&client, 5, 106);
        ok(decided(&client) == ERR_TOO_LARGE && memory[0] == 0);
        ok(reads(&client, 5, 105));
        house.to = NULL;
        ok(reads(&client, 0, 0));
        settle(&client);
        house.to = memory;
    }
    house.to = NULL;
    client_end(&client);
    drop_house();
}

TEST(memory_that_can_not_be_written_is_the_readers_own_trouble)
{
    new_house(2 * MIB);
    struct client client;
    client_begin(&client);
    ok(reads(&client, 0, 0));
    settle(&client);
    int file = memfd_create("cut", MFD_CLOEXEC);    /* there is nothing behind its map */
    house.to = mmap(NULL, 2 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    house.to_bytes = 2 * MIB;
    ask(&client, 0, 0);
    ok(decided(&client) == ERR_FAULT);
    close(file);
    munmap(house.to, 2 * MIB);
    house.to = NULL;
    ok(reads(&client, 0, 0) && client.answer->source == GET_HIT);
    ok(atomic_load(&fake.gets) == 1);
    client_end(&client);
    drop_house();
}

static void cool(void)    /* what is read next comes from the disk */
{
    char pattern[128];
    glob_t found;
    snprintf(pattern, sizeof(pattern), "%s/extents/*", house.folder);
    ok(glob(pattern, 0, NULL, &found) == 0);
    for (size_t i = 0; i < found.gl_pathc; i++)
        (void)cool_file(found.gl_pathv[i]);
    globfree(&found);
}

TEST(what_the_disk_must_bring_is_read_ahead_by_a_piece)
{
    house.cold_reads = COLD_DIRECT;    /* else the kernel reads ahead, too */
    new_house(3 * MIB + 77);
    struct client client;
    client_begin(&client);
    ok(reads(&client, 0, 0));
    settle(&client);
    uint64_t ahead, reads_before;
    unsigned tries = 0;
    do {    /* on a busy machine, the kernel may refuse a read that must not wait */
        ahead = metric_read(M_CACHE_READ_AHEAD);
        reads_before = metric_read(M_DISK_READS);
        ok(reads(&client, 0, 0) && tries++ < 10);
    } while (metric_read(M_DISK_READS) > reads_before);    /* until it comes from memory */
    ok(metric_read(M_CACHE_READ_AHEAD) == ahead);
    cool();
    ok(reads(&client, 0, 0) && client.answer->source == GET_HIT);
    if (metric_read(M_DISK_READS) > reads_before) {    /* else this file system keeps its pages */
        ok(metric_read(M_CACHE_READ_AHEAD) > ahead);
        ahead = metric_read(M_CACHE_READ_AHEAD);
        cool();
        ok(reads(&client, 2 * MIB, 2 * MIB + 1000) && metric_read(M_CACHE_READ_AHEAD) == ahead);
        cool();
        ask(&client, 0, 0);
        ok(decided(&client) == OK && !read_some(&client, 1000));    /* it leaves in the middle */
        ok(metric_read(M_CACHE_READ_AHEAD) == ahead + 1);
    }
    client_end(&client);
    drop_house();
    house.cold_reads = COLD_BUFFERED;
}

/* Asks for a cold object, and takes its first piece; false: this file system keeps its pages. */
static bool begins_cold(struct client *client)
{
    uint64_t asked = metric_read(M_DISK_READS);
    cool();
    ask(client, 0, 0);
    ok(decided(client) == OK && !read_some(client, 1) && client->got == 262144);
    return metric_read(M_DISK_READS) > asked;
}

TEST(who_waits_for_the_disk_reads_further_ahead_and_who_does_not_reads_one_piece)
{
    house.cold_reads = COLD_DIRECT;    /* else the kernel reads ahead, too */
    new_house(3 * MIB + 77);
    struct client client;
    client_begin(&client);
    ok(reads(&client, 0, 0));
    settle(&client);
    if (begins_cold(&client)) {
        const struct read_ahead *ahead = &client.get->plan.ahead;
        unsigned waits = 0;
        slice bytes;
        ok(ahead->count == 1 && ahead->more == 0);
        while (client.got < 3 * MIB) {
            if (ahead->reads[ahead->first].op) {    /* two waits for one piece count once */
                ok(get_next(client.get, &bytes) == ERR_WAIT);
                ok(get_next(client.get, &bytes) == ERR_WAIT);
                waits++;
                ok(ahead->more == MIN(waits, AHEAD_READS - 1));
            }
            (void)read_some(&client, client.got + 1);
            ok(ahead->count <= ahead->more + 1);
        }
        ok(waits > 0 && read_some(&client, UINT64_MAX) && ahead->count == 0);
    }
    if (begins_cold(&client)) {
        const struct read_ahead *ahead = &client.get->plan.ahead;
        while (client.got < 3 * MIB) {
            ok(ahead->count == 1 && ahead->more == 0);
            while (ahead->reads[ahead->first].op)
                turn(&client);
            (void)read_some(&client, client.got + 1);
        }
        ok(read_some(&client, UINT64_MAX));
    }
    ok(atomic_load(&fake.gets) == 1);
    client_end(&client);
    drop_house();
    house.cold_reads = COLD_BUFFERED;
}

static void spoil_one_byte(const char *path, off_t at)
{
    uint8_t byte;
    int fd = open(path, O_RDWR);
    ok(fd >= 0 && pread(fd, &byte, 1, at) == 1);
    byte ^= 1;
    ok(pwrite(fd, &byte, 1, at) == 1);
    close(fd);
}

TEST(bytes_that_are_bad_are_fetched_and_what_was_read_ahead_behind_them_comes_after_them)
{
    house.cold_reads = COLD_DIRECT;    /* else the kernel reads ahead, too */
    new_house(3 * MIB + 77);
    struct client client;
    char path[128];
    client_begin(&client);
    ok(reads(&client, 0, 0));
    settle(&client);
    snprintf(path, sizeof(path), "%s/extents/00000001", house.folder);
    uint64_t bad = metric_read(M_STORE_CRC_BAD);
    spoil_one_byte(path, MIB + MIB / 2);
    if (begins_cold(&client)) {
        slice bytes;
        ok(get_next(client.get, &bytes) == ERR_WAIT);
        ok(read_some(&client, UINT64_MAX));
        ok(metric_read(M_STORE_CRC_BAD) > bad && atomic_load(&fake.gets) > 1);
#ifdef __SANITIZE_THREAD__
        uint64_t more = 2 * MIB;    /* the origin sends faster than the reader finds the rest */
#else
        uint64_t more = 262144;
#endif
        ok(atomic_load(&fake.bytes) <= 3 * MIB + 77 + more);    /* the rest is as good as before */
    }
    client_end(&client);
    drop_house();
    house.cold_reads = COLD_BUFFERED;
}

TEST(a_range_costs_its_units_and_no_more)
{
    new_house(64 * MIB);
    struct client client;
    client_begin(&client);
    ok(reads(&client, 5 * MIB + 1000, 5 * MIB + 1000 + 131072));
    ok(client.answer->partial);
    settle(&client);
    ok(atomic_load(&fake.bytes) == 262144);
    ok(reads(&client, 5 * MIB, 5 * MIB + 262144));
    ok(client.answer->source == GET_HIT && atomic_load(&fake.gets) == 1);
    ok(reads(&client, 4 * MIB, 6 * MIB));    /* the units in the middle are not fetched again */
    ok(client.answer->source != GET_HIT);
    settle(&client);
    ok(atomic_load(&fake.bytes) == 2 * MIB);
    client_end(&client);
    drop_house();
}

TEST(a_small_object_and_an_empty_one_are_kept_whole)
{
    new_house(5000);
    struct client client;
    client_begin(&client);
    for (int i = 0; i < 2; i++) {
        atomic_store(&fake.size, i ? 0 : 5000);
        atomic_store(&fake.gets, 0);
        house.rules.freshness = FRESH_IMMUTABLE;
        ask(&client, 0, 0);
        ok(decided(&client) == OK && (i == 1 || read_some(&client, UINT64_MAX)));
        settle(&client);
        for (int wait = 0; i == 1 && wait < 20; wait++)
            turn(&client);
        ask(&client, 0, 0);
        ok(decided(&client) == OK && client.answer->source == GET_HIT);
        ok(atomic_load(&fake.gets) == 1);
        client_end(&client);
        drop_house();
        if (i == 0) {
            new_house(0);
            client_begin(&client);
        }
    }
}

TEST(a_body_that_is_cut_goes_on_behind_the_last_byte)
{
    new_house(5 * MIB);
    struct client client;
    client_begin(&client);
    atomic_store(&fake.cut_every, 700000);
    ok(reads(&client, 0, 0));
    ok(atomic_load(&fake.gets) > 5 && atomic_load(&fake.bytes) == 5 * MIB);
    client_end(&client);
    drop_house();
}

TEST(a_version_that_changes_midway_is_never_mixed)
{
    new_house(8 * MIB);
    struct client client;
    client_begin(&client);
    ok(reads(&client, 0, 2 * MIB));
    settle(&client);
    atomic_store(&fake.version, 2);
    ask(&client, 1 * MIB, 4 * MIB);    /* warm at its start, cold behind */
    ok(decided(&client) == OK);
    ok(!read_some(&client, UINT64_MAX) && client.err == ERR_CHANGED);
    client.version = 2;
    ask(&client, 3 * MIB, 4 * MIB);    /* cold at its start: begins again with the new version */
    ok(decided(&client) == OK && read_some(&client, UINT64_MAX));
    client_end(&client);
    drop_house();
}

TEST(an_origin_that_ignores_if_match_is_not_believed)
{
    new_house(8 * MIB);
    struct client client;
    client_begin(&client);
    ok(reads(&client, 0, 2 * MIB));
    settle(&client);
    atomic_store(&fake.version, 2);
    atomic_store(&fake.ignore_if_match, true);
    ask(&client, 1 * MIB, 4 * MIB);
    ok(decided(&client) == OK);
    ok(!read_some(&client, UINT64_MAX) && client.err == ERR_CHANGED);
    client_end(&client);
    drop_house();
}

/* Without a strong ETag nothing says that two answers are of one version. */
static void nothing_is_mixed(const char *etag)
{
    struct client first, second;
    new_house(8 * MIB);
    atomic_store(&fake.etag, etag);
    client_begin(&first);
    client_begin(&second);
    ask(&first, 0, 0);
    ok(decided(&first) == OK && !read_some(&first, 3 * MIB));
    atomic_store(&fake.version, 2);
    ask(&second, 0, 0);    /* what went by is gone, and the rest is of the first version */
    ok(decided(&second) == OK);
    second.version = second.answer->metadata == first.answer->metadata ? 1 : 2;
    ok(read_some(&second, UINT64_MAX) || second.version == 1);
    second.version = 2;
    ok(reads(&second, 1 * MIB, 2 * MIB) && reads(&second, 5 * MIB, 6 * MIB));
    ok(read_some(&first, UINT64_MAX) || first.err == ERR_CHANGED);
    get_end(&first.get);
    settle(&second);
    ok(reads(&second, 0, 0) && second.answer->source == GET_MISS);    /* nor is it kept */
    client_end(&first);
    client_end(&second);
    drop_house();
}

TEST(an_origin_without_etags_is_streamed_and_never_mixed)
{
    nothing_is_mixed("");
}

TEST(a_weak_etag_is_as_good_as_none)
{
    nothing_is_mixed("W/");
}

TEST(a_condition_on_a_version_without_a_name_is_answered)
{
    struct client client;
    new_house(3 * MIB);
    atomic_store(&fake.etag, "");
    client_begin(&client);
    house.if_modified_since = 1;
    ask(&client, 0, 0);
    ok(decided(&client) == OK && read_some(&client, UINT64_MAX));
    client_end(&client);
    drop_house();
}

TEST(who_asks_for_the_newest_does_not_join_what_was_asked_for_before)
{
    struct client first, second;
    new_house(2 * MIB);
    house.rules.freshness = FRESH_ALWAYS;
    client_begin(&first);
    client_begin(&second);
    atomic_store(&fake.held, true);
    ask(&first, 0, 0);
    ok(get_decide(first.get, &first.answer) == ERR_WAIT && atomic_load(&fake.gets) == 1);
    atomic_store(&fake.version, 2);
    ask(&second, 0, 0);
    ok(get_decide(second.get, &second.answer) == ERR_WAIT);
    atomic_store(&fake.held, false);
    ok(decided(&second) == OK);
    second.version = 2;
    ok(read_some(&second, UINT64_MAX));
    client_end(&first);
    client_end(&second);
    drop_house();
}

TEST(a_write_takes_what_was_kept_and_what_was_on_its_way)
{
    new_house(2 * MIB);
    struct client client, other;
    client_begin(&client);
    client_begin(&other);
    ok(reads(&client, 0, 0));
    settle(&client);
    struct write_key key = { S("key"), S("") };
    struct write *write = write_begin(client.loop, &house.rules, S("bucket"), &key, 1, noted, NULL);
    while (!write_may_go(write))
        turn(&client);
    ask(&other, 0, 0);    /* a fill that begins while the write is under way sees the old version */
    ok(decided(&other) == OK);
    atomic_store(&fake.version, 2);
    write_end(&write);
    client.version = 2;
    ok(reads(&client, 0, 0));
    ok(read_some(&other, UINT64_MAX));    /* it was asked before the write was answered */
    get_end(&other.get);
    settle(&client);
    ok(reads(&client, 0, 0));
    ok(client.answer->source == GET_HIT);
    client_end(&client);
    client_end(&other);
    drop_house();
}

TEST(of_two_writes_of_a_key_the_one_that_began_later_is_the_latest)
{
    new_house(MIB);
    struct client client;
    struct arena keep = { 0 };
    client_begin(&client);
    struct write_key keys[] = { { S("key"), S("") }, { S("another"), S("") } };
    struct write *one = write_begin(client.loop, &house.rules, S("bucket"), keys, 2, noted, NULL);
    struct write_order first = write_order(one, &keep);
    ok(write_is_latest(&first));
    struct write *two = write_begin(client.loop, &house.rules, S("bucket"), keys, 1, noted, NULL);
    struct write_order second = write_order(two, &keep);
    ok(!write_is_latest(&first) && write_is_latest(&second));
    write_end(&one);    /* an end changes nothing of it */
    ok(write_is_latest(&second));
    write_end(&two);
    ok(!write_is_latest(&first) && write_is_latest(&second));
    arena_free(&keep);
    client_end(&client);
    drop_house();
}

TEST(an_origin_that_is_down_is_a_clear_refusal)
{
    new_house(2 * MIB);
    struct client client;
    client_begin(&client);
    atomic_store(&fake.down, true);
    ask(&client, 0, 0);
    ok(decided(&client) == ERR_ORIGIN_CONNECT);
    atomic_store(&fake.down, false);
    ok(reads(&client, 0, 0));
    client_end(&client);
    drop_house();
}

/* No question of ours has a condition that these could answer. */
TEST(an_answer_that_makes_no_sense_is_never_handed_on)
{
    static const int statuses[] = { 204, 205, 304 };
    new_house(2 * MIB);
    struct client client;
    client_begin(&client);
    for (size_t i = 0; i < countof(statuses); i++) {
        atomic_store(&fake.status, statuses[i]);
        ask(&client, 0, i);
        ok(decided(&client) == ERR_ORIGIN_REPLY && client.answer->refusal->status == 0);
    }
    atomic_store(&fake.status, 0);
    ok(reads(&client, 0, 0));
    client_end(&client);
    drop_house();
}

TEST(what_was_read_is_there_after_a_restart)
{
    new_house(3 * MIB);
    struct client client;
    client_begin(&client);
    ok(reads(&client, 0, 0));
    settle(&client);
    client_end(&client);
    close_house();
    open_house(3 * MIB);
    client_begin(&client);
    ok(reads(&client, 0, 0));
    ok(client.answer->source == GET_HIT && atomic_load(&fake.gets) == 0);
    client_end(&client);
    drop_house();
}

TEST(a_stale_copy_is_served_while_one_question_is_asked)
{
    new_house(1 * MIB);
    struct client client;
    client_begin(&client);
    house.rules = (struct rules){ .origin = &house.origin, .freshness = FRESH_TTL, .ttl_s = 60,
                                  .grace_s = 60 };
    ok(reads(&client, 0, 0));
    atomic_store(&((struct metadata *)(uintptr_t)client.answer->metadata)->validated_s,
                 ageing_s() - 100);
    settle(&client);
    atomic_store(&fake.version, 2);
    atomic_store(&fake.held, true);
    for (int i = 0; i < 20; i++) {
        ok(reads(&client, 0, 0));
        ok(client.answer->source == GET_STALE);
    }
    ok(atomic_load(&fake.heads) == 1);
    atomic_store(&fake.held, false);
    for (int i = 0; i < 50 && client.loop->background_count; i++)
        turn(&client);
    ok(client.loop->background_count == 0);
    client.version = 2;
    for (int i = 0; i < 20; i++)    /* its head is on its way to the store */
        turn(&client);
    ok(reads(&client, 0, 0) && client.answer->source == GET_MISS);
    client_end(&client);
    drop_house();
}

TEST(a_wall_clock_that_is_set_back_makes_no_copy_fresh)
{
    new_house(1 * MIB);
    struct client client;
    client_begin(&client);
    house.rules = (struct rules){ .origin = &house.origin, .freshness = FRESH_TTL, .ttl_s = 60 };
    ok(reads(&client, 0, 0));
    atomic_store(&((struct metadata *)(uintptr_t)client.answer->metadata)->validated_s,
                 ageing_s() - 100);
    settle(&client);
    atomic_store(&wall_ahead_s, -70);
    unsigned heads = atomic_load(&fake.heads);
    ok(reads(&client, 0, 0) && client.answer->source == GET_REVALIDATED);
    ok(atomic_load(&fake.heads) == heads + 1);
    atomic_store(&wall_ahead_s, 0);
    client_end(&client);
    drop_house();
}

/* ---- many at once ---- */

struct crowd {
    pthread_t thread;
    unsigned number;
    uint64_t patience;    /* leaves after so many bytes */
};

static void *crowd_reads(void *arg)
{
    struct crowd *mine = arg;
    struct client client;
    client_begin(&client);
    ask(&client, 0, 0);
    check(decided(&client) == OK);
    read_some(&client, mine->patience);
    check(client.err == OK);
    client_end(&client);
    return NULL;
}

static void crowd_run(struct crowd *crowd, size_t count, uint64_t patience_of_first)
{
    atomic_store(&fake.held, true);
    for (size_t i = 0; i < count; i++) {
        crowd[i] = (struct crowd){ .number = (unsigned)i,
                                   .patience = i == 0 ? patience_of_first : UINT64_MAX };
        ok(pthread_create(&crowd[i].thread, NULL, crowd_reads, &crowd[i]) == 0);
    }
    usleep(50000);
    atomic_store(&fake.held, false);
    for (size_t i = 0; i < count; i++)
        pthread_join(crowd[i].thread, NULL);
}

TEST(a_crowd_on_one_cold_object_fetches_no_byte_twice)
{
    struct crowd crowd[16];
    new_house(8 * MIB + 5);    /* with more, the window may open (window.c) */
    crowd_run(crowd, countof(crowd), UINT64_MAX);
    ok(atomic_load(&fake.gets) == 1);
    ok(atomic_load(&fake.bytes) == 8 * MIB + 5);
    drop_house();
}

TEST(a_leader_that_leaves_changes_nothing_for_the_others)
{
    struct crowd crowd[8];
    new_house(8 * MIB);
    crowd_run(crowd, countof(crowd), 100000);
    ok(atomic_load(&fake.gets) == 1 && atomic_load(&fake.bytes) == 8 * MIB);
    drop_house();
}

TEST(the_last_to_leave_lets_the_record_under_way_end)
{
    new_house(12 * MIB);
    struct client client;
    client_begin(&client);
    ask(&client, 0, 0);
    ok(decided(&client) == OK);
    read_some(&client, 10000);
    get_end(&client.get);
    settle(&client);
    uint64_t cost = atomic_load(&fake.bytes);
    ok(cost >= 1 * MIB && cost < 12 * MIB);
    ok(reads(&client, 0, 1 * MIB));
    ok(client.answer->source == GET_HIT);
    client_end(&client);
    drop_house();
}

TEST(who_has_read_all_of_it_leaves_the_answer_to_its_end)
{
    for (uint64_t size = 0; size <= 5000; size += 5000) {
        struct client client;
        new_house(size);
        client_begin(&client);
        atomic_store(&fake.ends_held, true);
        ask(&client, 0, 0);
        ok(decided(&client) == OK && (size == 0 || read_some(&client, UINT64_MAX)));
        get_end(&client.get);
        turn(&client);
        atomic_store(&fake.ends_held, false);
        client_end(&client);
        drop_house();
        ok(atomic_load(&fake.late_cancels) == 0);
    }
}

/* A reader that waits: of the bytes, or, where it says a date, of what a HEAD will say. */
static void waits(struct client *client, bool for_head)
{
    house.if_modified_since = for_head ? 0 : -1;    /* older than all there is */
    ask(client, 0, 0);
    ok(get_decide(client->get, &client->answer) == ERR_WAIT);
}

static unsigned asked_for(bool by_head)
{
    return atomic_load(by_head ? &fake.heads : &fake.gets);
}

TEST(what_nobody_waits_for_any_more_is_not_asked_for)
{
    for (int heads = 0; heads < 2; heads++) {
        struct client client;
        new_house(5000);
        client_begin(&client);
        atomic_store(&fake.queued, true);
        waits(&client, heads);
        settle(&client);
        ok(asked_for(heads) == 1 && atomic_load(&fake.unsent) == 1);
        atomic_store(&fake.queued, false);
        ok(reads(&client, 0, 0) && asked_for(heads) == 2 && atomic_load(&fake.unsent) == 1);
        client_end(&client);
        drop_house();
    }
}

TEST(what_one_of_two_still_waits_for_is_asked_for_once)
{
    for (int heads = 0; heads < 2; heads++) {
        struct client first, second;
        new_house(5000);
        client_begin(&first);
        client_begin(&second);
        atomic_store(&fake.queued, true);
        waits(&first, heads);
        waits(&second, heads);
        get_end(&first.get);
        usleep(20000);
        atomic_store(&fake.queued, false);
        ok(decided(&second) == OK && read_some(&second, UINT64_MAX));
        ok(asked_for(heads) == 1 && atomic_load(&fake.unsent) == 0);
        client_end(&first);
        client_end(&second);
        drop_house();
    }
}

TEST(what_was_sent_is_stored_although_nobody_waits)
{
    struct client client;
    new_house(5000);
    client_begin(&client);
    atomic_store(&fake.held, true);
    waits(&client, false);
    while (!atomic_load(&fake.sent))
        usleep(1000);
    get_end(&client.get);
    usleep(20000);
    atomic_store(&fake.held, false);
    settle(&client);
    ok(reads(&client, 0, 0) && client.answer->source == GET_HIT && atomic_load(&fake.gets) == 1);
    client_end(&client);
    drop_house();
}

struct passer_by {
    struct client client;
    atomic_uint round;            /* objects have a name each */
};

static void is_begun(struct client *client)
{
    enum err err = get_decide(client->get, &client->answer);
    check(err == OK || err == ERR_WAIT);
}

static void *come_and_go(void *arg)
{
    struct passer_by *mine = arg;
    client_begin(&mine->client);
    for (unsigned round, seen = 0; (round = atomic_load(&mine->round)) < UINT32_MAX;) {
        char key[20];
        if (round == seen)
            continue;
        snprintf(key, sizeof(key), "key%u", seen = round);
        ask_for(&mine->client, key, 0, 0);
        is_begun(&mine->client);
        get_end(&mine->client.get);
    }
    client_end(&mine->client);
    return NULL;
}

TEST(who_comes_while_another_goes_is_answered)
{
    struct passer_by other = { .round = 0 };
    struct client client;
    pthread_t thread;
    new_house(5000);
    client_begin(&client);
    ok(pthread_create(&thread, NULL, come_and_go, &other) == 0);
    for (unsigned round = 1; round <= rounds_of(2000, 500); round++) {
        char key[20];
        snprintf(key, sizeof(key), "key%u", round);
        atomic_store(&fake.queued, round % 2);
        atomic_store(&other.round, round);
        for (unsigned spin = 0; spin < round % 97 * 40; spin++)
            atomic_load(&other.round);
        ask_for(&client, key, 0, 0);
        is_begun(&client);
        atomic_store(&fake.queued, false);
        ok(decided(&client) == OK && read_some(&client, UINT64_MAX));
    }
    atomic_store(&other.round, UINT32_MAX);
    pthread_join(thread, NULL);
    client_end(&client);
    drop_house();
}

static void *ranges(void *arg)
{
    struct crowd *mine = arg;
    struct client client;
    unsigned seed = mine->number * 7919 + 1;
    client_begin(&client);
    for (int i = 0; i < 40; i++) {
        uint64_t first = (uint64_t)rand_r(&seed) % (20 * MIB);
        uint64_t end = first + 1 + (uint64_t)rand_r(&seed) % (3 * MIB);
        ask(&client, first, end);
        check(decided(&client) == OK);
        if (rand_r(&seed) % 4)
            check(read_some(&client, UINT64_MAX));
        else
            read_some(&client, (uint64_t)rand_r(&seed) % MIB);
    }
    client_end(&client);
    return NULL;
}

TEST(random_ranges_by_many_are_right_while_the_origin_cuts)
{
    struct crowd crowd[6];
    new_house(20 * MIB + 12345);
    atomic_store(&fake.cut_every, 2500000);
    for (unsigned i = 0; i < countof(crowd); i++) {
        crowd[i].number = i;
        ok(pthread_create(&crowd[i].thread, NULL, ranges, &crowd[i]) == 0);
    }
    for (unsigned i = 0; i < countof(crowd); i++)
        pthread_join(crowd[i].thread, NULL);
    drop_house();
}

static void stop_reading_and_look(uint64_t size, bool no_store)
{
    enum { STALLED = 40 };
    static struct client stalled[STALLED];
    struct client client;
    char keys[STALLED][8];
    new_house(size);    /* 16 slots of 1 MiB in all */
    atomic_store(&fake.no_store, no_store);
    for (int i = 0; i < STALLED; i++) {
        snprintf(keys[i], sizeof(keys[i]), "s%d", i);
        client_begin(&stalled[i]);
        ask_for(&stalled[i], keys[i], 0, 0);
        ok(decided(&stalled[i]) == OK);
        read_some(&stalled[i], 1);    /* and takes no more */
    }
    client_begin(&client);
    for (int i = 0; i < 3; i++) {
        ask_for(&client, i ? "late" : "later", 0, 0);
        ok(decided(&client) == OK && read_some(&client, UINT64_MAX));
    }
    client_end(&client);
    for (int i = 0; i < STALLED; i++) {
        ok(read_some(&stalled[i], UINT64_MAX));
        client_end(&stalled[i]);
    }
    drop_house();
}

TEST(readers_who_stop_reading_hold_no_slot)
{
    stop_reading_and_look(3 * MIB, false);
}

TEST(nor_do_those_of_a_stream_that_is_not_stored)
{
    stop_reading_and_look(3 * MIB, true);     /* its fetch is over before they are */
    stop_reading_and_look(12 * MIB, true);    /* ... and waits for them */
}

/* Two readers of one stream, the second far behind; both get every byte. */
static unsigned gets_in_a_crowd(const char *etag)
{
    struct client fast, slow;
    new_house(12 * MIB + 12345);
    atomic_store(&fake.no_store, true);
    atomic_store(&fake.crowded, true);
    atomic_store(&fake.etag, etag);
    client_begin(&fast);
    client_begin(&slow);
    ask(&fast, 0, 0);
    ok(decided(&fast) == OK);
    if (!etag) {
        ask(&slow, 0, 0);
        ok(decided(&slow) == OK);
    }
    for (uint64_t most = 100000; !read_some(&fast, most); most += 700000) {
        ok(fast.err == OK);
        if (!etag)
            read_some(&slow, most / 2);
    }
    ok(etag || read_some(&slow, UINT64_MAX));
    client_end(&fast);
    client_end(&slow);
    unsigned gets = atomic_load(&fake.gets) - atomic_load(&fake.unsent);
    drop_house();
    return gets;
}

TEST(a_paced_stream_that_lost_its_connection_goes_on_where_it_was)
{
    unsigned gets = 0;
    for (int tries = 0; tries < 20 && gets <= 2; tries++)    /* how many are lost is chance */
        gets = gets_in_a_crowd(NULL);
    ok(gets > 2 && gets <= 2 * (12 / 2 + 1));    /* each brings more than 2 MiB */
    ok(gets_in_a_crowd("W/") == 1 && gets_in_a_crowd("") == 1);    /* others can't: they keep it */
}

TEST(a_slot_that_somebody_does_not_need_any_more_goes_to_the_next)
{
    new_house(MIB);
    struct flights *flights = flights_new(house.cache, 2 * MIB);
    struct object_id id = { { 1 } };
    struct object_name name = { S("http://fake"), S("bucket"), S("key"), S("") };
    struct fetch has = { 0 }, leaves = { 0 }, waits = { 0 };
    struct fetch *all[] = { &has, &leaves, &waits };
    for (size_t i = 0; i < countof(all); i++)
        list_init(&all[i]->slot.link);
    struct metadata *metadata = metadata_new(&id, &name, S("\"e\""), S(""), 8 * MIB, 0, true);
    flights_lock(flights, &id);
    struct inflight *inflight = inflight_get(flights, &id, &name, &(struct rules){ 0 });
    struct flight *first = flight_new(inflight, &has, metadata, 0, MIB);
    struct flight *second = flight_new(inflight, &has, metadata, MIB, MIB);
    ok(first && second && !flight_new(inflight, &leaves, metadata, 2 * MIB, MIB) &&
       !flight_new(inflight, &waits, metadata, 3 * MIB, MIB));
    flight_unref(&first);
    ok(list_empty(&leaves.slot.link) && !list_empty(&waits.slot.link));    /* its turn ... */
    slots_forget(flights, &leaves);
    ok(list_empty(&waits.slot.link));    /* ... is the next one's */
    first = flight_new(inflight, &waits, metadata, 3 * MIB, MIB);
    ok(first);
    flight_unref(&first);
    flight_unref(&second);
    inflight_unref(&inflight);
    flights_unlock(flights, &id);
    metadata_unref(&metadata);
    flights_free(&flights);
    drop_house();
}

TEST(a_refusal_at_the_first_byte_is_freed)
{
    new_house(3 * MIB);
    struct client client;
    client_begin(&client);
    ok(reads(&client, 0, 1));
    settle(&client);
    atomic_store(&fake.down, true);
    ask(&client, 2 * MIB, 3 * MIB);
    ok(decided(&client) != OK && client.answer->refusal);
    ok(atomic_load(&client.answer->refusal->refs) == 2);    /* ours, and the fetch's */
    client_end(&client);
    drop_house();
}

RUN(cmocka_unit_test(readers_who_stop_reading_hold_no_slot),
    cmocka_unit_test(nor_do_those_of_a_stream_that_is_not_stored),
    cmocka_unit_test(a_paced_stream_that_lost_its_connection_goes_on_where_it_was),
    cmocka_unit_test(a_slot_that_somebody_does_not_need_any_more_goes_to_the_next),
    cmocka_unit_test(a_refusal_at_the_first_byte_is_freed),
    cmocka_unit_test(a_second_read_asks_the_origin_for_nothing),
    cmocka_unit_test(what_the_disk_must_bring_is_read_ahead_by_a_piece),
    cmocka_unit_test(who_waits_for_the_disk_reads_further_ahead_and_who_does_not_reads_one_piece),
    cmocka_unit_test(bytes_that_are_bad_are_fetched_and_what_was_read_ahead_behind_them_comes_after_them),
    cmocka_unit_test(a_range_costs_its_units_and_no_more),
    cmocka_unit_test(what_is_here_is_read_straight_to_where_it_is_wanted),
    cmocka_unit_test(an_answer_that_does_not_fit_is_refused_before_any_byte),
    cmocka_unit_test(memory_that_can_not_be_written_is_the_readers_own_trouble),
    cmocka_unit_test(a_small_object_and_an_empty_one_are_kept_whole),
    cmocka_unit_test(a_body_that_is_cut_goes_on_behind_the_last_byte),
    cmocka_unit_test(a_version_that_changes_midway_is_never_mixed),
    cmocka_unit_test(an_origin_that_ignores_if_match_is_not_believed),
    cmocka_unit_test(an_origin_without_etags_is_streamed_and_never_mixed),
    cmocka_unit_test(a_weak_etag_is_as_good_as_none),
    cmocka_unit_test(a_condition_on_a_version_without_a_name_is_answered),
    cmocka_unit_test(who_asks_for_the_newest_does_not_join_what_was_asked_for_before),
    cmocka_unit_test(a_write_takes_what_was_kept_and_what_was_on_its_way),
    cmocka_unit_test(of_two_writes_of_a_key_the_one_that_began_later_is_the_latest),
    cmocka_unit_test(an_origin_that_is_down_is_a_clear_refusal),
    cmocka_unit_test(an_answer_that_makes_no_sense_is_never_handed_on),
    cmocka_unit_test(what_was_read_is_there_after_a_restart),
    cmocka_unit_test(a_stale_copy_is_served_while_one_question_is_asked),
    cmocka_unit_test(a_wall_clock_that_is_set_back_makes_no_copy_fresh),
    cmocka_unit_test(a_crowd_on_one_cold_object_fetches_no_byte_twice),
    cmocka_unit_test(a_leader_that_leaves_changes_nothing_for_the_others),
    cmocka_unit_test(the_last_to_leave_lets_the_record_under_way_end),
    cmocka_unit_test(who_has_read_all_of_it_leaves_the_answer_to_its_end),
    cmocka_unit_test(what_nobody_waits_for_any_more_is_not_asked_for),
    cmocka_unit_test(what_one_of_two_still_waits_for_is_asked_for_once),
    cmocka_unit_test(what_was_sent_is_stored_although_nobody_waits),
    cmocka_unit_test(who_comes_while_another_goes_is_answered),
    cmocka_unit_test(random_ranges_by_many_are_right_while_the_origin_cuts))
