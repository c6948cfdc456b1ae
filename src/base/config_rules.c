/* config_rules.c - what no single value of the settings can tell.
 * SPDX-License-Identifier: Apache-2.0
 *
 * One function a rule, all in one table; each adds a mistake at the value that should change. */
#include "base/config_inside.h"

#include "base/header.h"

#include <stdlib.h>
#include <string.h>

#define CA_FILE_BYTES_MAX (4 * MIB)

static const struct setting_where *at(const struct config *config, const char *name)
{
    return &config->where[setting_at(SCOPE_GLOBAL, slice_of(name))];
}

static const struct setting_where *in_group(const struct setting_where *where,
                                            enum setting_scope scope, const char *name)
{
    return &where[setting_at(scope, slice_of(name))];
}

bool config_is_loopback(slice s)
{
    return slice_starts(s, S("127.")) || slice_starts(s, S("[::1]:")) ||
           slice_starts(s, S("localhost:"));
}

static const char *group_key(struct config *config, const char *list, const char *name,
                             const char *member)
{
    return arena_printf(&config->arena, "%s.%s.%s", list, name, member).ptr;
}

/* ---- addresses and folders ---- */

static bool is_on(const char *address)
{
    return strcmp(address, "off") != 0;
}

static slice port_of(slice address)
{
    size_t i = address.len;
    while (i && address.ptr[i - 1] != ':')
        i--;
    return slice_from(address, i);
}

static bool is_everywhere(slice address)
{
    return slice_starts(address, S("0.0.0.0:")) || slice_starts(address, S("[::]:")) ||
           slice_starts(address, S("*:"));
}

/* Would a client of the one come to the other? */
static bool overlap(slice a, slice b)
{
    bool named = slice_starts(a, S("localhost:")) || slice_starts(b, S("localhost:"));
    if (!slice_eq(port_of(a), port_of(b)))
        return false;
    return slice_eq(a, b) || is_everywhere(a) || is_everywhere(b) ||
           (named && config_is_loopback(a) && config_is_loopback(b));
}

static void listeners_differ(struct config *config)
{
    const struct {
        const char *name, *address;
    } rows[] = {
        { "listen", config->listen }, { "admin_listen", config->admin_listen },
        { "tls_listen", config->tls_listen },
    };
    for (size_t i = 0; i < countof(rows); i++)
        for (size_t j = 0; j < i; j++)
            if (is_on(rows[i].address) && overlap(slice_of(rows[i].address),
                                                  slice_of(rows[j].address)))
                config_mistake_add(config, at(config, rows[i].name), rows[i].name, NULL,
                                   "%s overlaps %s (%s): give it another port",
                                   rows[i].address, rows[j].name, rows[j].address);
}

static void tls_has_a_certificate(struct config *config)
{
    if (is_on(config->tls_listen) && !config->tls_cert_file[0])
        config_mistake_add(config, at(config, "tls_listen"), "tls_listen", NULL,
                           "needs a certificate: set tls_cert_file and tls_key_file");
}

