/* warn.c - warnings about settings that are valid, but may be mistakes.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Most warnings have a function that returns a sentence, or an empty slice; warn_of_old_names
 * gives any number of them. `penstock check` prints the sentences; `penstock serve` logs them when
 * it starts and when it reloads. */
#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/testing.h"
#include "cli/cli.h"
#include "cli/memory.h"
#include "cli/show.h"
#include "store/store.h"

#define SMALL_BYTES GIB
#define KEY_FILE_BYTES_MAX (4 * MIB)

slice cli_existing_folder(const char *path, struct arena *keep, struct store_space *ret)
{
    slice folder = arena_copy(keep, slice_of(path));
    *ret = (struct store_space){ 0 };
    while (store_space(folder.ptr, ret) != OK && folder.len > 1) {
        while (folder.len > 1 && folder.ptr[folder.len - 1] != '/')
            folder.len--;
        folder = arena_copy(keep, folder.len > 1 ? slice_sub(folder, 0, folder.len - 1) : S("/"));
    }
    return folder;
}

/* The cache folders on one file system. */
struct beside {
    uint64_t bytes;                   /* the sum of the sizes that the settings give */
    size_t count;
    struct text paths;
};

/* Returns false if the folder with index `folder` is not the first one on the file system
 * `device`. */
static bool folders_on(const struct config *config, dev_t device, size_t folder,
                       struct beside *ret, struct arena *keep)
{
    *ret = (struct beside){ .paths = text_in(keep) };
    for (size_t i = 0; i < config->folder_count; i++) {
        struct store_space there;
        struct stat st;
        slice on = cli_existing_folder(config->folders[i].path, keep, &there);
        if (stat(on.ptr, &st) != 0 || st.st_dev != device)
            continue;
        if (i < folder)
            return false;
        text_printf(&ret->paths, "%s%s", ret->count++ ? ", " : "", config->folders[i].path);
        ret->bytes += config->folders[i].size_bytes;
    }
    return true;
}

static slice sizes_and_space(const struct config *config, const struct beside *all, uint64_t there,
                             struct arena *keep)
{
    slice paths = text_slice(&all->paths);
    slice bytes = show_bytes_as(keep, all->bytes, there), has = show_bytes(keep, there);
    bool several = all->count > 1;
    if (!config->cache_dirs[0])
        return arena_printf(keep, "cache_size is %.*s, and the file system of %.*s has %.*s: the "
                            "cache can't grow to cache_size. Lower cache_size, or set another "
                            "cache_dir", SLICE_ARG(bytes), SLICE_ARG(paths), SLICE_ARG(has));
    return arena_printf(keep, "the cache folder%s %.*s in cache_dirs may take %.*s%s, and %s file "
                        "system has %.*s: the cache can't grow to that size. Lower the size%s, or "
                        "list folders on other disks", several ? "s" : "", SLICE_ARG(paths),
                        SLICE_ARG(bytes), several ? " together" : "", several ? "their" : "its",
                        SLICE_ARG(has), several ? "s" : "");
}

/* Warns of the first file system that is smaller than the sizes of the folders on it. */
static slice size_is_not_there(const struct config *config, struct arena *keep)
{
    for (size_t i = 0; i < config->folder_count; i++) {
        struct store_space there;
        struct beside all;
        struct stat st;
        slice folder = cli_existing_folder(config->folders[i].path, keep, &there);
        if (stat(folder.ptr, &st) == 0 && folders_on(config, st.st_dev, i, &all, keep) &&
            all.bytes > there.bytes)
            return sizes_and_space(config, &all, there.bytes, keep);
    }
    return S("");
}

/* Warns of two folders on one file system if at least one of them has no size: such a folder would
 * take 80 % of the free space, which the other folder needs, too. */
static slice sizes_are_derived_twice(const struct config *config, struct arena *keep)
{
    for (size_t i = 0; i < config->folder_count; i++)
        for (size_t j = 0; j < i; j++) {
            struct store_space there;
            struct stat of[2];
            slice on[] = { cli_existing_folder(config->folders[i].path, keep, &there),
                           cli_existing_folder(config->folders[j].path, keep, &there) };
            bool same = stat(on[0].ptr, &of[0]) == 0 && stat(on[1].ptr, &of[1]) == 0 &&
                        of[0].st_dev == of[1].st_dev;
            if (same && (!config->folders[i].size_bytes || !config->folders[j].size_bytes))
                return arena_printf(keep, "the cache folders %s and %s lie on one file system, and "
                                    "at least one of them has no size: Penstock derives a missing "
                                    "size from the free space, so both would claim the same space. "
                                    "Set the size of both in cache_dirs, or list one folder for "
                                    "each disk", config->folders[j].path,
                                    config->folders[i].path);
        }
    return S("");
}

