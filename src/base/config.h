/* config.h - the settings in force, and the source of each. SPDX-License-Identifier: Apache-2.0
 *
 * Flags > environment > file > default. A load returns all mistakes at once; if there is one, the
 * values may be printed and not used. A loaded config does not change, so any thread may read
 * it. */
#ifndef BASE_CONFIG_H
#define BASE_CONFIG_H

#include "base/setting.h"
#include "base/url_kind.h"

enum setting_source { FROM_DEFAULT, FROM_FILE, FROM_ENV, FROM_FLAG };
struct setting_where {
    enum setting_source from;
    const char *name;        /* "--ttl", "PENSTOCK_TTL", or the path of the file */
    unsigned line, column;   /* FROM_FILE */
    const char *secret_file; /* the value was read from this file (NAME_file), or NULL */
};

/* Groups of the file. where[i] belongs to settings[i]. */
struct config_origin {
    const char *name;        /* "default" for the one made of the origin* settings */
    struct setting_where *where;
    const struct url_kind *kind;    /* NULL: its URL is missing or wrong, which is a mistake */
#define ORIGIN(id, type, ...) SETTING_C_##type id;
#include "base/config.def"
};

struct config_bucket {
    const char *name;        /* BUCKET or BUCKET/PREFIX, as written */
    struct setting_where *where;
    slice bucket, prefix;    /* the two halves; prefix may be empty */
    const struct config_origin *from;    /* where its objects come from */
#define BUCKET(id, type, ...) SETTING_C_##type id;
#include "base/config.def"
};

/* Rights of a client that uses the shared identity. A row allows; no row forbids. */
enum { RIGHT_READ = 1, RIGHT_LIST = 2, RIGHT_WRITE = 4, RIGHT_ADMIN = 8, RIGHT_ALL = 15 };
struct config_policy {
    unsigned rights;
    slice bucket, prefix;    /* bucket empty: everywhere */
};

struct config_key {
    const char *name;        /* "keys[0]" */
    struct setting_where *where;
    struct config_policy *rows;    /* of its policy; none: it has an origin identity of its own */
    size_t row_count;
    bool rows_read;          /* it is an array, and its mistakes are reported */
#define KEY(id, type, ...) SETTING_C_##type id;
#include "base/config.def"
};

struct config_mistake {
    struct config_mistake *next;
    const char *file;        /* or "command line", "environment", "settings" */
    unsigned line, column;   /* 0: not in a file */
    const char *key, *text;
    const char *nearest;     /* a valid name near the wrong one, or NULL */
};

struct config {
#define GLOBAL(id, type, ...) SETTING_C_##type id;
#define CONSTANT(id, type, ...) SETTING_C_##type id;
#include "base/config.def"
    struct setting_where *where;
    url_kinds *kinds;                              /* from config_sources */
    /* The origin that the setting origin makes comes first, under the name "default". Without it,
     * the only origin of the file is the default, too. */
    struct config_origin *origins;
    size_t origin_count;
    const struct config_origin *origin_default;    /* NULL: only buckets of the file have one */
    struct config_bucket *buckets;
    size_t bucket_count;
    struct config_key *keys;                       /* access_key and secret_key come first */
    size_t key_count;
    bool aws_in_env;                               /* AWS_ACCESS_KEY_ID or AWS_PROFILE is set */
    const char *aws_ca_bundle;                     /* AWS_CA_BUNDLE, or NULL */
    bool file_unread;                              /* its settings are unknown */
    struct config_mistake *mistakes;               /* in the order they were found */
    struct arena arena;                            /* everything above lives here */
};

/* The settings themselves (SCOPE_GLOBAL), or one object of "origins", "buckets" or "keys". */
struct config_group {
    enum setting_scope scope;
    const char *name;                              /* "west", "keys[0]"; "": the settings */
    void *values;                                  /* the struct of its scope */
    struct setting_where *where;
};

struct config_sources {
    size_t argc;
    const char *const *argv;    /* flags only; may be NULL */
    const char *const *env;     /* as environ; may be NULL */
    const char *path;           /* if neither gives one; NULL: the row's default */
    url_kinds *kinds;           /* of origins: origin_url_kind */
};

/* True if only this machine can reach the address. */
bool config_is_loopback(slice address);
/* egress_price as a number; 0 if it is empty. False: it is no number from 0 to 1000. */
bool config_price(const char *text, double *ret_dollars) MUST_USE;
/* Does any client use Penstock's own credentials at the origin? *ret_key: the key row that gives
 * this right, or NULL. */
bool config_shares_identity(const struct config *config, const struct config_key **ret_key);

struct config *config_load(const struct config_sources *from) MUST_USE;
void config_free(struct config **config);

/* The group at place i among those of its scope. False: i is behind the last. */
bool config_group_at(const struct config *config, enum setting_scope scope, size_t i,
                     struct config_group *ret) MUST_USE;
/* The path of a member in the file: "ttl", "origins.west.url"; member NULL: of the group. */
const char *config_path(const struct config_group *group, const char *member,
                        struct arena *keep) MUST_USE;

/* The names of the settings that differ ("ttl, mnist.freshness, lab.(new)"): of those that a reload
 * applies, or of those that need a restart. Empty: none. */
slice config_changes(const struct config *before, const struct config *after, bool reloadable,
                     struct arena *keep) MUST_USE;

/* "env PENSTOCK_TTL", "/etc/penstock/penstock.json:12", "default" */
slice config_where(const struct setting_where *where, struct arena *keep) MUST_USE;
/* "FILE:LINE:COLUMN: KEY: TEXT (did you mean "x"?)" */
slice config_mistake_line(const struct config_mistake *mistake, struct arena *keep) MUST_USE;

/* The row of an id, for where[]: config->where[setting_at(SCOPE_GLOBAL, S("ttl"))]. */
size_t setting_at(enum setting_scope scope, slice name);

#endif