/* A name, not a URL: else no request would ever fit it. */
static void domains_are_names(struct config *config)
{
    slice rest = slice_of(config->domains);
    while (rest.len) {
        slice domain = slice_trim(slice_cut(&rest, ','));
        bool right = domain.len && domain.len < 254 && domain.ptr[0] != '.' && domain.ptr[0] != '-';
        for (size_t i = 0; i < domain.len; i++) {
            char c = domain.ptr[i];
            right &= (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
        }
        if (!right)
            config_mistake_add(config, at(config, "domains"), "domains", NULL,
                               "must be host names in lower case, separated by commas, without "
                               "http://, port, \"*\" or a dot in front, not \"%.*s\"",
                               SLICE_ARG(domain));
    }
}

/* An empty part would be a region or a user that nobody meant. */
static void lists_have_no_empty_parts(struct config *config)
{
    const struct {
        const char *name, *list;
    } rows[] = { { "regions", config->regions }, { "fill_users", config->fill_users },
                 { "domains", config->domains } };
    for (size_t i = 0; i < countof(rows); i++) {
        bool empty = false;
        for (slice rest = slice_of(rows[i].list); *rows[i].list && rest.ptr;)
            empty |= config_is_blank(slice_cut(&rest, ','));
        const struct setting_where *where = at(config, rows[i].name);
        if (empty && !config_is_said(config, where, rows[i].name))
            config_mistake_add(config, where, rows[i].name, NULL, "has an empty part, in \"%s\": "
                               "take the comma away", rows[i].list);
    }
}

static void origins_have_names(struct config *config)
{
    for (size_t i = 0; i < config->origin_count; i++)
        if (config_is_blank(slice_of(config->origins[i].name)))
            config_mistake_add(config, in_group(config->origins[i].where, SCOPE_ORIGIN, "style"),
                               "origins", NULL, "has an origin whose name is empty: name it");
}

static void forwarded_headers_may_go_on(struct config *config)
{
    slice rest = slice_of(config->forward_headers);
    while (rest.len) {
        slice name = slice_trim(slice_cut(&rest, ','));
        const char *why = header_named_breaks(name);
        if (why)
            config_mistake_add(config, at(config, "forward_headers"), "forward_headers", NULL,
                               "can't name \"%.*s\": it %s", SLICE_ARG(name), why);
    }
}

static void certificates_have_a_listener(struct config *config)
{
    if (!is_on(config->tls_listen) && config->tls_cert_file[0])
        config_mistake_add(config, at(config, "tls_cert_file"), "tls_cert_file", NULL,
                           "is for https, which is off: set tls_listen, too");
}

static void a_token_is_for_lending(struct config *config)
{
    if (config->lend_token[0] && !config->lend)
        config_mistake_add(config, at(config, "lend_token"), "lend_token", NULL,
                           "is for lend, which is off: set lend, too, or take it away");
}

static void a_previous_secret_has_a_next(struct config *config)
{
    const struct setting_where *where = at(config, "secret_key_previous");
    if (config_is_given(config->secret_key_previous, where) && !config->access_key[0] &&
        !config_is_said(config, where, "secret_key_previous"))
        config_mistake_add(config, where, "secret_key_previous", NULL,
                           "has no access_key and secret_key beside it");
}

/* Objects are served by the same port: to a browser, a page among them and /_/credentials are of
 * one origin. And whoever may run a process here may ask. */
static void lending_takes_a_token(struct config *config)
{
    const struct setting_where *token = at(config, "lend_token");
    if (config->lend && !config_is_given(config->lend_token, token) &&
        !config_is_said(config, token, "lend_token"))
        config_mistake_add(config, at(config, "lend"), "lend", NULL,
                           "needs a token: any process, and any page in a browser on this machine, "
                           "could ask for a key pair; make one (umask 077; openssl rand -hex 24 > "
                           "FILE), set lend_token_file to FILE, and give it to clients as "
                           "AWS_CONTAINER_AUTHORIZATION_TOKEN");
}

static void a_token_is_for_metrics(struct config *config)
{
    if (config->metrics_token &&
        !config_is_given(config->admin_token, at(config, "admin_token")))
        config_mistake_add(config, at(config, "metrics_token"), "metrics_token", NULL,
                           "says that metrics need admin_token, and there is none: set "
                           "admin_token_file, too, or take it away");
}

bool config_price(slice text, double *ret_dollars)
{
    slice fraction = text, whole = slice_cut(&fraction, '.');
    uint64_t units = 0, parts = 0;
    double scale = 1;
    *ret_dollars = 0;
    if (!text.len)
        return true;
    for (size_t i = 0; i < fraction.len; i++)
        scale *= 10;
    if (!slice_u64(whole, &units) || units > 1000 || fraction.len > 9 ||
        (fraction.ptr && !slice_u64(fraction, &parts)))
        return false;
    *ret_dollars = (double)units + (double)parts / scale;
    return true;
}

static void a_price_is_a_number(struct config *config)
{
    double ignored;
    if (!config_price(slice_of(config->egress_price), &ignored))
        config_mistake_add(config, at(config, "egress_price"), "egress_price", NULL,
                           "must be dollars a GB, such as 0.09, without a sign or a currency, "
                           "from 0 to 1000, not \"%s\"", config->egress_price);
}

static void strangers_need_keys(struct config *config)
{
    bool has_keys = config->key_count || config->aws_in_env || config->aws_profile[0] ||
                    config->lend;
    const char *addresses[] = { config->listen, config->tls_listen };
    static const char *const names[] = { "listen", "tls_listen" };
    for (size_t i = 0; i < countof(names); i++)
        if (is_on(addresses[i]) && !config_is_loopback(slice_of(addresses[i])) && !has_keys)
            config_mistake_add(config, at(config, names[i]), names[i], NULL,
                               "must be a loopback address while there is no access_key");
}

/* The scheme of an origin's URL, and what follows it. */
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

static void cache_dir_is_absolute(struct config *config)
{
    if (config->cache_dir[0] != '/')
        config_mistake_add(config, at(config, "cache_dir"), "cache_dir", NULL,
                           "must be an absolute path");
}

/* As the file system has it, where it is there already. */
static const char *resolved(struct config *config, const char *path)
{
    char *real = realpath(path, NULL);
    const char *kept = arena_copy(&config->arena, slice_of(real ? real : path)).ptr;
    free(real);
    return kept;
}

/* Cached bytes would be objects of the origin, and seen by every client. */
static void cache_dir_is_no_bucket(struct config *config)
{
    const char *cache = resolved(config, config->cache_dir);
    for (size_t i = 0; i < config->origin_count; i++) {
        const struct config_origin *origin = &config->origins[i];
        if (!origin->kind || !origin->kind->is_folder)
            continue;
        const char *path = parts_of(config, origin).rest.ptr;
        slice folder = slice_of(resolved(config, path)), inside = slice_of(cache);
        while (slice_ends(folder, S("/")))
            folder.len--;
        if (slice_starts(inside, folder) &&
            (inside.len == folder.len || inside.ptr[folder.len] == '/'))
            config_mistake_add(config, at(config, "cache_dir"), "cache_dir", NULL,
                               "%s lies inside of the origin %s: give it a folder elsewhere",
                               config->cache_dir, origin->url);
    }
}

static void an_extent_fits_the_cache(struct config *config)
{
    uint64_t size = config->cache_size_bytes, extent = config->extent_size_bytes;
    if (size && extent && extent > size / 4)
        config_mistake_add(config, in_group(config->where, SCOPE_CONSTANT, "extent_size"),
                           "extent_size", NULL,
                           "must be at most a quarter of cache_size");
}

/* ---- keys ---- */

/* prefix: of the names of both. */
static void pair_is_whole(struct config *config, const struct setting_where *where, const char *key,
                          const char *prefix, const char *access, bool secret)
{
    if (!access[0] != !secret)
        config_mistake_add(config, where, key, NULL, "has no %s%s beside it: set both, or neither",
                           prefix, access[0] ? "secret_key" : "access_key");
}

static void origin_keys_are_whole(struct config *config)
{
    const char *half = config->origin_access_key[0] ? "origin_access_key" : "origin_secret_key";
    pair_is_whole(config, at(config, half), half, "origin_", config->origin_access_key,
                  config_is_given(config->origin_secret_key, at(config, "origin_secret_key")));
    for (size_t i = 0; i < config->origin_count; i++) {
        const struct config_origin *origin = &config->origins[i];
        const char *named = origin->access_key[0] ? "access_key" : "secret_key";
        const struct setting_where *where = in_group(origin->where, SCOPE_ORIGIN, named);
        bool own = origin->access_key != config->origin_access_key ||
                   origin->secret_key != config->origin_secret_key;
        if (own)
            pair_is_whole(config, where, group_key(config, "origins", origin->name, named), "",
                          origin->access_key,
                          config_is_given(origin->secret_key,
                                          in_group(origin->where, SCOPE_ORIGIN, "secret_key")));
    }
}

/* ---- origins and buckets ---- */

static void there_is_an_origin(struct config *config)
{
    bool known = config->origin_count || config_is_said(config, at(config, "origin"), "origin");
    if (!known && !config->file_unread)
        config_mistake_add(config, at(config, "origin"), "origin", NULL,
                           "no origin at all: set origin to %s, by --origin, by PENSTOCK_ORIGIN "
                           "or in the settings file (%s)", url_forms(config->kinds, &config->arena),
                           config->config[0] ? config->config : "--config FILE");
}

static void origins_have_urls(struct config *config)
{
    for (size_t i = 0; i < config->origin_count; i++) {
        const struct config_origin *origin = &config->origins[i];
        const struct setting_where *where = in_group(origin->where, SCOPE_ORIGIN, "url");
        const char *key = group_key(config, "origins", origin->name, "url");
        if (!origin->url[0])
            config_mistake_add(config, where, key, NULL, "is missing");
        if (i && config->origin[0] && strcmp(origin->name, "default") == 0)
            config_mistake_add(config, where, "origins.default", NULL,
                               "is the name of what origin makes: use another");
    }
}

/* NULL if it could vouch for somebody. What its certificates are worth is for TLS to say. */
static const char *ca_file_fault(struct config *config, const char *path)
{
    struct arena keep = { 0 };
    slice text;
    const char *why, *fault = NULL;
    if (!config_read_bytes(path, CA_FILE_BYTES_MAX, &keep, &text, &why))
        fault = arena_printf(&config->arena, "can't read %s: %s", path, why).ptr;
    else if (!strstr(text.ptr, "CERTIFICATE-----"))
        fault = arena_printf(&config->arena, "%s holds no certificate (PEM)", path).ptr;
    arena_free(&keep);
    return fault;
}

static void ca_files_hold_certificates(struct config *config)
{
    for (size_t i = 0; i < config->origin_count; i++) {
        const struct config_origin *origin = &config->origins[i];
        const struct setting_where *where = in_group(origin->where, SCOPE_ORIGIN, "ca_file");
        const char *key = origin->ca_file == config->origin_ca_file
                              ? "origin_ca_file"
                              : group_key(config, "origins", origin->name, "ca_file");
        if (strncmp(origin->url, "https:", 6) != 0 || !origin->ca_file[0] ||
            config_is_said(config, where, key))
            continue;
        const char *fault = ca_file_fault(config, origin->ca_file);
        if (fault)
            config_mistake_add(config, where, key, NULL, "%s", fault);
    }
}

/* "HOST:PORT" of an origin, with the scheme's own port where its URL names none. Empty: its URL has
 * no host. */
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
            (is_everywhere(own) || config_is_loopback(own)));
}

