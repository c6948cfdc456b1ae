/* credentials.c - whose name an origin is asked in. SPDX-License-Identifier: Apache-2.0
 *
 * The AWS files are lists of "[section]" and "name = value". Sections of the config file are called
 * "profile NAME" (but "default"), those of the credentials file just "NAME". A pair is never put
 * together from two places. What other SDKs do beyond that (sso, credential_process, instance
 * roles) is not done here, and the message says what is looked at. */
#include "origin/credentials.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define FILE_BYTES_MAX (1024 * 1024)

static slice env(const struct credentials_ask *ask, const char *name)
{
    return slice_of(ask->env(name));
}

/* A file that is not there is an empty one. */
static enum err read_file(struct arena *keep, slice path, slice *ret)
{
    *ret = S("");
    FILE *file = path.len ? fopen(arena_copy(keep, path).ptr, "re") : NULL;
    if (!file)
        return path.len && errno != ENOENT && errno != ENOTDIR ? ERR_IO : OK;
    char *bytes = arena_alloc(keep, FILE_BYTES_MAX);
    size_t len = fread(bytes, 1, FILE_BYTES_MAX, file);
    enum err e = ferror(file) || len == FILE_BYTES_MAX ? ERR_IO : OK;
    fclose(file);
    *ret = (slice){ bytes, len };
    return e;
}

static slice trim_line(slice line)
{
    while (line.len && line.ptr[line.len - 1] == '\r')
        line.len--;
    return slice_trim(line);
}

/* The value of `name` in [section]; empty if there is none. A later one wins, as in the SDKs. */
static slice look_up(slice file, slice section, slice name)
{
    slice found = S("");
    bool inside = false;
    for (slice rest = file; rest.ptr;) {
        slice raw = slice_cut(&rest, '\n'), line = trim_line(raw);
        if (line.len == 0 || line.ptr[0] == '#' || line.ptr[0] == ';')
            continue;
        if (line.ptr[0] == '[') {
            slice title = slice_from(line, 1);
            inside = slice_eq(slice_trim(slice_cut(&title, ']')), section);
            continue;
        }
        if (!inside || raw.ptr[0] == ' ' || raw.ptr[0] == '\t')
            continue;    /* indented: below another setting */
        slice value = line, key = slice_trim(slice_cut(&value, '='));
        if (slice_eq_nocase(key, name))
            found = slice_trim(value);
    }
    return found;
}

struct files {
    slice credentials, config;      /* their text */
    slice profile, config_section;
};

static slice path_of(struct arena *keep, const struct credentials_ask *ask, const char *name,
                     const char *below_home)
{
    slice set = env(ask, name), home = env(ask, "HOME");
    if (set.len)
        return set;
    return home.len ? arena_printf(keep, "%.*s/%s", SLICE_ARG(home), below_home) : S("");
}

static enum err read_files(struct arena *keep, const struct credentials_ask *ask, struct files *ret,
                           slice *ret_why)
{
    slice credentials = path_of(keep, ask, "AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials");
    slice config = path_of(keep, ask, "AWS_CONFIG_FILE", ".aws/config");
    ret->profile = ask->profile.len ? ask->profile : env(ask, "AWS_PROFILE");
    if (!ret->profile.len)
        ret->profile = S("default");
    ret->config_section = slice_eq(ret->profile, S("default"))
        ? ret->profile : arena_printf(keep, "profile %.*s", SLICE_ARG(ret->profile));
    ret->config = S("");
    enum err e = read_file(keep, credentials, &ret->credentials);
    if (!e)
        e = read_file(keep, config, &ret->config);
    if (e)
        *ret_why = arena_printf(keep, "%.*s or %.*s can't be read: %s", SLICE_ARG(credentials),
                                SLICE_ARG(config), strerror(errno));
    return e;
}

static slice in_files(const struct files *files, slice name)
{
    slice found = look_up(files->credentials, files->profile, name);
    return found.len ? found : look_up(files->config, files->config_section, name);
}

static void find_region(const struct credentials_ask *ask, const struct files *files,
                        struct credentials *ret)
{
    ret->region = ask->region;
    if (!ret->region.len)
        ret->region = env(ask, "AWS_REGION");
    if (!ret->region.len)
        ret->region = env(ask, "AWS_DEFAULT_REGION");
    if (!ret->region.len)
        ret->region = in_files(files, S("region"));
}

/* What was found under two names, in a place called `from`. */
static enum err settle(struct arena *keep, struct credentials *ret, slice from,
                       const char *access_name, const char *secret_name, slice *ret_why)
{
    bool half = ret->access_key.len > 0, in_file = slice_starts(from, S("profile"));
    if (!half || !ret->secret_key.len) {
        *ret_why = arena_printf(keep, "%s is set and %s is not: set both%s%.*s",
                                half ? access_name : secret_name, half ? secret_name : access_name,
                                in_file ? " in " : "", SLICE_ARG(in_file ? from : S("")));
        return ERR_BAD_ARGUMENT;
    }
    ret->from = from;
    ret->access_key = arena_copy(keep, ret->access_key);
    ret->secret_key = arena_copy(keep, ret->secret_key);
    ret->session_token = arena_copy(keep, ret->session_token);
    ret->region = arena_copy(keep, ret->region);
    return OK;
}

enum err credentials_find(struct arena *keep, const struct credentials_ask *ask,
                          struct credentials *ret, slice *ret_why)
{
    struct files files;
    enum err e = read_files(keep, ask, &files, ret_why);
    find_region(ask, &files, ret);
    ret->access_key = ask->access_key;
    ret->secret_key = ask->secret_key;
    ret->session_token = ask->session_token;
    if (ret->access_key.len || ret->secret_key.len)
        return settle(keep, ret, S("settings"), "the access key", "the secret key", ret_why);
    if (!ask->profile.len) {    /* a profile that was asked for goes before the environment */
        ret->access_key = env(ask, "AWS_ACCESS_KEY_ID");
        ret->secret_key = env(ask, "AWS_SECRET_ACCESS_KEY");
        ret->session_token = env(ask, "AWS_SESSION_TOKEN");
        if (ret->access_key.len || ret->secret_key.len)
            return settle(keep, ret, S("env AWS_ACCESS_KEY_ID"), "AWS_ACCESS_KEY_ID",
                          "AWS_SECRET_ACCESS_KEY", ret_why);
    }
    ret->access_key = in_files(&files, S("aws_access_key_id"));
    ret->secret_key = in_files(&files, S("aws_secret_access_key"));
    ret->session_token = in_files(&files, S("aws_session_token"));
    if (ret->access_key.len || ret->secret_key.len)
        return settle(keep, ret, arena_printf(keep, "profile %.*s", SLICE_ARG(files.profile)),
                      "aws_access_key_id", "aws_secret_access_key", ret_why);
    if (e)
        return e;    /* only now does it matter that a file could not be read */
    *ret_why = arena_printf(keep,
        "there are no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give "
        "profile '%.*s' an aws_access_key_id, or name keys in the settings "
        "(other sources are not known here)",
        SLICE_ARG(files.profile));
    return ERR_NOT_FOUND;
}
