/* config_rules.c - rules about several settings together.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Each rule is a function in one table (config_rules). The function is called with each group of
 * its scope: with the general settings together, or with each entry of "origins", "buckets" or
 * "keys". If the group breaks the rule, the function reports this as a mistake at the value that
 * should change. A setting that needs another setting is a row of the table `needs`. */
#include "base/config_inside.h"

#include "base/header.h"

#include <stdlib.h>
#include <string.h>

#define CA_FILE_BYTES_MAX (4 * MIB)

bool config_is_loopback(slice s)
{
    return slice_starts(s, S("127.")) || slice_starts(s, S("[::1]:")) ||
           slice_starts(s, S("localhost:"));
}

bool config_is_everywhere(slice address)
{
    return slice_starts(address, S("0.0.0.0:")) || slice_starts(address, S("[::]:")) ||
           slice_starts(address, S("*:"));
}

/* ---- addresses and folders ---- */

static bool is_on(const char *address)
{
    return strcmp(address, "off") != 0;
}

static slice port_of(slice address)
{
    return url_cut_port(&address);
}

/* Returns true if a client that connects to one address could reach the other. */
static bool overlap(slice a, slice b)
{
    bool by_name = slice_starts(a, S("localhost:")) || slice_starts(b, S("localhost:"));
    if (!slice_eq(port_of(a), port_of(b)))
        return false;
    return slice_eq(a, b) || config_is_everywhere(a) || config_is_everywhere(b) ||
           (by_name && config_is_loopback(a) && config_is_loopback(b));
}

static void listeners_differ(struct config *config, const struct config_group *all)
{
    const struct {
        const char *name, *address;
    } rows[] = {
        { "listen", config->listen }, { "admin_listen", config->admin_listen },
        { "tls_listen", config->tls_listen }, { "peer_listen", config->peer_listen },
    };
    for (size_t i = 0; i < countof(rows); i++)
        for (size_t j = 0; j < i; j++)
            if (is_on(rows[i].address) && overlap(slice_of(rows[i].address),
                                                  slice_of(rows[j].address)))
                config_wrong(config, all, rows[i].name, "%s overlaps %s (%s): give one of them "
                             "another port", rows[i].address, rows[j].name, rows[j].address);
}

static bool is_host_name(slice name)
{
    return name.len && name.len <= 253 && !slice_has(S(".-"), name.ptr[0]) &&
           slice_only(name, LOWER_CHARS DIGIT_CHARS "-.");
}

static void peer_name_is_a_host_name(struct config *config, const struct config_group *all)
{
    slice name = slice_of(config->peer_name);
    if (name.len && !is_host_name(name))
        config_wrong(config, all, "peer_name", "is \"%.*s\", which is not a host name of a-z, "
                     "0-9, '-' and '.': set the DNS name that the certificates of all peers have, "
                     "without scheme, port or \"*\"", SLICE_ARG(name));
}

/* A domain must be a host name, not a URL: no request could match a URL. For empty domains, see
 * lists_have_no_empty_parts. */
static void domains_are_names(struct config *config, const struct config_group *all)
{
    slice rest = slice_of(config->domains);
    while (rest.len) {
        slice domain = slice_trim(slice_cut(&rest, ','));
        if (domain.len && !is_host_name(domain))
            config_wrong(config, all, "domains", "has \"%.*s\", which is not a host name of a-z, "
                         "0-9, '-' and '.'. Separate host names by commas, and write them without "
                         "http://, port, \"*\" or a leading dot", SLICE_ARG(domain));
    }
}

/* An empty part would be a region, user or domain that nobody meant. */
static void lists_have_no_empty_parts(struct config *config, const struct config_group *all)
{
    const struct {
        const char *name, *list;
    } rows[] = { { "regions", config->regions }, { "fill_users", config->fill_users },
                 { "domains", config->domains } };
    for (size_t i = 0; i < countof(rows); i++) {
        bool empty = false;
        for (slice rest = slice_of(rows[i].list); *rows[i].list && rest.ptr;)
            empty |= config_is_blank(slice_cut(&rest, ','));
        if (empty && !config_is_reported(config, all, rows[i].name))
            config_wrong(config, all, rows[i].name, "has an empty entry in \"%s\": remove the "
                         "extra comma", rows[i].list);
    }
}

static void origin_has_a_name(struct config *config, const struct config_group *group)
{
    if (config_is_blank(slice_of(group->name)))
        config_mistake_add(config, config_where_of(group, "url"), "origins", NULL,
                           "has an origin whose name is empty: give it a name");
}