/* Each miss would ask itself, until all connections wait for each other. */
static void origins_are_not_ourselves(struct config *config)
{
    for (size_t i = 0; i < config->origin_count; i++) {
        const struct config_origin *origin = &config->origins[i];
        slice authority = authority_of(config, origin);
        if (authority.len && (listens_there(config->listen, authority) ||
                              listens_there(config->tls_listen, authority) ||
                              listens_there(config->admin_listen, authority)))
            config_mistake_add(config, in_group(origin->where, SCOPE_ORIGIN, "url"),
                               !i && config->origin[0] ? "origin" :
                               group_key(config, "origins", origin->name, "url"), NULL,
                               "%s is where Penstock itself listens", origin->url);
    }
}

static bool same_identity(const struct config_origin *a, const struct config_origin *b)
{
    return strcmp(a->access_key, b->access_key) == 0 && strcmp(a->profile, b->profile) == 0 &&
           strcmp(a->session_token, b->session_token) == 0;
}

/* What is cached of an endpoint is one, so its shared identity must be, too: else what one of them
 * may read would be read by the other. */
static void an_endpoint_has_one_identity(struct config *config)
{
    for (size_t i = 0; i < config->origin_count; i++) {
        const struct config_origin *origin = &config->origins[i];
        slice authority = authority_of(config, origin);
        for (size_t j = 0; j < i && authority.len; j++) {
            const struct config_origin *other = &config->origins[j];
            if (!same_identity(origin, other) &&
                slice_eq_nocase(authority, authority_of(config, other)))
                config_mistake_add(config, in_group(origin->where, SCOPE_ORIGIN, "access_key"),
                                   group_key(config, "origins", origin->name, "access_key"), NULL,
                                   "is another than that of origin \"%s\", which is the same "
                                   "endpoint: give the clients keys of their own", other->name);
        }
    }
}

