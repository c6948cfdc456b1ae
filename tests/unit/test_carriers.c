/* test_carriers.c - a reply stays whole until its client has it. SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "local/carriers.h"

#define MINUTE 60000u

static bool is_whole(int fd)
{
    struct stat file;
    ok(fstat(fd, &file) == 0);
    return file.st_size == 5;
}

/* The client's descriptor of a reply, as SCM_RIGHTS would have made it. */
static int sent(struct carriers *carriers, uint64_t now_ms)
{
    int carrier = carrier_new(S("reply")), theirs = dup(carrier);
    ok(carrier >= 0 && theirs >= 0);
    carriers_keep(carriers, carrier, now_ms);
    return theirs;
}

TEST(a_reply_is_emptied_when_four_later_ones_were_sent)
{
    struct carriers carriers = { 0 };
    int first = sent(&carriers, 1000);
    int others[CARRIERS_KEPT];
    for (size_t i = 0; i < CARRIERS_KEPT - 1; i++)
        others[i] = sent(&carriers, 1000);
    ok(is_whole(first));
    others[CARRIERS_KEPT - 1] = sent(&carriers, 1000);
    ok(!is_whole(first));
    for (size_t i = 0; i < CARRIERS_KEPT; i++)
        ok(is_whole(others[i]) && close(others[i]) == 0);
    carriers_end(&carriers, true);
    close(first);
}

TEST(a_reply_that_is_not_received_outlives_its_minute)
{
    struct carriers carriers = { 0 };
    int ends[2];
    char message[8];
    ok(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
    int reply = sent(&carriers, 1000);
    ok(send(ends[0], "reply", 5, 0) == 5);
    carriers_expire(&carriers, ends[0], 1000 + MINUTE);
    ok(is_whole(reply));
    ok(carriers_next_ms(&carriers) == 1000 + 2 * MINUTE);
    ok(recv(ends[1], message, sizeof(message), 0) == 5);
    carriers_expire(&carriers, ends[0], 1000 + 2 * MINUTE - 1);
    ok(is_whole(reply));
    carriers_expire(&carriers, ends[0], 1000 + 2 * MINUTE);
    ok(!is_whole(reply));
    ok(carriers_next_ms(&carriers) == UINT64_MAX);
    close(reply);
    close(ends[0]);
    close(ends[1]);
}

TEST(a_socket_has_room_for_fewer_long_messages_than_are_kept)
{
    static char message[65536 + 64];    /* as a long reply is announced (session.c) */
    int ends[2], large = 4 << 20;
    unsigned taken = 0;
    ok(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
    setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &large, sizeof(large));    /* a machine's default */
    carriers_socket(ends[0]);
    while (send(ends[0], message, sizeof(message), MSG_DONTWAIT) > 0)
        taken++;
    ok(taken > 0 && taken + 1 <= CARRIERS_KEPT);    /* and one that the client is reading */
    close(ends[0]);
    close(ends[1]);
}

RUN(cmocka_unit_test(a_reply_is_emptied_when_four_later_ones_were_sent),
    cmocka_unit_test(a_reply_that_is_not_received_outlives_its_minute),
    cmocka_unit_test(a_socket_has_room_for_fewer_long_messages_than_are_kept))