slice cli_small_cache(slice folder, uint64_t size_bytes, bool derived, struct arena *keep)
{
    if (!derived || size_bytes >= SMALL_BYTES)
        return S("");
    return arena_printf(keep, "the cache folder %.*s has only %" PRIu64 " MiB for its objects, "
                        "which is too little to be of use: its file system had little free space. "
                        "Make room on that file system (the folder's size then grows), or "
                        SET_ANOTHER ". If you want such a small cache, set its size: cache_size, "
                        "or the size in cache_dirs",
                        SLICE_ARG(folder), size_bytes / MIB);
}

/* Penstock raises the soft limit to the hard limit. */
static slice file_sizes_are_limited(const struct config *config, struct arena *keep)
{
    struct rlimit files;
    (void)config;
    if (getrlimit(RLIMIT_FSIZE, &files) != 0 || files.rlim_max == RLIM_INFINITY)
        return S("");
    slice most = show_bytes(keep, files.rlim_max);
    return arena_printf(keep, "this process may write no file larger than %.*s (ulimit -Hf, or "
                        "LimitFSIZE in the unit): larger uploads may fail, and when a file of the "
                        "cache reaches this size, no more objects are stored. Remove this "
                        "limit", SLICE_ARG(most));
}

static bool holds_a_key(const char *file, struct arena *keep)
{
    slice text;
    (void)!file_read(file, KEY_FILE_BYTES_MAX, keep, &text);
    return slice_find(text, S("PRIVATE KEY-----")) < text.len;
}

static slice key_is_open(const struct config *config, struct arena *keep,
                         enum certificate_of which)
{
    struct stat st;
    struct cli_certificate of = cli_certificate(config, which);
    if (!of.key[0] || !holds_a_key(of.key, keep) || stat(of.key, &st) != 0 ||
        !(st.st_mode & S_IROTH))
        return S("");
    return arena_printf(keep, "every user of this machine can read %s, the private key of %s. "
                        "Run: chmod o= %s", of.key, of.setting, of.key);
}

static slice tls_key_is_open(const struct config *config, struct arena *keep)
{
    return key_is_open(config, keep, CERTIFICATE_CLIENTS);
}

static slice peer_key_is_open(const struct config *config, struct arena *keep)
{
    return key_is_open(config, keep, CERTIFICATE_PEERS);
}

static bool has_own_identities(const struct config *config)
{
    bool own = false;
    for (size_t i = 0; i < config->key_count; i++)
        own |= !config->keys[i].row_count;
    return own;
}

static slice grants_cost(const struct config *config, struct arena *keep)
{
    if (!has_own_identities(config))
        return S("");
    if (config->grant_time_ms == 0)
        return S("grant_time is 0: unless an entry of buckets sets grant_time, Penstock asks the "
                 "origin before each read of a client that has its own origin identity. For faster "
                 "reads, set a longer grant_time");
    if (strcmp(config->grant_scope, "object") != 0 || config->grant_time_ms >= 10 * MINUTES)
        return S("");
    return arena_printf(keep, "a client with its own origin identity needs a grant for each cached "
                        "object: Penstock asks the origin by a HEAD, and the grant is valid for "
                        "grant_time (%" PRIu64 " s). If the objects are many and small, a longer "
                        "grant_time or a wider grant_scope makes reads faster",
                        config->grant_time_ms / 1000);
}

static slice permission_costs(const struct config *config, struct arena *keep)
{
    (void)keep;
    return config->permission_time_ms
        ? S("")
        : S("permission_time is 0: unless an entry of buckets sets permission_time, Penstock asks "
            "the origin before each read of a client that has no origin identity of its own. For "
            "faster reads, set a longer permission_time");
}

static slice anybody_may_write(const struct config *config, struct arena *keep)
{
    for (size_t i = 0; i < config->key_count; i++)
        for (size_t j = 0; j < config->keys[i].row_count; j++)
            if (config->keys[i].anonymous &&
                (config->keys[i].rows[j].rights & (RIGHT_WRITE | RIGHT_ADMIN)))
                return arena_printf(keep, "%s allows writes or administration without a signature: "
                                    "anybody who reaches Penstock may overwrite and delete "
                                    "objects, or change the access to them. Give such clients only "
                                    "the rights 'read' and 'list'", config->keys[i].name);
    return S("");
}

static slice http_is_exposed(const struct config *config, struct arena *keep)
{
    if (config_is_loopback(slice_of(config->listen)))
        return S("");
    return arena_printf(keep, "listen is %s: other machines can reach this address, which is "
                        "plain http. So anybody who sees the traffic of that network can read "
                        "objects, and use presigned URLs until they expire. Set tls_listen and "
                        "tls_cert_file, and set listen to a loopback address; or make sure that "
                        "you trust the network",
                        config->listen);
}

