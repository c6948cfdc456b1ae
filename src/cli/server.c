/* server.c - finds the service that a command asks, and the key that signs.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The address comes from the first of these that is set: --url, the setting "listen" as a flag or
 * variable, AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, "listen" in the settings file. The key comes
 * from the AWS variables of the environment, else from the settings, else from a profile. A caller
 * who may read the settings file needs no other values: the file has the address and a key. */
#include "cli/server.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/ask.h"
#include "cli/credentials.h"

#define TIMEOUT_S 600u
#define TIMEOUT_S_MAX 86400u

/* ---- the address ---- */

struct place {
    slice url, from;
};

static struct place env_place(const char *name)
{
    return (struct place){ slice_of(getenv(name)), slice_of(name) };
}

/* The settings always have an address. */
static struct place settings_place(const struct config *config, struct arena *keep)
{
    const struct setting_where *where = &config->where[setting_at(SCOPE_GLOBAL, S("listen"))];
    slice address = ask_reachable(keep, slice_of(config->listen));
    return (struct place){ arena_printf(keep, "http://%.*s", SLICE_ARG(address)),
                           arena_printf(keep, "listen, %.*s",
                                        SLICE_ARG(config_where(where, keep))) };
}

static struct place find_place(const struct config *config, const char *url, struct arena *keep)
{
    const struct setting_where *where = &config->where[setting_at(SCOPE_GLOBAL, S("listen"))];
    struct place place = { slice_of(url), S("--url") };
    if (!url && where->from < FROM_ENV)
        place = env_place("AWS_ENDPOINT_URL_S3");
    if (!place.url.len && !url && where->from < FROM_ENV)
        place = env_place("AWS_ENDPOINT_URL");
    return place.url.len || url ? place : settings_place(config, keep);
}

/* Reads scheme://HOST[:PORT][/PATH]. Returns false, and reports it, if the URL has another form. */
static bool take_url(const struct place *place, struct arena *keep, struct server *server)
{
    slice url = place->url, rest;
    const char *why;    /* the message has all rules */
    bool tls = slice_starts(url, S("https://"));
    if (!tls && !slice_starts(url, S("http://"))) {
        fprintf(stderr, "penstock %s: the address of the service (%.*s) must be http://HOST:PORT or "
                "https://HOST:PORT, not \"%.*s\"\n", server->command, SLICE_ARG(place->from), SLICE_ARG(url));
        return false;
    }
    rest = slice_from(url, tls ? 8 : 7);
    slice host = slice_cut(&rest, '/');
    if (!url_host_is_valid(host, &why) || rest.len) {
        fprintf(stderr, "penstock %s: the address of the service (%.*s) must be "
                "http://HOST:PORT or https://HOST:PORT, with a PORT from 1 to 65535 and nothing "
                "after it, not \"%.*s\"\n", server->command, SLICE_ARG(place->from),
                SLICE_ARG(url));
        return false;
    }
    server->url = arena_printf(keep, "http%s://%.*s", tls ? "s" : "", SLICE_ARG(host));
    server->url_from = arena_copy(keep, place->from);
    return true;
}

/* ---- the key ---- */

/* Returns the first client with a key that may do everything, else the first client with a key. */
static const struct config_key *key_of(const struct config *config)
{
    const struct config_key *first = NULL;
    for (size_t i = 0; i < config->key_count; i++) {
        const struct config_key *key = &config->keys[i];
        if (!key->access_key[0] || !key->secret_key[0])
            continue;
        for (size_t row = 0; row < key->row_count; row++)
            if (key->rows[row].rights == RIGHT_ALL && !key->rows[row].bucket.len)
                return key;
        first = first ? first : key;
    }
    return first;
}

static slice key_from(const struct config_key *key, struct arena *keep)
{
    const struct setting_where *where = &key->where[setting_at(SCOPE_KEY, S("access_key"))];
    return arena_printf(keep, "%s%saccess_key, %.*s", key->name, key->name[0] ? "." : "",
                        SLICE_ARG(config_where(where, keep)));
}

static void take_settings_key(const struct config_key *key, struct arena *keep,
                              struct server *server)
{
    server->keys = (struct sigv4_credentials){
        arena_copy(keep, slice_of(key->access_key)), arena_copy(keep, slice_of(key->secret_key)),
        arena_copy(keep, slice_of(key->session_token)) };
    server->keys_from = key_from(key, keep);
}

/* Takes the key of the environment. If there is none, takes one of the settings; if they have none,
 * takes the key of a profile. */