static void forwarded_headers_may_be_sent(struct config *config, const struct config_group *all)
{
    slice rest = slice_of(config->forward_headers);
    while (rest.len) {
        slice name = slice_trim(slice_cut(&rest, ','));
        const char *why = name.len ? header_listed_breaks(name) : NULL;
        if (!name.len && !config_is_reported(config, all, "forward_headers"))
            config_wrong(config, all, "forward_headers", "has an empty entry in \"%s\": remove the "
                         "extra comma", config->forward_headers);
        if (why)
            config_wrong(config, all, "forward_headers", "must not have \"%.*s\": %s",
                         SLICE_ARG(name), why);
    }
}

/* If setting `name` is given, the setting `other` must be given, too.
 * The setting `lend` needs a token, because the port that serves objects also serves
 * /_/credentials. So for a browser, both belong to one web site: a page that is stored as an object
 * may ask for credentials. And any local process can connect to the port. */
static const struct {
    const char *name, *other, *why;
} needs[] = {
    { "tls_listen", "tls_cert_file",
      "needs a certificate: set tls_cert_file and tls_key_file" },
    { "tls_cert_file", "tls_listen",
      "is for https, which is off: set tls_listen, too, or remove tls_cert_file" },
    { "peer_listen", "peer_tls_cert_file",
      "needs a certificate: set peer_tls_cert_file and peer_tls_key_file" },
    { "peer_listen", "peer_tls_ca_file",
      "needs the CAs of the peers, since only peers may connect: set peer_tls_ca_file" },
    { "peer_listen", "peer_name",
      "needs the DNS name that the certificates of all peers have: set peer_name" },
    { "peer_tls_key_file", "peer_tls_cert_file",
      "is the key of a certificate that is not set: set peer_tls_cert_file, too" },
    { "secret_key_previous", "access_key",
      "is set without access_key: set access_key and secret_key, too, or remove "
      "secret_key_previous" },
    { "lend_token", "lend", "has no effect, since lend is off: set lend, or remove the token" },
    { "lend", "lend_token",
      "needs a token: without one, any process and any browser page on this machine could ask for "
      "a key pair. Make a token (umask 077; openssl rand -hex 24 > FILE), set lend_token_file to "
      "FILE, and give clients the token as AWS_CONTAINER_AUTHORIZATION_TOKEN" },
    { "traces_headers", "traces_url",
      "has no effect, since traces_url is not set: set traces_url, or remove the headers" },
    { "etcd_user", "etcd_password",
      "needs a password: set etcd_password_file, too, or remove etcd_user" },
    { "etcd_password", "etcd_user",
      "belongs to a user: set etcd_user, too, or remove the password" },
    { "metrics_token", "admin_token",
      "needs admin_token: set admin_token_file, too, or remove metrics_token" },
};

static void needs_are_met(struct config *config, const struct config_group *all)
{
    for (size_t i = 0; i < countof(needs); i++)
        if (config_is_given(all, needs[i].name) && !config_is_given(all, needs[i].other) &&
            !config_is_reported(config, all, needs[i].name) &&
            !config_is_reported(config, all, needs[i].other))
            config_wrong(config, all, needs[i].name, "%s", needs[i].why);
}

bool config_price(const char *text, double *ret_dollars)
{
    slice fraction = slice_of(text), whole = slice_cut(&fraction, '.');
    uint64_t dollars = 0, ignored;
    *ret_dollars = 0;
    if (!text[0])
        return true;
    if (!slice_u64(whole, &dollars) || dollars > 1000 || fraction.len > 9 ||
        (fraction.ptr && !slice_u64(fraction, &ignored)))
        return false;
    *ret_dollars = strtod(text, NULL);
    return true;
}

static void price_is_a_number(struct config *config, const struct config_group *all)
{
    double ignored;
    if (!config_price(config->egress_price, &ignored))
        config_wrong(config, all, "egress_price", "must be the price of a GB in dollars: a number "
                     "from 0 to 1000 without sign or currency, such as 0.09, not \"%s\"",
                     config->egress_price);
}

/* peers/ reads the setting, and base/ must not include it. */
static void peers_can_be_found(struct config *config, const struct config_group *all)
{
    const char *why;
    if (config->judge_peers && !config_is_reported(config, all, "peers") &&
        !config->judge_peers(slice_of(config->peers), &config->arena, &why))
        config_wrong(config, all, "peers", "%s", why);
}

