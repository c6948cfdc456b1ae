/* test_http_body.c - where bodies lie and what room they get, without a socket.
 * SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <sched.h>

#include "http/body.c"

static atomic_uint refused;

void gate_refuse(struct conn *conn, enum err err, const char *why)
{
    (void)conn;
    (void)why;
    ok(err == ERR_LIMIT);
    atomic_fetch_add(&refused, 1);
}

static const char *no_disk(void *arg, const char *in, uint64_t bytes)
{
    (void)arg;
    ok(bytes > 0 && !in);
    return NULL;
}

/* ---- a body of a client, on a loop ---- */

struct upload {
    struct http_loop loop;
    struct http_request request;
    struct conn conn;
};

static void upload_init(struct upload *upload, struct http *http, unsigned client)
{
    memset(upload, 0, sizeof(*upload));
    upload->loop.http = http;
    upload->request.body.client = client;
    upload->request.body.bytes_max = 64 * MIB;
    upload->conn.loop = &upload->loop;
    upload->conn.request = &upload->request;
}

static bool begin(struct upload *upload, struct http *http, unsigned client, size_t bytes)
{
    upload_init(upload, http, client);
    return body_begin(&upload->conn, S("first"), bytes);
}

/* As its bytes come: in memory they are counted, no more. */
static bool grow_to(struct upload *upload, size_t bytes)
{
    struct http_body *body = upload->request.body.content;
    while (body->bytes < bytes) {
        if (!body_make_room(&upload->conn, body->bytes + BODY_READ_BYTES))
            return false;
        body_grow(body, BODY_READ_BYTES);
    }
    return true;
}

TEST(the_only_body_of_a_client_grows_beyond_half_of_the_memory_and_no_further_than_all)
{
    struct http http = { .options.bodies = { .body_memory_bytes = 64 * MIB,
                                             .memory_bytes = 8 * MIB, .spill_folder = no_disk } };
    struct upload upload, second;
    atomic_store(&refused, 0);
    ok(begin(&upload, &http, 7, 64 * KIB));
    ok(grow_to(&upload, 3500 * KIB));    /* beside its copy while it moves: 7 MiB */
    ok(!begin(&second, &http, 7, 4 * MIB));
    ok(atomic_load(&refused) == 1);
    http_body_release(&second.request.body.content);
    ok(!grow_to(&upload, 9 * MIB));
    ok(atomic_load(&refused) == 2);
    http_body_release(&upload.request.body.content);
    ok(all_hold[ROOM_MEMORY] == 0 && clients_hold[1 + 7][ROOM_MEMORY] == 0);
}

TEST(a_growing_body_gets_the_room_that_is_left_when_twice_its_own_is_not)
{
    struct http http = { .options.bodies = { .body_memory_bytes = 64 * MIB,
                                             .memory_bytes = 8 * MIB, .spill_folder = no_disk } };
    struct upload other, upload;
    ok(begin(&other, &http, 1, 3 * MIB));
    ok(begin(&upload, &http, 2, 64 * KIB));
    ok(grow_to(&upload, 2300 * KIB));    /* beside its copy, which is as large: 5 MiB are free */
    http_body_release(&other.request.body.content);
    http_body_release(&upload.request.body.content);
}

/* ---- two loops at once ---- */

enum { ROUNDS = 20000 };

struct rival {
    struct http *http;
    pthread_t thread;
    size_t bytes;
    unsigned client, got;
};

static atomic_uint arrived;

/* A barrier that spins, so that both go on in the same instant. */
static void meet(unsigned nth)
{
    atomic_fetch_add(&arrived, 1);
    for (unsigned spins = 0; atomic_load(&arrived) < 2 * nth; spins++)
        if (spins > 10000)
            sched_yield();
}

static void *compete(void *arg)
{
    struct rival *rival = arg;
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct upload upload;
        meet(2 * i + 1);
        rival->got += begin(&upload, rival->http, rival->client, rival->bytes);
        meet(2 * i + 2);
        http_body_release(&upload.request.body.content);
    }
    return NULL;
}

TEST(a_body_too_large_does_not_have_another_refused_that_comes_at_the_same_time)
{
    struct http http = { .options.bodies = { .body_memory_bytes = 64 * MIB,
                                             .memory_bytes = 32 * KIB, .spill_folder = no_disk } };
    struct rival rivals[] = { { &http, 0, 33 * KIB, 1, 0 }, { &http, 0, 32 * KIB, 2, 0 } };
    atomic_store(&arrived, 0);
    for (size_t i = 0; i < countof(rivals); i++)
        ok(thread_start(&rivals[i].thread, compete, &rivals[i], "rival-%zu", i));
    for (size_t i = 0; i < countof(rivals); i++)
        pthread_join(rivals[i].thread, NULL);
    assert_int_equal(rivals[0].got, 0);
    assert_int_equal(rivals[1].got, ROUNDS);
    ok(all_hold[ROOM_MEMORY] == 0 && clients_hold[1 + 1][ROOM_MEMORY] == 0);
}

/* ---- a loop reads a file ---- */

TEST(a_loop_gets_the_bytes_of_a_file_that_are_in_memory_and_waits_for_none)
{
    char path[] = "body.XXXXXX", text[32];
    struct http_body body = { .room = 9, .bytes = 9, .front = 4, .memory = (char *)"in m" };
    body.fd = mkstemp(path);
    ok(body.fd >= 0 && unlink(path) == 0);
    ok(http_body_write(&body, 4, (char *)"emory", 5));
    ok(http_body_read_now(&body, 0, text, 9));
    same(((slice){ text, 9 }), S("in memory"));
    ok(fsync(body.fd) == 0 && posix_fadvise(body.fd, 0, 0, POSIX_FADV_DONTNEED) == 0);
    bool again = http_body_read_now(&body, 0, text, 9);
    ok(http_body_read(&body, 0, text, 9) && http_body_read_now(&body, 0, text, 9));
    same(((slice){ text, 9 }), S("in memory"));
    close(body.fd);
    if (again)
        skip();    /* this file system keeps its bytes in memory */
}

RUN(cmocka_unit_test(the_only_body_of_a_client_grows_beyond_half_of_the_memory_and_no_further_than_all),
    cmocka_unit_test(a_growing_body_gets_the_room_that_is_left_when_twice_its_own_is_not),
    cmocka_unit_test(a_body_too_large_does_not_have_another_refused_that_comes_at_the_same_time),
    cmocka_unit_test(a_loop_gets_the_bytes_of_a_file_that_are_in_memory_and_waits_for_none))
