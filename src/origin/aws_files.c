/* aws_files.c - reads the AWS files of a user (aws_files.h). SPDX-License-Identifier: Apache-2.0 */
#include "origin/aws_files.h"

#include <errno.h>
#include <string.h>

#include "base/file.h"

#define FILE_BYTES_MAX (1024 * 1024)

enum err aws_file_read(struct arena *keep, slice path, slice *ret, slice *ret_why)
{
    *ret = S("");
    if (path.len && file_read(arena_copy(keep, path).ptr, FILE_BYTES_MAX, keep, ret))
        return OK;
    if (!path.len || errno == ENOENT || errno == ENOTDIR) {
        *ret_why = arena_printf(keep, "the file %.*s does not exist: make this file, or name "
                                "another", SLICE_ARG(path));
        return ERR_NOT_FOUND;
    }
    *ret_why = arena_printf(keep, "the file %.*s can't be read (%s): check the file and its "
                            "permissions", SLICE_ARG(path),
                            errno == EFBIG ? "it is larger than 1 MiB" : strerror(errno));
    return ERR_IO;
}

static slice path_of(struct arena *keep, const char *(*env)(const char *name), const char *name,
                     const char *below_home)
{
    slice set = slice_of(env(name)), home = slice_of(env("HOME"));
    if (set.len)
        return set;
    return home.len ? arena_printf(keep, "%.*s/%s", SLICE_ARG(home), below_home) : S("");
}

enum err aws_files_read(struct arena *keep, const char *(*env)(const char *name),
                        struct aws_files *ret, slice *ret_why)
{
    slice credentials = path_of(keep, env, "AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials");
    slice config = path_of(keep, env, "AWS_CONFIG_FILE", ".aws/config");
    *ret = (struct aws_files){ S(""), S("") };
    enum err e = aws_file_read(keep, credentials, &ret->credentials, ret_why);
    if (!e || e == ERR_NOT_FOUND)
        e = aws_file_read(keep, config, &ret->config, ret_why);
    return e == ERR_NOT_FOUND ? OK : e;
}

/* If several lines set `name`, the last one counts, as in the SDKs. */
static slice look_up(slice file, slice section, slice name)
{
    slice found = S("");
    bool inside = false;
    for (slice rest = file; rest.ptr;) {
        slice raw = slice_cut(&rest, '\n'), line = slice_trim(slice_without_line_end(raw));
        if (line.len == 0 || line.ptr[0] == '#' || line.ptr[0] == ';')
            continue;
        if (line.ptr[0] == '[') {
            slice title = slice_from(line, 1);
            inside = slice_eq(slice_trim(slice_cut(&title, ']')), section);
            continue;
        }
        if (!inside || raw.ptr[0] == ' ' || raw.ptr[0] == '\t')
            continue;    /* an indented line belongs to the setting above it */
        slice value = line, key = slice_trim(slice_cut(&value, '='));
        if (slice_eq_nocase(key, name))
            found = slice_trim(value);
    }
    return found;
}

/* In the config file, the section of a profile is "profile NAME", except for "default". */
static slice look_up_config(const struct aws_files *files, slice profile, slice name)
{
    struct arena keep = { 0 };
    slice section = slice_eq(profile, S("default"))
        ? profile : arena_printf(&keep, "profile %.*s", SLICE_ARG(profile));
    slice found = look_up(files->config, section, name);    /* points into the file */
    arena_free(&keep);
    return found;
}

slice aws_files_value(const struct aws_files *files, slice profile, slice name)
{
    slice found = look_up(files->credentials, profile, name);
    return found.len ? found : look_up_config(files, profile, name);
}
