/* rewrite.h - the bytes of a small object whose metadata has learnt more.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_REWRITE_H
#define STORE_REWRITE_H

#include "store/inside.h"

/* The stored bytes of this very version, if it is a WHOLE record here; verified, in keep. Else
 * ERR_NOT_FOUND, or ERR_LIMIT when no descriptor was to be had. Committer only. */
enum err rewrite_bytes(struct store *store, const struct metadata *metadata, struct arena *keep,
                       slice *ret) MUST_USE;

#endif
