/* s3.h - the s3 kind of origins. SPDX-License-Identifier: Apache-2.0 */
#ifndef ORIGIN_S3_H
#define ORIGIN_S3_H

#include "origin/curl.h"
#include "origin/kind.h"

enum err s3_add(struct carriers *carriers, const struct origin_options *options, struct arena *keep,
                struct origin **ret, slice *ret_why) MUST_USE;

#endif
