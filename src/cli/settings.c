/* settings.c - check and config: the settings as people see them.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/fills.h"
#include "cli/cli.h"
#include "cli/credentials.h"
#include "http/tls.h"
#include "origin/curl.h"
#include "origin/origin.h"
#include "s3/encode.h"

static size_t say(enum err err, slice why)
{
    if (err)
        printf("credentials: %.*s\n", SLICE_ARG(why));
    return err ? 1 : 0;
}

/* Asks for them as serve will, so that what it would be told is told now. */
static size_t check_origin(struct cli *cli, struct carriers *carriers,
                           const struct config *config, const struct config_origin *origin)
{
    struct credentials found;
    slice why;
    char expires[ISO_DATE_BYTES] = "";
    enum err err = credentials_at_origin(origin, carriers, &cli->arena, &found, &why);
    if (err == ERR_NOT_FOUND && credentials_may_lack(config, origin)) {
        printf("credentials: origin %s: none of Penstock's own, and none needed: every client has "
               "an origin identity of its own\n", origin->name);
        return 0;
    }
    if (err)
        return say(err, why);
    if (found.expires_s)
        iso_date_write(found.expires_s, expires);
    printf("credentials: origin %s is asked as %.*s, from: %.*s%s%s\n", origin->name,
           SLICE_ARG(found.access_key), SLICE_ARG(found.from), *expires ? ", until " : "", expires);
    if (found.nameless)    /* whose they are decides who is shown what is cached */
        printf("credentials: origin %s: their source does not say whose they are: should it give "
               "those of another role than before, empty the cache\n", origin->name);
    return 0;
}

/* Opens it as serve will. */
static size_t check_folder(struct cli *cli, const struct config_origin *origin)
{
    struct origins *origins = origins_new(1);
    struct origin_options options = { .name = origin->name, .url = origin->url };
    struct origin *opened;
    slice why;
    enum err err = origins_add(origins, &options, &cli->arena, &opened, &why);
    slice where = config_where(&origin->where[setting_at(SCOPE_ORIGIN, S("url"))], &cli->arena);
    if (err)
        printf("%.*s: origin %s can't be used: %.*s\n", SLICE_ARG(where), origin->name,
               SLICE_ARG(why));
    origins_free(&origins);
    return err ? 1 : 0;
}

/* What serve would stop at although each setting is right. Half a pair among the settings was said
 * already. */
static size_t check_credentials(struct cli *cli, const struct config *config)
{
    struct carriers *carriers = carriers_new(1);
    struct credentials found;
    slice why;
    size_t count = 0;
    if (config->key_count == 0 && !config->lend)    /* who lends has clients without keys */
        count += say(credentials_of_clients(config, &cli->arena, &found, &why), why);
    for (size_t i = 0; i < config->origin_count; i++) {
        const struct config_origin *origin = &config->origins[i];
        bool half = !origin->access_key[0] != !origin->secret_key[0];
        if (credentials_are_needed(origin) && !half)
            count += check_origin(cli, carriers, config, origin);
        else if (strncmp(origin->url, "dir:", 4) == 0)
            count += check_folder(cli, origin);
    }
    carriers_free(&carriers);
    return count;
}

/* Do its files fit each other? What is missing among the settings was said already. */
static size_t check_tls(struct cli *cli, const struct config *config)
{
    struct http_tls *tls;
    slice why, warning;
    if (!config->tls_cert_file[0])
        return 0;
    if (cli_tls_open(config, &cli->arena, &tls, &why)) {
        printf("tls_cert_file: %.*s\n", SLICE_ARG(why));
        return 1;
    }
    warning = tls ? cli_tls_warning(tls, &cli->arena) : S("");
    if (warning.len)
        printf("warning: %.*s\n", SLICE_ARG(warning));
    http_tls_free(&tls);
    return 0;
}

static size_t check_fills(struct cli *cli, const struct config *config)
{
    slice why;
    if (fills_could(config, &cli->arena, &why))
        return 0;
    printf("%.*s\n", SLICE_ARG(why));
    return 1;
}

static void print_warning(slice warning)
{
    printf("warning: %.*s\n", SLICE_ARG(warning));
}

