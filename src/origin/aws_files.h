/* aws_files.h - the AWS files of a user: ~/.aws/credentials and ~/.aws/config.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Lists of "[section]" and "name = value". Sections of the config file are called "profile NAME"
 * (but "default"), those of the credentials file just "NAME". */
#ifndef ORIGIN_AWS_FILES_H
#define ORIGIN_AWS_FILES_H

#include "base/arena.h"

struct aws_files {
    slice credentials, config;      /* their text */
};

/* A file that is not there is an empty one. ERR_IO with a sentence: it can't be read. */
enum err aws_files_read(struct arena *keep, const char *(*env)(const char *name),
                        struct aws_files *ret, slice *ret_why) MUST_USE;
/* The whole of a small file; ERR_NOT_FOUND, or ERR_IO with a sentence. */
enum err aws_file_read(struct arena *keep, slice path, slice *ret, slice *ret_why) MUST_USE;

/* The value of a profile's `name` in one file or the other; empty if there is none. */
slice aws_files_credential(const struct aws_files *files, slice profile, slice name);
slice aws_files_config(const struct aws_files *files, slice profile, slice name);
/* The credentials file goes first. */
slice aws_files_value(const struct aws_files *files, slice profile, slice name);

#endif
