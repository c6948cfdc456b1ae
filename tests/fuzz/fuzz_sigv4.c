/* fuzz_sigv4.c - any head as a claim and a signature. SPDX-License-Identifier: Apache-2.0
 *
 * No input verifies, and every request that is signed with the right key does. */
#include "s3/encode.h"
#include "s3/sigv2.h"

#define SECRET S("a secret nobody guesses")

/* Parameters are known by their decoded names, ignoring case. */
static bool is_of_a_claim(struct arena *arena, slice name)
{
    if (uri_decode(arena, name, &name) != OK)
        return false;
    return slice_eq_nocase(slice_sub(name, 0, 6), S("X-Amz-")) ||
           slice_eq_nocase(name, S("Signature")) || slice_eq_nocase(name, S("Expires")) ||
           slice_eq_nocase(name, S("AWSAccessKeyId"));
}

static void signed_verifies(struct sigv4 *sigv4, struct arena *arena,
                            const struct request_head *head)
{
    struct request_head again = *head;
    struct sigv4_signed made;
    struct sigv4_claim claim;
    struct sigv4_ask ask = { head->method, head->path, head->query, head->fields, head->field_count,
                             S("UNSIGNED-PAYLOAD"), S("r"), S("s3"), 1440938160 };
    for (size_t i = 0; i < head->field_count; i++)
        if (slice_has(S("\x04\x0a\x0d\x14"), (char)head->fields[i].name.len) &&
            !slice_eq_nocase(head->fields[i].name, S("host")))
            return;    /* it may be a header of a claim: as long as Date, Authorization ... */
    slice rest = head->query, name, value;
    for (size_t params = 0; query_next(&rest, &name, &value); params++)
        if (params == 90 || is_of_a_claim(arena, name))
            return;
    sigv4_sign(sigv4, arena, &ask, &(struct sigv4_credentials){ S("k"), SECRET, S("") }, &made);
    if (again.field_count + made.field_count > HTTP_FIELDS_MAX)
        return;
    for (size_t i = 0; i < made.field_count; i++)
        again.fields[again.field_count++] = made.fields[i];
    check(sigv4_claim_read(arena, &again, &claim) == OK);
    check(sigv4_verify(sigv4, arena, &again, &claim, SECRET, 1440938160) == OK);
    check(sigv4_verify(sigv4, arena, &again, &claim, S("another"), 1440938160) == ERR_SIGNATURE);
}

/* Verifies a claim of either version, which must fail, and explains it, which must fit its room. */
static void refused(struct sigv4 *sigv4, struct arena *arena, const struct request_head *head,
                    const struct sigv4_claim *claim)
{
    struct s3_fault fault;
    int64_t now_s = claim->v2 && claim->presigned ? claim->expires_s : claim->signed_at_s;
    enum err e = claim->v2 ? sigv2_verify(arena, head, claim, S(""), SECRET, now_s)
                           : sigv4_verify(sigv4, arena, head, claim, SECRET, now_s);
    check(e != OK);
    sigv4_explain(sigv4, arena, head, claim, e, now_s, &fault);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct sigv4 *sigv4;
    if (!sigv4)
        sigv4 = sigv4_new();
    struct request_head head;
    struct sigv4_claim claim;
    struct arena arena = { 0 };
    if (request_head_scan((slice){ (const char *)data, size }, &head, NULL) != OK)
        return 0;
    if (sigv4_claim_read(&arena, &head, &claim) == OK)
        refused(sigv4, &arena, &head, &claim);
    signed_verifies(sigv4, &arena, &head);
    arena_free(&arena);
    return 0;
}
