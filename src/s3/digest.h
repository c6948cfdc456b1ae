/* digest.h - the digest that sigv4.c shares with bodies. SPDX-License-Identifier: Apache-2.0 */
#ifndef S3_DIGEST_H
#define S3_DIGEST_H

#include "base/base.h"

struct evp_md_st;    /* OpenSSL's EVP_MD */
const struct evp_md_st *digest_sha256(void);    /* fetched once, never freed */

#endif
