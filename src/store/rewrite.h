/* rewrite.h - reads the bytes of a small object, to store them again with newer metadata.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_REWRITE_H
#define STORE_REWRITE_H

#include "store/volume_inside.h"

/* Reads the stored bytes of this version, and verifies them; they lie in keep. Returns OK,
 * ERR_NOT_FOUND if the store has no WHOLE record of this version, or ERR_LIMIT if no file
 * descriptor is free. Committer only. */
enum err rewrite_bytes(struct volume *volume, const struct metadata *metadata, struct arena *keep,
                       slice *ret) MUST_USE;

#endif