/* The last rule: other mistakes in these settings come first. */
static void peers_can_ask_back(struct config *config, const struct config_group *all)
{
    if (config->peers[0] && !is_on(config->peer_listen) && !config->mistakes)
        config_wrong(config, all, "peers", "needs peer_listen: a node that asks others must answer "
                     "them, too");
}

static bool is_etcd(const struct config *config)
{
    return strncmp(config->peers, "etcd:", 5) == 0;
}

static void etcd_settings_have_an_effect(struct config *config, const struct config_group *all)
{
    static const char *const names[] = { "etcd_user", "etcd_password", "etcd_ca_file" };
    for (size_t i = 0; i < countof(names) && !is_etcd(config); i++)
        if (config_is_given(all, names[i]))
            config_wrong(config, all, names[i], "has no effect, since peers does not begin with "
                         "etcd: - set peers to etcd:URL/PREFIX, or remove %s", names[i]);
}

static void strangers_need_keys(struct config *config, const struct config_group *all)
{
    bool has_keys = config->key_count || config->aws_in_env || config->aws_profile[0] ||
                    config->lend;
    const char *addresses[] = { config->listen, config->tls_listen };
    static const char *const names[] = { "listen", "tls_listen" };
    for (size_t i = 0; i < countof(names); i++)
        if (is_on(addresses[i]) && !config_is_loopback(slice_of(addresses[i])) && !has_keys)
            config_wrong(config, all, names[i],
                         "is an address that other machines can reach, and no access_key is set: "
                         "set access_key and secret_key, or listen on a loopback address, such as "
                         "127.0.0.1:9000");
}

/* The scheme of an origin's URL, and the rest of the URL. */
struct url_parts {
    const struct url_scheme *scheme;    /* NULL: the URL is missing or wrong */
    slice rest;
};

static struct url_parts parts_of(const struct config *config, const struct config_origin *origin)
{
    struct url_parts parts = { NULL, S("") };
    (void)url_kind_of(config->kinds, slice_of(origin->url), &parts.scheme, &parts.rest);
    return parts;
}

/* Cached bytes inside the folder of an origin would be objects of that origin, and clients would
 * see them. */
static void cache_dir_is_outside(struct config *config, const struct config_group *group)
{
    const struct config_origin *origin = group->values;
    if (!origin->kind || !origin->kind->is_folder)
        return;
    const char *setting = config_folders_setting(config);
    struct config_group all = config_group_global(config);
    slice folder = slice_of(config_resolved(config, parts_of(config, origin).rest.ptr));
    for (size_t i = 0; i < config->folder_count; i++) {
        const char *path = config->folders[i].path;
        if (path_is_inside(slice_of(config_resolved(config, path)), folder))
            config_wrong(config, &all, setting, "%s lies inside the folder of the origin %s, so "
                         "clients would see the files of the cache as objects: set %s to a folder "
                         "elsewhere",
                         path, origin->url, setting);
    }
}

static void extent_fits_the_cache(struct config *config, const struct config_group *all)
{
    bool several = strcmp(config_folders_setting(config), "cache_dirs") == 0;
    for (size_t i = 0; config->extent_size_bytes && i < config->folder_count; i++) {
        const struct config_folder *folder = &config->folders[i];
        if (folder->size_bytes && config->extent_size_bytes > folder->size_bytes / 4) {
            config_wrong(config, all, "extent_size", "must be at most a quarter of the cache "
                         "folder's size, and the size of %s is %ju MiB: lower extent_size, or "
                         "raise %s",
                         folder->path, (uintmax_t)(folder->size_bytes / MIB), several
                         ? "the size of this folder in cache_dirs" : "cache_size");
            return;
        }
    }
}

/* ---- origins and buckets ---- */

static void global_keys_are_whole(struct config *config, const struct config_group *all)
{
    config_pair_is_whole(config, all, "origin_");
}

/* An origin without a key pair inherits that of the general settings, which global_keys_are_whole
 * checks. So only a pair of the origin's own is checked here. */
static void origin_keys_are_whole(struct config *config, const struct config_group *group)
{
    const struct config_origin *origin = group->values;
    if (origin->access_key != config->origin_access_key ||
        origin->secret_key != config->origin_secret_key)
        config_pair_is_whole(config, group, "");
}

