/* config.h - the settings in force, and the source of each. SPDX-License-Identifier: Apache-2.0
 *
 * Flags win over the environment, the environment over the file, and the file over the defaults. A
 * load returns all mistakes at once. If there is a mistake, the values may be printed, but not
 * used. A loaded config does not change, so any thread may read it. */
#ifndef BASE_CONFIG_H
#define BASE_CONFIG_H

#include "base/setting.h"
#include "base/url_kind.h"

enum setting_source { FROM_DEFAULT, FROM_FILE, FROM_ENV, FROM_FLAG };
struct setting_where {
    enum setting_source from;
    const char *name;        /* "--ttl", "PENSTOCK_TTL", or the path of the file */
    /* Of the value in a file; 0 if the value comes from elsewhere. If an entry of "origins",
     * "buckets" or "keys" leaves the value out, these are the line and column of that entry. */
    unsigned line, column;
    const char *secret_file; /* the value was read from this file (NAME_file), or NULL */
};

/* The groups of the file: entries of "origins", "buckets" and "keys". In each group, where[i] is
 * the source of the value of settings[i]. */
struct config_origin {
    const char *name;        /* "default": made of the settings origin and origin_* */
    struct setting_where *where;
    const struct url_kind *kind;    /* NULL: its URL is missing or wrong, which is a mistake */
#define ORIGIN(id, type, ...) SETTING_C_##type id;
#include "base/config.def"
};

struct config_bucket {
    const char *name;        /* BUCKET or BUCKET/PREFIX, as written */
    struct setting_where *where;
    slice bucket, prefix;    /* the two halves; prefix may be empty */
    const struct config_origin *from;    /* the origin of its objects */
#define BUCKET(id, type, ...) SETTING_C_##type id;
#include "base/config.def"
};

/* Rights of a client that uses the shared identity, which is Penstock's own credentials at the
 * origin. A row of a policy can only allow; no row forbids. */
enum {
    RIGHT_READ = 1, RIGHT_LIST = 2, RIGHT_WRITE = 4, RIGHT_ADMIN = 8, RIGHT_CACHE = 16,
    RIGHT_ALL = 31
};
struct config_policy {
    unsigned rights;
    slice bucket, prefix;    /* if `bucket` is empty: in all buckets */
};

struct config_key {
    const char *name;        /* "keys[0]" */
    struct setting_where *where;
    /* The rows of the policy. Without rows, the client has an origin identity of its own. */
    struct config_policy *rows;
    size_t row_count;
    bool rows_read;          /* the policy is an array, which config_file.c has checked */
#define KEY(id, type, ...) SETTING_C_##type id;
#include "base/config.def"
};

#define CONFIG_FOLDERS_MAX 64u
#define CONFIG_ORIGINS_MAX 256u      /* S3 origins with different URLs */
#define TRACES_HEADERS_MAX 32u       /* pairs of traces_headers */

struct config_folder {
    const char *path;
    uint64_t size_bytes;     /* 0: derived from the free space */
};

struct config_mistake {
    struct config_mistake *next;
    const char *file;        /* or "command line", "environment", "settings" */
    unsigned line, column;   /* 0: no place in a file */
    const char *key, *text;
    const char *nearest;     /* a valid name near the wrong one, or NULL */
};

/* Judges a value that a room above base/ reads. On failure returns false and sets *ret_why, in
 * keep, to the end of a sentence that begins with the name of the setting. */
typedef bool setting_judge(slice value, struct arena *keep, const char **ret_why);

