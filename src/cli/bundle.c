/* bundle.c - the subcommand bundle: one file for a bug report. SPDX-License-Identifier: Apache-2.0
 *
 * Each part of the bundle is a text: the output of a command, a page of the running service, or a
 * file. A part that can't be had says why. Every text goes through the mask (mask.h) before it is
 * added, so no part has a mask of its own. */
#include <config.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "cli/ask.h"
#include "cli/mask.h"
#include "cli/tar.h"

extern char **environ;

#define PART_BYTES_MAX (4 * MIB)
#define COMMAND_MS 60000u
#define LOG_LINES "5000"
#define WORDS_MAX 64u
#define FILE_BYTES_MAX 65536u

struct bundle {
    struct cli *cli;
    struct arena *keep;
    struct config *config;
    struct mask mask;
    struct text tar, contents;
    const char *unit, *log_file;
};

static void add_part(struct bundle *bundle, const char *name, slice text, const char *what)
{
    slice masked = mask_text(&bundle->mask, text);
    tar_add(&bundle->tar, arena_printf(bundle->keep, "penstock-bundle/%s", name), masked, wall_s());
    text_printf(&bundle->contents, "%-14s %8zu bytes  %s\n", name, masked.len, what);
}

/* ---- outputs of commands ---- */

/* Reads what a process writes, until it ends or the time is over. Keeps the last part. */
static slice read_output(struct arena *keep, int fd, bool *ret_late)
{
    struct text text = text_in(keep);
    char room[16384];
    uint64_t until_ms = mono_ms() + COMMAND_MS;
    ssize_t got = 1;
    while (got > 0 && mono_ms() < until_ms && text.len < 4 * PART_BYTES_MAX) {
        struct pollfd wanted = { .fd = fd, .events = POLLIN };
        if (poll(&wanted, 1, 100) <= 0)
            continue;
        got = read(fd, room, sizeof(room));
        text_add(&text, (slice){ room, (size_t)MAX(got, 0) });
    }
    *ret_late = got > 0;
    return slice_from(text_slice(&text), text.len - MIN(text.len, PART_BYTES_MAX));
}

static void run_child(const char *const *words, int to)
{
    int nothing = open("/dev/null", O_RDONLY);
    (void)dup2(nothing, STDIN_FILENO);
    (void)dup2(to, STDOUT_FILENO);
    (void)dup2(to, STDERR_FILENO);
    (void)execvp(words[0], (char *const *)(uintptr_t)words);
    dprintf(STDOUT_FILENO, "can't run %s: %s\n", words[0], strerror(errno));
    _exit(127);
}

/* Runs a command. Returns its output, and what is to be said of its end. */
static slice output_of(struct arena *keep, const char *const *words)
{
    int pipes[2], status = 0;
    bool late = false;
    if (pipe2(pipes, O_CLOEXEC) != 0)
        return S("no pipe could be made\n");
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        run_child(words, pipes[1]);
    close(pipes[1]);
    slice text = pid > 0 ? read_output(keep, pipes[0], &late) : S("no process could be started\n");
    close(pipes[0]);
    if (late)
        (void)kill(pid, SIGKILL);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    if (late)
        return arena_printf(keep, "%.*s\n(ended: too long, or too much output)\n", SLICE_ARG(text));
    return status ? arena_printf(keep, "%.*s\n(exit status %d)\n", SLICE_ARG(text),
                                 WIFEXITED(status) ? WEXITSTATUS(status) : 128) : text;
}

/* Runs another subcommand of this program, with the same settings. */
static slice output_of_own(struct bundle *bundle, const char *command, const char *flag)
{
    const char *words[WORDS_MAX] = { "/proc/self/exe", command };
    size_t count = 2;
    if (flag)
        words[count++] = flag;
    for (size_t i = 0; i < bundle->cli->argc && count + 1 < WORDS_MAX; i++)
        words[count++] = bundle->cli->argv[i];
    return output_of(bundle->keep, words);
}

/* ---- pages of the service ---- */

static slice page_of(struct bundle *bundle, const char *path)
{
    slice address = slice_of(bundle->config->admin_listen);
    if (slice_eq(address, S("off")))
        return S("admin_listen is off\n");
    struct answer answer = ask(bundle->keep, address, slice_of(path),
                               slice_of(bundle->config->admin_token), ASK_MS);
    if (answer.status == 200)
        return answer.body;
    return arena_printf(bundle->keep, "no page from %.*s: status %d %.*s%.*s\n",
                        SLICE_ARG(address), answer.status, SLICE_ARG(answer.why),
                        SLICE_ARG(answer.body));
}

