/* aws_files.h - the AWS files of a user: ~/.aws/credentials and ~/.aws/config.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Both files hold lines of "[section]" and "name = value". Penstock may take credentials and a
 * region from them (credentials.h). A section of the config file is called "profile NAME" (except
 * "default"); a section of the credentials file is called just "NAME". */
#ifndef ORIGIN_AWS_FILES_H
#define ORIGIN_AWS_FILES_H

#include "base/arena.h"

struct aws_files {
    slice credentials, config;      /* the text of each file */
};

/* Reads both files; a missing file counts as empty. Returns ERR_IO, with a sentence in *ret_why, if
 * a file can't be read. */
enum err aws_files_read(struct arena *keep, const char *(*env)(const char *name),
                        struct aws_files *ret, slice *ret_why) MUST_USE;
/* Reads a whole small file. Returns ERR_NOT_FOUND or ERR_IO with a sentence in *ret_why. The path
 * comes from a setting or an environment variable. The caller puts the name of this setting or
 * variable, and a colon, before the sentence. */
enum err aws_file_read(struct arena *keep, slice path, slice *ret, slice *ret_why) MUST_USE;

/* Returns the value of the line "`name` = value" in a profile, or an empty text if there is no such
 * line. Looks in the credentials file first, then in the config file. */
slice aws_files_value(const struct aws_files *files, slice profile, slice name);

#endif