static void there_is_an_origin(struct config *config, const struct config_group *all)
{
    if (!config->origin_count && !config->file_unread && !config_is_reported(config, all, "origin"))
        config_wrong(config, all, "origin", "no origin is set: set origin to %s, by --origin, by "
                     "PENSTOCK_ORIGIN or in the settings file (%s)",
                     url_forms(config->kinds, &config->arena),
                     config->config[0] ? config->config : "--config FILE");
}

/* True if no origin before this one has the same URL, and the URL is not that of a directory. */
static bool has_names(const struct config *config, size_t at)
{
    const char *url = config->origins[at].url;
    for (size_t i = 0; i < at; i++)
        if (strcmp(config->origins[i].url, url) == 0)
            return false;
    return strncmp(url, "dir:", 4) != 0;
}

/* Each cache folder has a file with a row for each S3 endpoint, which says whose credentials Penstock
 * uses there (store/names.c). The file has room for CONFIG_ORIGINS_MAX rows. Directories have no
 * credentials. */
static void origins_are_few(struct config *config, const struct config_group *all)
{
    size_t count = 0;
    for (size_t i = 0; i < config->origin_count; i++)
        count += has_names(config, i);
    if (count > CONFIG_ORIGINS_MAX)
        config_mistake_add(config, config_where_of(all, "origin"), "origins", NULL,
                           "the S3 origins have %zu different URLs (the setting \"origin\" counts, "
                           "too), and at most %u are allowed. Remove origins, or give some of "
                           "their buckets to another Penstock", count,
                           CONFIG_ORIGINS_MAX);
}

static void origin_has_a_url(struct config *config, const struct config_group *group)
{
    const struct config_origin *origin = group->values;
    if (!origin->url[0])
        config_wrong(config, group, "url", "is missing or not valid: set it to %s",
                     url_forms(config->kinds, &config->arena));
    if (origin != config->origins && config->origin[0] && strcmp(origin->name, "default") == 0)
        config_mistake_add(config, config_where_of(group, "url"), "origins.default", NULL,
                           "the setting \"origin\" already defines an origin, whose name is "
                           "default: give this entry another name, or remove the setting "
                           "\"origin\"");
}

/* Returns NULL if the file holds a certificate, else the fault. TLS later judges whether the
 * certificate is valid. */
static const char *ca_file_fault(struct config *config, const char *path)
{
    struct arena keep = { 0 };
    slice text;
    const char *why, *fault = NULL;
    if (!config_read_bytes(path, CA_FILE_BYTES_MAX, &keep, &text, &why))
        fault = arena_printf(&config->arena, "can't read %s: %s. Name a PEM file of CA "
                             "certificates that Penstock's user may read", path, why).ptr;
    else if (!strstr(text.ptr, "CERTIFICATE-----"))
        fault = arena_printf(&config->arena, "%s holds no certificate: name a PEM file of CA "
                             "certificates, each of which begins with -----BEGIN CERTIFICATE-----",
                             path).ptr;
    arena_free(&keep);
    return fault;
}

/* Several origins may inherit one file; then its fault is reported once. */
static void ca_file_holds_certificates(struct config *config, const struct config_group *group)
{
    const struct config_origin *origin = group->values;
    if (strncmp(origin->url, "https:", 6) != 0 || !origin->ca_file[0] ||
        config_is_reported(config, group, "ca_file"))
        return;
    const char *fault = ca_file_fault(config, origin->ca_file);
    if (fault)
        config_mistake_add(config, config_where_of(group, "ca_file"),
                           origin->ca_file == config->origin_ca_file ? "origin_ca_file" :
                           config_path(group, "ca_file", &config->arena), NULL, "%s", fault);
}

static void etcd_ca_file_holds_certificates(struct config *config, const struct config_group *all)
{
    if (!is_etcd(config) || !config->etcd_ca_file[0] ||
        config_is_reported(config, all, "etcd_ca_file"))
        return;
    const char *fault = ca_file_fault(config, config->etcd_ca_file);
    if (fault)
        config_wrong(config, all, "etcd_ca_file", "%s", fault);
}

/* Returns "HOST:PORT" of an origin, with the scheme's default port if the URL has none. The result
 * is empty if the URL has no host. */
static slice authority_of(struct config *config, const struct config_origin *origin)
{
    struct url_parts parts = parts_of(config, origin);
    if (!parts.scheme || !parts.scheme->port)
        return S("");
    slice authority = slice_cut(&parts.rest, '/');
    slice behind = authority;
    (void)slice_cut(&behind, ']');
    if (slice_has(slice_starts(authority, S("[")) ? behind : authority, ':'))
        return authority;
    return arena_printf(&config->arena, "%.*s:%u", SLICE_ARG(authority), parts.scheme->port);
}