static const char *nearest_origin(const struct config *config, const char *name)
{
    for (size_t i = 0; i < config->origin_count; i++)
        if (name_distance(slice_of(config->origins[i].name), slice_of(name)) <= 2)
            return config->origins[i].name;
    return NULL;
}

static void buckets_have_origins(struct config *config)
{
    for (size_t i = 0; i < config->bucket_count; i++) {
        const struct config_bucket *bucket = &config->buckets[i];
        const struct setting_where *where = in_group(bucket->where, SCOPE_BUCKET, "origin");
        const char *key = group_key(config, "buckets", bucket->name, "origin");
        if (bucket->origin[0] && !bucket->from)
            config_mistake_add(config, where, key, nearest_origin(config, bucket->origin),
                               "no origin is named \"%s\": add it to \"origins\", or correct the name",
                               bucket->origin);
        else if (!bucket->from && config->origin_count)
            config_mistake_add(config, where, key, NULL,
                               "is missing, and there is no default origin");
    }
}

const char *config_bucket_name_breaks(slice name)
{
    if (name.len < 3 || name.len > 63)
        return "a bucket name has 3 to 63 characters";
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        bool mark = c == '-' || c == '.';
        if (!mark && !(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9'))
            return "a bucket name has only a-z, 0-9, '-' and '.'";
        if (mark && (i == 0 || i == name.len - 1))
            return "a bucket name begins and ends with a letter or digit";
    }
    return NULL;
}

static void bucket_names_are_valid(struct config *config)
{
    for (size_t i = 0; i < config->bucket_count; i++) {
        const struct config_bucket *bucket = &config->buckets[i];
        const struct setting_where *where = in_group(bucket->where, SCOPE_BUCKET, "origin");
        const char *key = arena_printf(&config->arena, "buckets.%s", bucket->name).ptr;
        const char *rule = config_bucket_name_breaks(bucket->bucket);
        if (rule)
            config_mistake_add(config, where, key, NULL, "must be BUCKET or BUCKET/PREFIX, and %s",
                               rule);
    }
}

/* A prefix is part of its bucket: else its keys would have two homes, and two names here. */
static void a_prefix_has_its_buckets_origin(struct config *config)
{
    for (size_t i = 0; i < config->bucket_count; i++) {
        const struct config_bucket *part = &config->buckets[i];
        for (size_t j = 0; part->prefix.len && j < config->bucket_count; j++) {
            const struct config_bucket *whole = &config->buckets[j];
            if (!whole->prefix.len && slice_eq(whole->bucket, part->bucket) && part->from &&
                whole->from && whole->from != part->from && part->origin[0])
                config_mistake_add(config, in_group(part->where, SCOPE_BUCKET, "origin"),
                                   group_key(config, "buckets", part->name, "origin"), NULL,
                                   "a prefix can't have another origin than its bucket");
        }
    }
}

/* A prefix is what a row says it is. */
static void prefix_scopes_have_prefixes(struct config *config)
{
    if (strcmp(config->grant_scope, "prefix") == 0)
        config_mistake_add(config, at(config, "grant_scope"), "grant_scope", NULL,
                           "\"prefix\" is for rows of buckets that name one (BUCKET/PREFIX)");
    for (size_t i = 0; i < config->bucket_count; i++) {
        const struct config_bucket *bucket = &config->buckets[i];
        const struct setting_where *where = in_group(bucket->where, SCOPE_BUCKET, "grant_scope");
        const char *key = group_key(config, "buckets", bucket->name, "grant_scope");
        if (!bucket->prefix.len && strcmp(bucket->grant_scope, "prefix") == 0 &&
            !config_is_said(config, where, "grant_scope"))
            config_mistake_add(config, where, key, NULL, "there is no prefix in \"%s\": name one "
                               "(BUCKET/PREFIX), or say \"bucket\"", bucket->name);
    }
}

void config_rules(struct config *config)
{
    static void (*const rules[])(struct config *config) = {
        listeners_differ, tls_has_a_certificate, certificates_have_a_listener, domains_are_names,
        forwarded_headers_may_go_on,
        lists_have_no_empty_parts, origins_have_names,
        a_previous_secret_has_a_next, a_token_is_for_lending, lending_takes_a_token,
        a_token_is_for_metrics, a_price_is_a_number,
        strangers_need_keys, cache_dir_is_absolute,
        an_extent_fits_the_cache, config_key_rules, origin_keys_are_whole, there_is_an_origin,
        origins_have_urls, origins_are_not_ourselves, cache_dir_is_no_bucket,
        ca_files_hold_certificates, an_endpoint_has_one_identity, bucket_names_are_valid,
        buckets_have_origins, a_prefix_has_its_buckets_origin, prefix_scopes_have_prefixes,
    };
    for (size_t i = 0; i < countof(rules); i++)
        rules[i](config);
}