/* ---- the log ---- */

/* The end of a file to which somebody has redirected the log. */
static slice tail_of(struct bundle *bundle, const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        slice why = slice_of(fd < 0 ? strerror(errno) : "not an ordinary file");
        if (fd >= 0)
            close(fd);
        return arena_printf(bundle->keep, "%s can't be read: %.*s\n", path, SLICE_ARG(why));
    }
    size_t most = (size_t)MIN((uint64_t)st.st_size, PART_BYTES_MAX);
    char *bytes = arena_alloc(bundle->keep, most + 1);
    ssize_t got = pread(fd, bytes, most, st.st_size - (off_t)most);
    close(fd);
    return (slice){ bytes, (size_t)MAX(got, 0) };
}

static slice log_of(struct bundle *bundle, const char **ret_about)
{
    *ret_about = "the end of the log";
    const char *words[] = { "journalctl", "--unit", bundle->unit, "--lines", LOG_LINES,
                            "--no-pager", "--output", "short-iso", NULL };
    if (bundle->log_file)
        return tail_of(bundle, bundle->log_file);
    slice text = output_of(bundle->keep, words);
    bool none = slice_find(text, S("-- No entries --")) < text.len ||
                slice_find(text, S("No journal files")) < text.len || text.len < 80;
    if (none)
        *ret_about = "no log was found: give --log FILE or --unit NAME";
    return arena_printf(bundle->keep, "%s%.*s", none
                        ? "journalctl gives no lines of the unit to this user. If the log goes to "
                          "a file, give it by --log FILE. If it goes to another unit, give "
                          "--unit NAME. Otherwise run this command as root, or as a member of the "
                          "group systemd-journal.\n" : "", SLICE_ARG(text));
}

/* ---- versions ---- */

static void add_file(struct text *to, struct arena *keep, const char *path)
{
    slice text;
    (void)!file_read(path, FILE_BYTES_MAX, keep, &text);
    text_printf(to, "\n== %s ==\n", path);
    text_add(to, text);
}

/* The files of libraries that this process has mapped tell their versions. */
static void add_libraries(struct text *to, struct arena *keep)
{
    slice maps, last = S("");
    (void)!file_read("/proc/self/maps", PART_BYTES_MAX, keep, &maps);
    text_add(to, S("\n== libraries ==\n"));
    while (maps.len) {
        slice line = slice_cut(&maps, '\n');
        slice path = slice_from(line, slice_find(line, S("/")));
        if (slice_find(path, S(".so")) == path.len || slice_eq(path, last))
            continue;
        text_printf(to, "%.*s\n", SLICE_ARG(path));
        last = path;
    }
}

static slice versions(struct bundle *bundle)
{
    static const char *const files[] = {
        "/etc/os-release", "/proc/version", "/proc/meminfo", "/proc/self/limits",
        "/proc/self/cgroup", "/proc/sys/kernel/io_uring_disabled", "/proc/pressure/io",
        "/proc/pressure/memory", "/proc/pressure/cpu", "/proc/self/mounts",
    };
    struct text text = text_in(bundle->keep);
    struct utsname name;
    text_printf(&text, "penstock %s\n", PACKAGE_VERSION);
    if (uname(&name) == 0)
        text_printf(&text, "%s %s %s %s\n", name.sysname, name.release, name.version, name.machine);
    text_printf(&text, "processors: %ld\n", sysconf(_SC_NPROCESSORS_ONLN));
    add_libraries(&text, bundle->keep);
    for (size_t i = 0; i < countof(files); i++)
        add_file(&text, bundle->keep, files[i]);
    return text_slice(&text);
}

/* ---- the file ---- */

static void gather(struct bundle *bundle, bool offline)
{
    add_part(bundle, "versions.txt", versions(bundle), "versions, limits and mounts");
    add_part(bundle, "settings.txt", output_of_own(bundle, "config", NULL),
             "settings in force; secrets are masked");
    add_part(bundle, "check.txt", output_of_own(bundle, "check", "--offline"),
             "mistakes and warnings");
    add_part(bundle, "status.json", page_of(bundle, "/status"), "status of the running service");
    add_part(bundle, "metrics.txt", page_of(bundle, "/metrics"), "metrics of the running service");
    add_part(bundle, "doctor.txt", output_of_own(bundle, "doctor", offline ? "--offline" : NULL),
             "what penstock doctor measured");
    const char *about;
    slice log = log_of(bundle, &about);
    add_part(bundle, "log.txt", log, about);
}