static bool listens_there(const char *listen, slice authority)
{
    slice own = slice_of(listen);
    return slice_eq(own, authority) ||
           (slice_eq(port_of(own), port_of(authority)) && config_is_loopback(authority) &&
            (config_is_everywhere(own) || config_is_loopback(own)));
}

/* If Penstock were its own origin, each miss would send a request to Penstock itself, until all
 * connections wait for each other. */
static void origin_is_not_penstock(struct config *config, const struct config_group *group)
{
    const struct config_origin *origin = group->values;
    slice authority = authority_of(config, origin);
    bool from_setting = origin == config->origins && config->origin[0];
    if (authority.len && (listens_there(config->listen, authority) ||
                          listens_there(config->tls_listen, authority) ||
                          listens_there(config->peer_listen, authority) ||
                          listens_there(config->admin_listen, authority)))
        config_mistake_add(config, config_where_of(group, "url"), from_setting ? "origin" :
                           config_path(group, "url", &config->arena), NULL,
                           "%s is an address of Penstock itself (all loopback addresses with one "
                           "port count as one): set the URL of the server that holds the objects, "
                           "or change the port of Penstock or of that server", origin->url);
}

static bool same_identity(const struct config_origin *a, const struct config_origin *b)
{
    return strcmp(a->access_key, b->access_key) == 0 && strcmp(a->profile, b->profile) == 0 &&
           strcmp(a->session_token, b->session_token) == 0;
}

/* The cache keeps one copy of an endpoint's objects, for one shared identity. If there were two
 * shared identities, clients of one could read objects that only the other may read. */
static void endpoint_has_one_identity(struct config *config, const struct config_group *group)
{
    const struct config_origin *origin = group->values;
    slice authority = authority_of(config, origin);
    for (const struct config_origin *other = config->origins; other < origin; other++)
        if (authority.len && !same_identity(origin, other) &&
            slice_eq_nocase(authority, authority_of(config, other)))
            config_wrong(config, group, "access_key", "the credentials (access_key, session_token "
                         "or profile) differ from those of origin \"%s\", which has the same host "
                         "and port. The cache keeps one copy of each object for both origins, so "
                         "give both the same credentials. If a client needs other credentials, set "
                         "origin_access_key in the client's entry of keys",
                         other->name);
}

static const char *nearest_origin(const struct config *config, const char *name)
{
    for (size_t i = 0; i < config->origin_count; i++)
        if (name_distance(slice_of(config->origins[i].name), slice_of(name)) <= 2)
            return config->origins[i].name;
    return NULL;
}

static void bucket_has_an_origin(struct config *config, const struct config_group *group)
{
    const struct config_bucket *bucket = group->values;
    if (bucket->origin[0] && !bucket->from)
        config_mistake_add(config, config_where_of(group, "origin"),
                           config_path(group, "origin", &config->arena),
                           nearest_origin(config, bucket->origin),
                           "no origin is named \"%s\": add it to \"origins\", or correct the name",
                           bucket->origin);
    else if (!bucket->from && config->origin_count)
        config_wrong(config, group, "origin", "is missing, and there is no default origin: name "
                     "one of \"origins\" here, or set the setting \"origin\"");
}

const char *config_bucket_name_breaks(slice name)
{
    if (name.len < 3 || name.len > 63)
        return "a bucket name must have 3 to 63 characters";
    if (!slice_only(name, LOWER_CHARS DIGIT_CHARS "-."))
        return "in the settings, a bucket name may have only a-z, 0-9, '-' and '.'";
    if (slice_has(S("-."), name.ptr[0]) || slice_has(S("-."), name.ptr[name.len - 1]))
        return "a bucket name must begin and end with a letter or digit";
    return NULL;
}

static void bucket_name_is_valid(struct config *config, const struct config_group *group)
{
    const struct config_bucket *bucket = group->values;
    const char *rule = config_bucket_name_breaks(bucket->bucket);
    if (rule)
        config_mistake_add(config, config_where_of(group, "origin"),
                           config_path(group, NULL, &config->arena), NULL,
                           "must be BUCKET or BUCKET/PREFIX, and %s", rule);
}

