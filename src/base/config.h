/* config.h - the settings in force, and where each came from. SPDX-License-Identifier: Apache-2.0
 *
 * Flags > environment > file > default. A load returns every mistake at once; with one or more of
 * them the values are for showing only. A loaded one doesn't change: any thread may read it. */
#ifndef BASE_CONFIG_H
#define BASE_CONFIG_H

#include "base/setting.h"
#include "base/url_kind.h"

enum setting_source { FROM_DEFAULT, FROM_TEST, FROM_FILE, FROM_ENV, FROM_FLAG };
struct setting_where {
    enum setting_source from;
    const char *name;        /* "--ttl", "PENSTOCK_TTL", or the path of the file */
    unsigned line, column;   /* FROM_FILE, FROM_TEST (its object "test") */
    const char *secret_file; /* the value is the text of this file (NAME_file); NULL: it isn't */
};

/* Groups of the file. where[] runs beside settings[]. */
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
    const struct config_origin *from;    /* where its keys come from */
#define BUCKET(id, type, ...) SETTING_C_##type id;
#include "base/config.def"
};

/* What a client may do with rights that are not its own. A row only allows. */
enum { RIGHT_READ = 1, RIGHT_LIST = 2, RIGHT_WRITE = 4, RIGHT_ADMIN = 8, RIGHT_ALL = 15 };
struct config_policy {
    unsigned rights;
    slice bucket, prefix;    /* bucket empty: everywhere */
};

struct config_key {
    const char *name;        /* "keys[0]" */
    struct setting_where *where;
    struct config_policy *rows;    /* of its policy; none: it asks the origin in its own name */
    size_t row_count;
    bool rows_read;          /* it is an array, and what is wrong in there was said */
#define KEY(id, type, ...) SETTING_C_##type id;
#include "base/config.def"
};

/* A setting of a group that the file names, and that is gone: the rest of it is read. */
struct config_gone {
    struct config_gone *next;
    const struct setting_gone *row;
    const char *key;         /* "origins.west.tries" */
    struct setting_where where;
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
    url_kinds *kinds;                              /* as the sources had them */
    /* The default origin, if there is one, comes first and is named "default"; one that is alone in
     * the file is the default too. */
    struct config_origin *origins;
    size_t origin_count;
    const struct config_origin *origin_default;    /* NULL: only buckets of the file are known */
    struct config_bucket *buckets;
    size_t bucket_count;
    struct config_key *keys;                       /* access_key and secret_key come first */
    size_t key_count;
    bool aws_in_env;                               /* AWS_ACCESS_KEY_ID or AWS_PROFILE is set */
    const char *aws_ca_bundle;                     /* AWS_CA_BUNDLE; NULL: it isn't */
    bool file_unread;                              /* what it says is not known */
    struct config_gone *gone;                      /* newest first */
    struct config_mistake *mistakes;               /* in the order they were found */
    struct arena arena;                            /* everything above lives here */
};

struct config_sources {
    size_t argc;
    const char *const *argv;    /* flags only; may be NULL */
    const char *const *env;     /* as environ; may be NULL */
    const char *path;           /* when none is named there; NULL: the row's default */
    url_kinds *kinds;           /* of origins: origin_url_kind */
};

/* Can an address to listen on be reached from this machine alone? */
bool config_is_loopback(slice address);
/* egress_price as a number; 0 if it is empty. False: it is none from 0 to 1000. */
bool config_price(slice text, double *ret_dollars) MUST_USE;
/* Does any client use Penstock's own credentials at the origin? NULL: no key says so. */
bool config_shares_identity(const struct config *config, const struct config_key **ret_key);

struct config *config_load(const struct config_sources *from) MUST_USE;
void config_free(struct config **config);

/* What differs, by name ("ttl, mnist.freshness, lab.(new)"): of settings that a reload takes
 * over, or of those that need a restart. Empty: nothing. */
slice config_changes(const struct config *before, const struct config *after, bool reloadable,
                     struct arena *keep) MUST_USE;

/* "env PENSTOCK_TTL", "/etc/penstock/penstock.json:12", "default" */
slice config_where(const struct setting_where *where, struct arena *keep) MUST_USE;
/* "FILE:LINE:COLUMN: KEY: TEXT (did you mean "x"?)" */
slice config_mistake_line(const struct config_mistake *mistake, struct arena *keep) MUST_USE;

/* The row of an id, for where[]: config->where[setting_at(SCOPE_GLOBAL, S("ttl"))]. */
size_t setting_at(enum setting_scope scope, slice name);

#endif
