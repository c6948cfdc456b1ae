/* synthetic.c - the bytes of the scripted origin's objects. SPDX-License-Identifier: Apache-2.0
 *
 * A block of 64 KiB is a piece of one pattern. The digest of key, version and block number says
 * where the piece begins, and stands at the beginning of each page of 4 KiB. */
#include "synthetic.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "client.h"

#define BLOCK 65536u
#define PAGE 4096u

static char pattern[2 * BLOCK];

static void digest_of(const char *text, size_t len, uint8_t ret[32])
{
    if (!EVP_Digest(text, len, ret, NULL, EVP_sha256(), NULL))
        die("SHA-256 failed");
}

static void pattern_make(void)
{
    char text[32];
    for (unsigned i = 0; i < BLOCK / 32; i++) {
        int len = snprintf(text, sizeof(text), "penstock pattern %u", i);
        digest_of(text, (size_t)len, (uint8_t *)pattern + 32 * i);
    }
    memcpy(pattern + BLOCK, pattern, BLOCK);
}

void synthetic_begin(struct synthetic *object, const char *key)
{
    if (!pattern[0] && !pattern[1])
        pattern_make();
    *object = (struct synthetic){ .key = key };
}

static void next_block(struct synthetic *object)
{
    char text[600];
    int len = snprintf(text, sizeof(text), "%s%c1%c%llu", object->key, 0, 0,
                       (unsigned long long)(object->next / BLOCK));
    if (len >= (int)sizeof(text))
        die("the key %s is too long", object->key);
    digest_of(text, (size_t)len, object->digest);
}

bool synthetic_next(struct synthetic *object, const char *bytes, size_t count)
{
    bool same = true;
    while (count && same) {
        size_t at = object->next % BLOCK, in_page = object->next % PAGE;
        if (!at)
            next_block(object);
        const char *piece = pattern + (object->digest[0] << 8 | object->digest[1]);
        const char *want = in_page < 32 ? (const char *)object->digest + in_page : piece + at;
        size_t take = in_page < 32 ? 32 - in_page : PAGE - in_page;
        take = take < count ? take : count;
        same = memcmp(bytes, want, take) == 0;
        bytes += take;
        count -= take;
        object->next += take;
    }
    return same;
}