const struct config_bucket *config_whole_bucket(const struct config *config,
                                                const struct config_bucket *part)
{
    for (size_t i = 0; part->prefix.len && i < config->bucket_count; i++) {
        const struct config_bucket *whole = &config->buckets[i];
        if (!whole->prefix.len && slice_eq(whole->bucket, part->bucket))
            return whole;
    }
    return NULL;
}

/* An entry for a whole bucket says where all keys of the bucket are. So an entry for a prefix of the
 * bucket must not name another origin: its keys would have two names in the cache. */
static void prefix_has_its_buckets_origin(struct config *config, const struct config_group *group)
{
    const struct config_bucket *part = group->values, *whole = config_whole_bucket(config, part);
    if (whole && whole->from && part->from && whole->from != part->from)
        config_wrong(config, group, "origin",
                     "differs from the origin in the entry for the whole bucket. Both entries must "
                     "have the same origin: remove origin here, or set the same origin in both "
                     "entries");
}

/* The value "prefix" of grant_scope means the prefix in the name of an entry of "buckets"
 * (BUCKET/PREFIX). So only an entry with such a name can have this value. */
static void no_global_prefix_scope(struct config *config, const struct config_group *all)
{
    if (strcmp(config->grant_scope, "prefix") == 0)
        config_wrong(config, all, "grant_scope",
                     "\"prefix\" is possible only in an entry of \"buckets\" whose name has a "
                     "prefix (BUCKET/PREFIX): set it there, or use \"object\" or \"bucket\" here");
}

static void prefix_scope_has_a_prefix(struct config *config, const struct config_group *group)
{
    const struct config_bucket *bucket = group->values;
    if (!bucket->prefix.len && strcmp(bucket->grant_scope, "prefix") == 0 &&
        !config_is_reported(config, group, "grant_scope"))
        config_wrong(config, group, "grant_scope", "\"prefix\" needs an entry with a prefix, and "
                     "\"%s\" has none: name this entry BUCKET/PREFIX, or use \"object\" or "
                     "\"bucket\"",
                     bucket->name);
}

void config_rules(struct config *config)
{
    static const struct {
        enum setting_scope scope;
        void (*rule)(struct config *config, const struct config_group *group);
    } rules[] = {
        { SCOPE_GLOBAL, listeners_differ }, { SCOPE_GLOBAL, domains_are_names },
        { SCOPE_GLOBAL, peer_name_is_a_host_name },
        { SCOPE_GLOBAL, forwarded_headers_may_be_sent },
        { SCOPE_GLOBAL, lists_have_no_empty_parts }, { SCOPE_ORIGIN, origin_has_a_name },
        { SCOPE_GLOBAL, needs_are_met }, { SCOPE_GLOBAL, price_is_a_number },
        { SCOPE_GLOBAL, peers_can_be_found }, { SCOPE_GLOBAL, etcd_settings_have_an_effect },
        { SCOPE_GLOBAL, etcd_ca_file_holds_certificates },
        { SCOPE_GLOBAL, strangers_need_keys }, { SCOPE_GLOBAL, config_folders_rule },
        { SCOPE_GLOBAL, extent_fits_the_cache }, { SCOPE_KEY, config_key_rules },
        { SCOPE_GLOBAL, global_keys_are_whole }, { SCOPE_ORIGIN, origin_keys_are_whole },
        { SCOPE_GLOBAL, there_is_an_origin }, { SCOPE_GLOBAL, origins_are_few }, { SCOPE_ORIGIN, origin_has_a_url },
        { SCOPE_ORIGIN, origin_is_not_penstock }, { SCOPE_ORIGIN, cache_dir_is_outside },
        { SCOPE_ORIGIN, ca_file_holds_certificates }, { SCOPE_ORIGIN, endpoint_has_one_identity },
        { SCOPE_BUCKET, bucket_name_is_valid }, { SCOPE_BUCKET, bucket_has_an_origin },
        { SCOPE_BUCKET, prefix_has_its_buckets_origin }, { SCOPE_GLOBAL, no_global_prefix_scope },
        { SCOPE_BUCKET, prefix_scope_has_a_prefix }, { SCOPE_GLOBAL, config_traces_rule },
        { SCOPE_GLOBAL, peers_can_ask_back },
    };
    struct config_group group;
    for (size_t i = 0; i < countof(rules); i++)
        for (size_t j = 0; config_group_at(config, rules[i].scope, j, &group); j++)
            rules[i].rule(config, &group);
}
