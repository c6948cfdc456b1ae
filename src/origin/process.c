/* process.c - credentials that a program prints. SPDX-License-Identifier: Apache-2.0
 *
 * This file runs the credential_process of a profile. It uses no shell, but splits the command into
 * words as a shell does. (But a backslash always goes, if it is not in single quotes.) The program
 * prints JSON on standard output. Its standard error is the same as Penstock's. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "origin/source.h"

#define WORDS_MAX 64
#define OUTPUT_BYTES_MAX (64 * 1024)
#define RUN_MS_MAX 60000u
#define LOOK_MS 100

/* Returns the next word, without its quotes and backslashes, or NULL at the end. */
static char *next_word(struct arena *keep, slice *rest)
{
    struct text word = text_in(keep);
    size_t i = 0;
    char quote = 0;
    bool any = false;
    while (i < rest->len && (rest->ptr[i] == ' ' || rest->ptr[i] == '\t'))
        i++;
    for (; i < rest->len; i++) {
        char c = rest->ptr[i];
        if (!quote && (c == ' ' || c == '\t'))
            break;
        any = true;
        if (c == '\\' && quote != '\'' && i + 1 < rest->len)
            text_char(&word, rest->ptr[++i]);
        else if (quote ? c == quote : c == '"' || c == '\'')
            quote = quote ? 0 : c;
        else
            text_char(&word, c);
    }
    *rest = slice_from(*rest, i);
    text_char(&word, '\0');
    return any ? word.ptr : NULL;
}

static enum err start(struct seek *seek, slice command, pid_t *ret_pid, int *ret_out)
{
    char *words[WORDS_MAX + 1] = { NULL };
    int ends[2];
    size_t count = 0;
    while (count < WORDS_MAX && (words[count] = next_word(seek->keep, &command)))
        count++;
    if (count == WORDS_MAX && next_word(seek->keep, &command))
        return seek_fail(seek, ERR_BAD_ARGUMENT, "credential_process of profile %.*s has more than "
                         "%d words: put the command into a script", SLICE_ARG(seek->profile),
                         WORDS_MAX);
    if (!words[0] || pipe2(ends, O_CLOEXEC) != 0)
        return seek_fail(seek, ERR_IO, "credential_process of profile %.*s can't be run: %s",
                         SLICE_ARG(seek->profile),
                         words[0] ? strerror(errno) : "the command is empty; set a command");
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    int failed = posix_spawnp(ret_pid, words[0], &actions, &attributes, words, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    close(ends[1]);
    *ret_out = ends[0];
    if (!failed)
        return OK;
    close(ends[0]);
    return seek_fail(seek, ERR_IO, "credential_process %s can't be run (%s): check the path "
                     "of the command, and its permissions", words[0], strerror(failed));
}

struct child {
    pid_t pid;
    bool ended;
    int status;
};

static bool has_ended(struct child *child)
{
    if (!child->ended)
        child->ended = waitpid(child->pid, &child->status, WNOHANG) == child->pid;
    return child->ended;
}

static bool stops(const struct seek *seek)
{
    return seek->ask->stop && atomic_load(seek->ask->stop);
}

static bool may_wait(const struct seek *seek, uint64_t until_ms)
{
    return mono_ms() < until_ms && !stops(seek);
}

/* Reads everything that the program prints. Returns false if the program takes too long or prints
 * too much, if Penstock stops, or if the pipe can't be read. Reading stops when the program has ended,
 * even if the pipe is still open: a process that the program started may keep the pipe open. */
static bool listen_to(const struct seek *seek, struct child *child, int out, uint64_t until_ms,
                      struct text *ret)
{
    bool ended = false;
    while (may_wait(seek, until_ms) && ret->len <= OUTPUT_BYTES_MAX) {
        char piece[4096];
        struct pollfd ready = { .fd = out, .events = POLLIN };
        if (poll(&ready, 1, ended ? 0 : LOOK_MS) < 1) {
            if (ended)
                return true;
            ended = has_ended(child);  /* output may have come after the poll, so poll once more */
            continue;
        }
        ssize_t got = read(out, piece, sizeof(piece));
        if (got <= 0)
            return got == 0;
        text_add(ret, (slice){ piece, (size_t)got });
    }
    return false;
}

/* Reports why the program's output is not whole. */
static enum err cut_short(struct seek *seek, size_t output_bytes)
{
    if (output_bytes > OUTPUT_BYTES_MAX)
        return seek_fail(seek, ERR_TIMEOUT, "credential_process of profile %.*s printed more than "
                         "%d KiB: let it print only the JSON document", SLICE_ARG(seek->profile),
                         OUTPUT_BYTES_MAX / 1024);
    if (stops(seek))
        return seek_fail(seek, ERR_STOPPING, "credential_process of profile %.*s was ended, "
                         "because Penstock is stopping", SLICE_ARG(seek->profile));
    return seek_fail(seek, ERR_TIMEOUT, "credential_process of profile %.*s did not end within "
                     "%u s, so Penstock stopped it: run the command by hand, as Penstock's "
                     "user, to see what it waits for", SLICE_ARG(seek->profile),
                     RUN_MS_MAX / 1000);
}

static enum err run(struct seek *seek, slice command, slice *ret)
{
    struct text text = text_in(seek->keep);
    struct child child = { 0 };
    uint64_t until_ms = mono_ms() + RUN_MS_MAX;
    int out;
    enum err e = start(seek, command, &child.pid, &out);
    if (e)
        return e;
    bool whole = listen_to(seek, &child, out, until_ms, &text);
    close(out);
    while (whole && !has_ended(&child) && may_wait(seek, until_ms))
        poll(NULL, 0, LOOK_MS);
    if (!has_ended(&child)) {
        whole = false;
        kill(child.pid, SIGKILL);
        while (waitpid(child.pid, &child.status, 0) < 0 && errno == EINTR)
            ;
    }
    if (!whole)
        return cut_short(seek, text.len);
    int status = child.status;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return seek_fail(seek, ERR_IO, "credential_process of profile %.*s ended with %s %d: "
                         "Penstock's standard error has the error messages of this command",
                         SLICE_ARG(seek->profile), WIFEXITED(status) ? "exit status" : "signal",
                         WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    *ret = text.len ? text_slice(&text) : S("");
    return OK;
}

enum err source_process(struct seek *seek, struct credentials *ret)
{
    slice command = seek_profile(seek, "credential_process"), document, version = S("");
    if (!command.len)
        return ERR_NOT_FOUND;
    ret->from = arena_printf(seek->keep, "credential_process of profile %.*s",
                             SLICE_ARG(seek->profile));
    ret->nameless = true;
    ret->kind = CREDENTIALS_LENT;
    if (!seek->ask->may_lend)
        return OK;
    enum err e = run(seek, command, &document);
    if (e)
        return e;
    const struct json_want want = { "Version", &version };
    if (!json_read_members(seek->keep, document, &want, 1) && !slice_eq(version, S("1")))
        return seek_fail(seek, ERR_FORMAT, "credential_process printed Version \"%.*s\", and "
                         "Penstock supports only Version 1: change the command",
                         SLICE_ARG(slice_sub(version, 0, 20)));
    return seek_read_json(seek, document, "SessionToken", ret);
}