static const char *default_path(struct arena *keep)
{
    char stamp[32];
    time_t now = (time_t)wall_s();
    struct tm when;
    gmtime_r(&now, &when);
    strftime(stamp, sizeof(stamp), "%Y%m%dT%H%M%SZ", &when);
    return arena_printf(keep, "penstock-bundle-%s.tar", stamp).ptr;
}

/* A new file, so that neither its mode nor a link decides who can read it. */
static bool write_file(const char *path, slice bytes, bool force)
{
    if (force && unlink(path) != 0 && errno != ENOENT)
        return false;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    size_t done = 0;
    while (fd >= 0 && done < bytes.len) {
        ssize_t wrote = write(fd, bytes.ptr + done, bytes.len - done);
        if (wrote < 0 && errno != EINTR)
            break;
        done += (size_t)MAX(wrote, 0);
    }
    int error = errno;
    bool good = fd >= 0 && done == bytes.len && close(fd) == 0;
    if (fd >= 0 && !good)
        (void)unlink(path);
    errno = error;
    return good;
}

static int save(struct bundle *bundle, const char *path, bool force)
{
    path = path ? path : default_path(bundle->keep);
    tar_end(&bundle->tar);
    if (!write_file(path, text_slice(&bundle->tar), force)) {
        fprintf(stderr, "penstock bundle: can't write %s: %s%s\n", path, strerror(errno),
                errno == EEXIST ? ". Choose another name, or give --force" : "");
        return EXIT_FAILED;
    }
    printf("%s, readable by you alone, has these parts:\n\n%.*s\nSecret settings, keys, tokens and "
           "signatures are replaced by ********. Names of buckets, keys, hosts, users and folders "
           "are not. Look at the parts before you send the file to anyone: tar -xf %s\n", path,
           SLICE_ARG(text_slice(&bundle->contents)), path);
    return EXIT_GOOD;
}

static int run_bundle(struct cli *cli)
{
    bool force = cli_flag(cli, "--force"), offline = cli_flag(cli, "--offline");
    const char *unit = cli_option(cli, "--unit"), *log_file = cli_option(cli, "--log");
    const char *path = cli_word(cli);
    struct bundle *bundle = arena_alloc(&cli->arena, sizeof(*bundle));
    bundle->cli = cli;
    bundle->keep = bundle->mask.keep = &cli->arena;
    bundle->tar = text_in(bundle->keep);
    bundle->contents = text_in(bundle->keep);
    bundle->unit = unit ? unit : "penstock";
    bundle->log_file = log_file;
    if (path && !force && access(path, F_OK) == 0) {
        fprintf(stderr, "penstock bundle: %s is there already. Choose another name, or give "
                "--force\n", path);
        return EXIT_FAILED;
    }
    bundle->config = cli_load(cli, NULL);
    mask_add_settings(&bundle->mask, bundle->config);
    mask_add_environment(&bundle->mask, (const char *const *)environ);
    int status = EXIT_USAGE;
    if (cli_mistakes(cli, bundle->config, "command line", stderr) == 0) {
        gather(bundle, offline);
        status = save(bundle, path, force);
    }
    config_free(&bundle->config);
    return status;
}

static const struct command_option options[] = {
    { "--force", NULL, "replace FILE if it is there already" },
    { "--offline", NULL, "ask no origin and no DNS server" },
    { "--unit", "NAME", "take the log of this systemd unit (default penstock)" },
    { "--log", "FILE", "take the log from this file, in place of the journal" },
    { 0 },
};

const struct command command_bundle = {
    .name = "bundle", .args = "[FILE] [OPTIONS] [SETTINGS]", .run = run_bundle,
    .takes_settings = true, .words = "FILE", .options = options,
    .help = "write one file for a bug report, without secrets",
    .more = "The file is a tar archive with the settings, the results of check and doctor,\n"
            "status and metrics of the running service, versions, and the end of the log.\n"
            "Without FILE, it is penstock-bundle-TIME.tar in the current folder.\n"
            "Look at it before you send it to anyone: it has names of buckets, keys, hosts,\n"
            "users and folders.",
};