int run_check(struct cli *cli)
{
    const char *file = cli_word(cli);
    struct config_sources from = {
        .argc = cli->argc, .argv = cli->argv, .env = (const char *const *)environ, .path = file,
    };
    struct config *config = config_load(&from);
    size_t count = cli_mistakes(cli, config, false);
    if (!config->file_unread)
        count += check_credentials(cli, config) + check_tls(cli, config) +
                 check_fills(cli, config);
    cli_warnings(config, print_warning);
    config_free(&config);
    if (count == 0)
        puts("settings: fine");
    else
        printf("settings: %zu mistake%s\n", count, count == 1 ? "" : "s");
    return count ? EXIT_USAGE : EXIT_GOOD;
}

static void show_row(struct cli *cli, const struct setting *setting, const char *path,
                     const void *group, const struct setting_where *where)
{
    struct arena *keep = &cli->arena;
    slice value = setting_show(setting, group, keep);
    slice name = arena_printf(keep, "%s%s", path, setting->name);
    printf("%-34.*s %-34.*s %-10s %.*s\n", SLICE_ARG(name), SLICE_ARG(value.len ? value : S("-")),
           setting->type == TYPE_CHOICE ? "choice" : setting_type_name(setting),
           SLICE_ARG(config_where(&where[setting - settings], keep)));
}

static void show_group(struct cli *cli, enum setting_scope scope, const char *path,
                       const void *group, const struct setting_where *where)
{
    for (size_t i = 0; i < setting_count; i++)
        if (settings[i].scope == scope)
            show_row(cli, &settings[i], path, group, where);
}

static const char *path_of(struct cli *cli, const char *list, const char *name)
{
    return arena_printf(&cli->arena, "%s%s.", list, name).ptr;
}

static void show_all(struct cli *cli, const struct config *config)
{
    show_group(cli, SCOPE_GLOBAL, "", config, config->where);
    for (size_t i = 0; i < config->origin_count; i++)
        show_group(cli, SCOPE_ORIGIN, path_of(cli, "origins.", config->origins[i].name),
                   &config->origins[i], config->origins[i].where);
    for (size_t i = 0; i < config->bucket_count; i++)
        show_group(cli, SCOPE_BUCKET, path_of(cli, "buckets.", config->buckets[i].name),
                   &config->buckets[i], config->buckets[i].where);
    for (size_t i = 0; i < config->key_count; i++)
        if (config->keys[i].name[0])
            show_group(cli, SCOPE_KEY, path_of(cli, "", config->keys[i].name), &config->keys[i],
                       config->keys[i].where);
}

static void show_credentials(const char *name, enum err err, const struct credentials *found,
                             slice why)
{
    slice key = err || !found->access_key.len ? S("-") : found->access_key;
    slice from = err ? why : found->from;
    printf("%-34s %-34.*s %-10s %.*s\n", name, SLICE_ARG(key), "text", SLICE_ARG(from));
}

/* The keys that are used where the settings name none. */
static void show_all_credentials(struct cli *cli, const struct config *config)
{
    struct credentials found;
    slice why = S("");
    if (config->key_count == 0) {
        enum err err = credentials_of_clients(config, &cli->arena, &found, &why);
        show_credentials("in_force.access_key", err, &found, why);
    }
    for (size_t i = 0; i < config->origin_count; i++) {
        const struct config_origin *origin = &config->origins[i];
        if (!credentials_are_needed(origin) || origin->access_key[0] || origin->secret_key[0])
            continue;
        enum err err = credentials_at_origin(origin, NULL, &cli->arena, &found, &why);
        const char *name = arena_printf(&cli->arena, "in_force.origins.%s.access_key",
                                        origin->name).ptr;
        show_credentials(name, err, &found, why);
    }
}

int run_config(struct cli *cli)
{
    struct text text = text_in(&cli->arena);
    const char *shell = cli_option(cli, "--completion");
    if (shell && !completion_script(&text, shell)) {
        fprintf(stderr, "penstock: there is no completion for \"%s\": --completion takes bash, zsh "
                "or fish\n", shell);
        return EXIT_USAGE;
    }
    if (cli_flag(cli, "--example"))
        generate_example(&text, &cli->arena);
    else if (cli_flag(cli, "--man-operations"))
        generate_man_operations(&text);
    else if (cli_flag(cli, "--man"))
        generate_man(&text);
    if (text.len) {
        fwrite(text.ptr, 1, text.len, stdout);
        return EXIT_GOOD;
    }
    struct config *config = cli_load(cli);
    show_all(cli, config);
    show_all_credentials(cli, config);
    fflush(stdout);
    size_t count = cli_mistakes(cli, config, true);
    config_free(&config);
    return count ? EXIT_USAGE : EXIT_GOOD;
}
