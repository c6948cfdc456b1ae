/* form.c - forms that browsers post (PostObject). SPDX-License-Identifier: Apache-2.0
 *
 * The signature is in the form. It covers the form's policy: conditions that limit the other
 * fields. This file verifies which client signed the form, and judges what that client may do.
 * Penstock then signs the form anew, as an identity that the origin knows. The origin judges the
 * conditions. So Penstock sends them unchanged, except those about the signer (s3/form_sign.c). A
 * form without a signature belongs to the anonymous client. */
#include "base/metric.h"
#include "front/inside.h"

#define NAME_BYTES_MAX 64    /* bytes of a name that a message quotes */

/* ---- the request head ---- */

bool form_is_enabled(const struct call *call)
{
    return call->s3.op == S3_POST_OBJECT && call->front->options.form_bytes_max;
}

slice form_find_header(const struct call *call, slice ignored)
{
    for (size_t i = 0; i < s3_header_count(call->head, &call->s3); i++) {
        slice name = s3_header_at(call->head, &call->s3, i).name;
        enum header_fate fate = s3_header_fate(&call->s3, name);
        bool vendors = fate == HEADER_ORIGIN && header_is_vendors(name);
        if (fate == HEADER_FOREIGN ||
            (vendors && !(ignored.len && slice_starts_nocase(name, ignored))))
            return name;
    }
    return S("");
}

static enum err refuse_head(struct call *call, const char *what, slice name)
{
    call->s3.detail = arena_printf(
        call->keep, "The signature of a form does not cover the %s %.*s. Send this %s as "
        "a field of the form, before the file. Add a condition for the field to the policy.", what,
        SLICE_ARG(slice_sub(name, 0, NAME_BYTES_MAX)), what);
    return ERR_BAD_ARGUMENT;
}

/* Refuses a request head that could change what the form does. The policy of the form covers only
 * the fields. So the sender of a form can choose any header or parameter, and an origin may obey
 * it: a header may give other users a right, and a parameter may turn the request into another
 * operation. */
enum err form_judge_head(struct call *call)
{
    slice header = form_find_header(call, S(""));
    if (call->s3.unknown)
        return refuse_head(call, "parameter", call->s3.unknown->name);
    return header.len ? refuse_head(call, "header", header) : OK;
}

/* ---- the fields ---- */

/* Verifies the signature, and sets call->client. */
static enum err prove(struct call *call, struct s3_fault *ret)
{
    struct sigv4_claim *claim = arena_alloc(call->keep, sizeof(*claim));
    struct secrets secrets;
    enum err err = form_claim(call->keep, call->form, claim);
    if (!err && claim->v2 && call->front->options.no_sigv2) {
        ret->message = S(SIGV2_OFF);
        return ERR_AUTH_V2;
    }
    if (err) {
        *ret = claim->fault;
        return err;
    }
    slice regions = call->front->options.regions, credential = S("x-amz-credential");
    if (sigv4_claim_region(call->keep, regions, claim) != OK)
        return s3_fault_argument(
            ret, arena_printf(call->keep, "the region \"%.*s\" is wrong; expecting \"%.*s\"",
                              SLICE_ARG(claim->region), SLICE_ARG(regions)),
            credential, form_get(call->form, credential));
    call->access_key = arena_copy(call->keep, claim->access_key);    /* outlives the form */
    err = front_find_client(call->front, call->keep, claim, &call->client, &secrets);
    if (err == ERR_UNKNOWN_KEY)
        s3_fault_add(ret, S("AWSAccessKeyId"), claim->access_key);
    if (err)
        return err;
    err = ERR_SIGNATURE;
    for (size_t i = 0; i < secrets.count && err == ERR_SIGNATURE; i++) {
        err = form_verify(call->loop->sigv4, call->keep, call->form, claim, secrets.list[i]);
        if (!err)
            metric_add(M_SIGNED_BY_PREVIOUS, i > 0);
    }
    if (err)    /* the text to sign is the policy as it stands in the form */
        sigv4_explain_text(call->keep, claim, form_get(call->form, S("policy")), ret);
    return err;
}

/* An unsigned form goes to the origin unsigned, since it has no policy to sign anew. So the
 * settings must give the anonymous client its own identity, not the shared identity. */
static enum err take_unsigned(struct call *call)
{
    call->access_key = S("");
    call->client = clients_nobody(call->front->options.clients);
    return call->client && call->client->key.own ? OK : ERR_DENIED;
}

/* A field that gives other users a right requires the right ADMIN on the key. A field that Penstock
 * does not know may do anything in the bucket, so it requires ADMIN on the whole bucket. */
static enum err judge_fields(struct call *call)
{
    const struct form *form = call->form;
    bool privileged = false;
    for (size_t i = 0; i < form->field_count; i++) {
        slice name = form->fields[i].name;
        privileged |= right_is_privileged(name, form->fields[i].value);
        if (!call->s3.foreign.ptr && s3_header_fate(&call->s3, name) == HEADER_FOREIGN)
            call->s3.foreign = name;
    }
    if (call->s3.foreign.ptr)
        return right_judge_admin(call, S(""));
    return privileged ? right_judge_admin(call, form_get(form, S("key"))) : OK;
}

enum err form_judge(struct call *call, enum err read, struct s3_fault *ret)
{
    slice key = form_get(call->form, S("key"));
    if (read == ERR_PRECONDITION)
        s3_fault_add(ret, S("Condition"),
                     S("Bucket POST must be of the enclosure-type multipart/form-data"));
    if (read)
        return read;
    if (!key.len)
        return form_lacks(call->keep, S("key"), ret);
    if (key.len > S3_KEY_BYTES_MAX)
        return ERR_KEY_TOO_LONG;
    enum err err = form_is_signed(call->form) ? prove(call, ret) : take_unsigned(call);
    return err ? err : judge_fields(call);
}