struct config {
#define GLOBAL(id, type, ...) SETTING_C_##type id;
#define CONSTANT(id, type, ...) SETTING_C_##type id;
#include "base/config.def"
    struct setting_where *where;
    url_kinds *kinds;                              /* copied from config_sources */
    setting_judge *judge_peers;                    /* the same */
    /* If the setting `origin` is set, its origin comes first, under the name "default". If it is
     * not set, and the file has only one origin, that origin is the default. */
    struct config_origin *origins;
    size_t origin_count;
    const struct config_origin *origin_default;    /* NULL: only buckets[] have an origin */
    struct config_bucket *buckets;
    size_t bucket_count;
    struct config_key *keys;                       /* the first: from access_key, secret_key */
    size_t key_count;
    /* The folders of the setting cache_dirs, in its order; or the one folder that cache_dir and
     * cache_size give. */
    struct config_folder *folders;
    size_t folder_count;                           /* at least 1, also after a mistake */
    bool aws_in_env;    /* AWS_ACCESS_KEY_ID, AWS_ACCESS_KEY_ID_FILE or AWS_PROFILE is set */
    const char *aws_ca_bundle;                     /* AWS_CA_BUNDLE, or NULL */
    bool file_unread;                              /* the file's settings are unknown */
    /* In the order in which they were found. Those of one file are in the order of their places. */
    struct config_mistake *mistakes;
    struct arena arena;                            /* holds all memory of this struct */
};

/* The settings themselves (SCOPE_GLOBAL), or one object of "origins", "buckets" or "keys". */
struct config_group {
    enum setting_scope scope;
    const char *name;                              /* "west", "keys[0]"; "" for the settings */
    void *values;                                  /* the struct of that scope */
    struct setting_where *where;
};

struct config_sources {
    size_t argc;
    const char *const *argv;    /* flags only; may be NULL */
    const char *const *env;     /* like environ; may be NULL */
    const char *path;           /* used if argv and env name no file; NULL: the default */
    url_kinds *kinds;           /* origin_url_kind, the kinds of origins */
    setting_judge *judge_peers; /* members_may_be: judges the setting peers; NULL: nothing does */
};

/* True if only this machine can reach the address. */
bool config_is_loopback(slice address);
/* True if the address stands for all addresses of this machine. */
bool config_is_everywhere(slice address);
/* Reads egress_price as a number; an empty text is 0. Returns false if it is no number from 0 to
 * 1000. */
bool config_price(const char *text, double *ret_dollars) MUST_USE;
/* Reads traces_ratio. Returns false if it is no number from 0 to 1. */
bool config_ratio(const char *text, double *ret) MUST_USE;
/* Cuts the next NAME=VALUE pair off traces_headers. *ret_value, in keep, is decoded. Returns false
 * if the pair is malformed. */
bool config_traces_header(slice *rest, struct arena *keep, slice *ret_name,
                          slice *ret_value) MUST_USE;
/* Returns true if any client uses Penstock's own credentials at the origin: a row of "keys" has a
 * policy, there are no keys at all, or the setting `lend` is on. Sets *ret_key to the first row
 * with a policy, or to NULL if no row has a policy. */
bool config_shares_identity(const struct config *config, const struct config_key **ret_key);

struct config *config_load(const struct config_sources *from) MUST_USE;
void config_free(struct config **config);

/* Sets *ret to group i of the scope. Returns false if the scope has no group i. */
bool config_group_at(const struct config *config, enum setting_scope scope, size_t i,
                     struct config_group *ret) MUST_USE;
/* Returns the path of a member in the file ("ttl", "origins.west.url"), or the path of the group if
 * `member` is NULL. */
const char *config_path(const struct config_group *group, const char *member,
                        struct arena *keep) MUST_USE;

/* Returns the names of the settings that differ ("ttl, mnist.freshness"), and of groups that were
 * added or removed ("lab.(new)"); or an empty text if nothing differs. If `reloadable`, the names
 * are those of changes that a reload applies, otherwise those of changes that need a restart. */
slice config_changes(const struct config *before, const struct config *after, bool reloadable,
                     struct arena *keep) MUST_USE;

/* Returns, for example, "env PENSTOCK_TTL", "/etc/penstock/penstock.json:12" or "default". */
slice config_where(const struct setting_where *where, struct arena *keep) MUST_USE;
/* Returns "FILE:LINE:COLUMN: KEY: TEXT (did you mean "x"?)". */
slice config_mistake_line(const struct config_mistake *mistake, struct arena *keep) MUST_USE;

/* Returns the index of a setting in where[]: config->where[setting_at(SCOPE_GLOBAL, S("ttl"))]. */
size_t setting_at(enum setting_scope scope, slice name);

#endif