static bool take_key(const struct config *config, struct arena *keep, struct server *server)
{
    struct credentials found = { .region = S("") };
    slice why;
    const struct config_key *key = key_of(config);
    if (key && !config->aws_in_env) {
        take_settings_key(key, keep, server);
    } else if (credentials_of_caller(config, keep, &found, &why)) {
        fprintf(stderr, "penstock %s: there is no key to sign the request with: %.*s. %s%s\n",
                server->command, SLICE_ARG(why), config->file_unread ? "The settings file can't be read by this "
                "user, or has a mistake. " : "", "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY "
                "to a pair in the settings of the service: access_key and secret_key, or a row of "
                "\"keys\"");
        return false;
    } else {
        server->keys = (struct sigv4_credentials){ found.access_key, found.secret_key,
                                                   found.session_token };
        server->keys_from = found.from;
    }
    slice regions = slice_of(config->regions), first = slice_trim(slice_cut(&regions, ','));
    server->region = found.region.len ? found.region : first.len ? arena_copy(keep, first)
                                                                 : S("us-east-1");
    return true;
}

/* ---- the command line ---- */

static const char *cut_url(struct cli *cli)
{
    for (size_t i = 0; i < cli->argc; i++) {
        const char *word = cli->argv[i];
        if (!slice_starts_nocase(slice_of(word), S("s3://")))
            continue;
        memmove(cli->argv + i, cli->argv + i + 1, (--cli->argc - i) * sizeof(*cli->argv));
        return word;
    }
    return NULL;
}

/* Takes the s3:// URL out of argv. Returns false, and reports it, if there is none, or a wrong
 * one. */
static bool take_word(struct cli *cli, const char *command, struct s3_url *ret)
{
    const char *word = cut_url(cli), *why;
    if (word && cut_url(cli)) {
        fprintf(stderr, "penstock %s: give only one s3:// URL. Run the command once for each "
                "URL\n", command);
        return false;
    }
    word = word ? word : cli_word(cli);
    if (!word) {
        fprintf(stderr, "penstock %s: the bucket is missing: penstock %s --help shows the "
                "s3:// URL that the command needs\n", command, command);
        return false;
    }
    if (s3_url_read(word, ret, &why))
        return true;
    struct text text = text_in(&cli->arena);
    show_name(&text, slice_of(word));
    fprintf(stderr, "penstock %s: \"%.*s\" %s: write s3://BUCKET/PREFIX\n", command, (int)text.len,
            text.ptr, why);
    return false;
}

static bool take_timeout(struct cli *cli, struct server *server)
{
    const char *text = cli_option(cli, "--timeout");
    uint64_t seconds = TIMEOUT_S;
    if (text && (!slice_u64(slice_of(text), &seconds) || !seconds || seconds > TIMEOUT_S_MAX)) {
        fprintf(stderr, "penstock %s: --timeout must be a number of seconds, from 1 to %u, not "
                "\"%s\"\n", server->command, TIMEOUT_S_MAX, text);
        return false;
    }
    server->timeout_ms = seconds * 1000;
    server->until_ms = mono_ms() + server->timeout_ms;
    return true;
}

static int find(struct cli *cli, const struct config *config, const char *url,
                struct server *server)
{
    struct place place = find_place(config, url, &cli->arena);
    if (!take_url(&place, &cli->arena, server))
        return EXIT_USAGE;
    if (!take_key(config, &cli->arena, server))
        return EXIT_FAILED;
    if (config->aws_ca_bundle)
        server->ca_file = arena_copy(&cli->arena, slice_of(config->aws_ca_bundle)).ptr;
    server->sigv4 = sigv4_new();
    return EXIT_GOOD;
}

int server_run(struct cli *cli, const char *command, server_judge *judge, server_work *work,
               void *arg)
{
    const char *url = cli_option(cli, "--url");
    struct server server = { .command = command, .json = cli_flag(cli, "--json") };
    if (!take_word(cli, command, &server.of) || !take_timeout(cli, &server))
        return EXIT_USAGE;
    struct config *config = cli_load(cli, NULL);
    bool good = !cli_mistakes(cli, config, "command line", stderr) &&
                (!judge || judge(arg, &server.of));
    int status = good ? find(cli, config, url, &server) : EXIT_USAGE;
    config_free(&config);
    if (!status)
        status = work(arg, &server, &cli->arena);
    sigv4_free(&server.sigv4);
    return status;
}
