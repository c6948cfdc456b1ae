/* gpu_peer.c - the trainer of gpu_check, in a process of its own.
 * SPDX-License-Identifier: Apache-2.0
 *
 * One packet asks, one answers; descriptors ride along. A process of its own, started anew and not
 * forked on: CUDA survives no fork, and a legacy handle can't be opened where it was made. */
#include "local/gpu_peer.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void become_peer(int socket, bool own_namespace)
{
    char number[16];
    if (own_namespace) {
        if (unshare(CLONE_NEWPID) != 0)
            _exit(1);
        pid_t child = fork();
        if (child != 0) {
            close(socket);
            waitpid(child, NULL, 0);
            _exit(0);
        }
    }
    snprintf(number, sizeof(number), "%d", socket);
    execl("/proc/self/exe", "gpu_check", "--peer", number, (char *)NULL);
    _exit(1);
}

bool peer_start(struct peer *ret, bool own_namespace)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0)
        return false;
    ret->pid = fork();
    if (ret->pid == 0) {
        close(ends[0]);
        become_peer(ends[1], own_namespace);
    }
    close(ends[1]);
    ret->socket = ends[0];
    return ret->pid > 0;
}

void peer_end(struct peer *peer, int signal)
{
    if (!peer->pid)
        return;
    if (signal)
        kill(peer->pid, signal);
    close(peer->socket);
    waitpid(peer->pid, NULL, 0);
    peer->pid = 0;
}

static bool send_answer(int socket, struct peer_answer *answer, size_t fds)
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int) * CLIENT_CHUNKS)];
    } control = { .bytes = { 0 } };
    struct iovec data = { answer, sizeof(*answer) };
    struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1 };
    if (fds) {
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(sizeof(int) * fds);
        control.head = (struct cmsghdr){ CMSG_LEN(sizeof(int) * fds), SOL_SOCKET, SCM_RIGHTS };
        memcpy(CMSG_DATA(&control.head), answer->shared.fds, sizeof(int) * fds);
    }
    return sendmsg(socket, &message, MSG_NOSIGNAL) == sizeof(*answer);
}

bool peer_call(struct peer *peer, struct peer_ask ask, struct peer_answer *ret)
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int) * CLIENT_CHUNKS)];
    } control = { .bytes = { 0 } };
    struct iovec data = { ret, sizeof(*ret) };
    struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control,
                              .msg_controllen = sizeof(control) };
    memset(ret, 0, sizeof(*ret));
    if (!peer->pid || send(peer->socket, &ask, sizeof(ask), MSG_NOSIGNAL) != sizeof(ask) ||
        recvmsg(peer->socket, &message, MSG_CMSG_CLOEXEC) != sizeof(*ret)) {
        snprintf(ret->why, sizeof(ret->why), "the trainer's process is gone");
        return ret->ok = false;
    }
    if (message.msg_controllen >= sizeof(struct cmsghdr))
        memcpy(ret->shared.fds, CMSG_DATA(&control.head), control.head.cmsg_len - CMSG_LEN(0));
    return ret->ok;
}

static size_t make(const struct peer_ask *ask, struct peer_answer *answer)
{
    answer->ok = client_make(ask->kind, ask->value, &answer->shared);
    return answer->ok && ask->kind == CLIENT_VMM ? CLIENT_CHUNKS : 0;
}

static size_t serve_one(const struct peer_ask *ask, struct peer_answer *answer)
{
    answer->ok = true;
    switch (ask->op) {
    case PEER_BEGIN: answer->ok = client_begin(ask->uuid); break;
    case PEER_MAKE: return make(ask, answer);
    case PEER_PAINT: answer->ok = client_paint((uint8_t)ask->value); break;
    case PEER_SUM: answer->ok = client_sum(&answer->value); break;
    case PEER_DROP: client_drop(); break;
    case PEER_FREE: answer->value = client_free_bytes(); break;
    case PEER_SPEED: answer->speed = client_speed(); break;
    }
    return 0;
}

void peer_serve(int socket)
{
    struct peer_ask ask;
    while (recv(socket, &ask, sizeof(ask), 0) == sizeof(ask)) {
        struct peer_answer answer = { 0 };
        size_t fds = serve_one(&ask, &answer);
        if (!answer.ok || ask.op == PEER_BEGIN)
            snprintf(answer.why, sizeof(answer.why), "%s", client_why());
        if (!send_answer(socket, &answer, fds))
            return;
        for (size_t i = 0; i < fds; i++)
            close(answer.shared.fds[i]);
    }
}