static slice admin_is_exposed(const struct config *config, struct arena *keep)
{
    const char *address = config->admin_listen;
    if (strcmp(address, "off") == 0 || config_is_loopback(slice_of(address)))
        return S("");
    if (!config->admin_token[0])
        return arena_printf(keep, "admin_listen is %s: other machines can reach this address, and "
                            "admin_token is not set. So anybody can read /metrics, and nobody "
                            "can use /status or penstock stat (401). Set admin_token_file, or set "
                            "admin_listen to a loopback address. If not everybody may read the "
                            "metrics, set metrics_token, too", address);
    return arena_printf(keep, "admin_listen is %s: other machines can reach this address, which is "
                        "plain http. So anybody who sees the traffic of that network can read "
                        "admin_token%s. Set admin_listen to a loopback address, or make sure that "
                        "you trust the network", address,
                        config->metrics_token ? ""
                                              : ", and anybody can read /metrics without a token "
                                                "(set metrics_token to prevent that)");
}

/* Directories are not shared, and nothing else would say so: all nodes answer each other. */
static slice nothing_is_shared(const struct config *config, struct arena *keep)
{
    bool some = !config->peers[0];
    for (size_t i = 0; i < config->origin_count && !some; i++)
        some = config->origins[i].kind && config->origins[i].kind->knows_identities;
    (void)keep;
    return some ? S("") : S("peers has no effect, since each origin is a directory: nodes share only "
                            "objects of S3 origins. Use an S3 origin, or remove peers");
}

/* Warns if the key of a collector would go through a network in plain text. */
static slice trace_key_is_open(const struct config *config, struct arena *keep)
{
    slice url = slice_of(config->traces_url);
    slice rest = slice_from(url, 7), host = slice_cut(&rest, '/');
    slice with_port = arena_printf(keep, "%.*s:", SLICE_ARG(host));
    if (!config->traces_headers[0] || !slice_starts(url, S("http://")) ||
        config_is_loopback(with_port))
        return S("");
    return S("traces_url is plain http to another machine, so anybody who sees the traffic of that "
             "network can read traces_headers. Use an https URL, or make sure that you trust the "
             "network");
}

static bool is_budget(const struct setting *setting)
{
    bool found = false;
    for (size_t i = 0; i < BUDGET_COUNT && !found; i++)
        found = strcmp(budget_rows[i].name, setting->name) == 0;
    return found;
}

static slice old_name(const struct setting *setting, const struct setting_where *where,
                      struct arena *keep)
{
    slice place = config_where(where, keep);
    if (is_budget(setting))
        return arena_printf(keep, "%s (%.*s) is an old setting: it still sets the size of one "
                            "memory budget, but the next version will refuse it. Set memory "
                            "instead: Penstock divides memory into all budgets (penstock config "
                            "shows how)",
                            setting->name, SLICE_ARG(place));
    bool derived = strcmp(setting->standard, "0") == 0;
    return arena_printf(keep, "%s (%.*s) is an old setting, which still has an effect. The next "
                        "version will refuse the setting, and will always use this value: %s. Remove "
                        "the setting",
                        setting->name, SLICE_ARG(place),
                        derived ? "0, which means no limit or a value derived from other settings"
                                : setting->standard);
}

/* Warns of settings of older versions. Some are constants now; the tests' daemon can still set these,
 * so it does not warn of them. */
static void warn_of_old_names(const struct config *config, struct arena *keep,
                              void (*report)(void *arg, slice warning), void *arg)
{
    struct config_group group;
    for (size_t i = 0; i < setting_count && !testing_daemon(); i++)
        if (settings[i].scope == SCOPE_CONSTANT && config->where[i].from != FROM_DEFAULT)
            report(arg, old_name(&settings[i], &config->where[i], keep));
    for (size_t i = 0; config_group_at(config, SCOPE_ORIGIN, i, &group); i++)
        for (size_t j = 0; j < setting_count; j++)
            if (settings[j].scope == SCOPE_GONE && group.where[j].from != FROM_DEFAULT)
                report(arg, arena_printf(keep, "%s (%.*s) is an old setting without effect: %s. "
                                         "Remove the setting", config_path(&group, settings[j].name, keep),
                                         SLICE_ARG(config_where(&group.where[j], keep)),
                                         settings[j].help));
}

void cli_warnings(const struct config *config, const struct memory *memory,
                  void (*report)(void *arg, slice warning), void *arg)
{
    static slice (*const warnings[])(const struct config *config, struct arena *keep) = {
        size_is_not_there, sizes_are_derived_twice, file_sizes_are_limited, tls_key_is_open,
        peer_key_is_open, grants_cost, permission_costs, anybody_may_write, http_is_exposed,
        admin_is_exposed, trace_key_is_open, nothing_is_shared,
    };
    struct arena keep = { 0 };
    for (size_t i = 0; i <= countof(warnings); i++) {
        slice warning = i < countof(warnings) ? warnings[i](config, &keep)
                                              : memory_warning(memory, &keep);
        if (warning.len)
            report(arg, warning);
    }
    warn_of_old_names(config, &keep, report, arg);
    arena_free(&keep);
}
