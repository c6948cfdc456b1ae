/* form.c - forms that browsers post (PostObject). SPDX-License-Identifier: Apache-2.0
 *
 * The signature is in the form, over a policy that says what its fields may be. Whose it is is
 * proven here, and what they may do; the form goes on signed by whom the origin knows, its policy
 * as it was: the conditions are the origin's to judge. One that is not signed is nobody's. */
#include "front/inside.h"

static void refuse(struct call *call, enum err err, slice message, const struct http_field *more,
                   size_t more_count)
{
    struct s3_fault fault = { .message = message };
    for (size_t i = 0; i < more_count; i++)
        s3_fault_add(&fault, more[i].name, more[i].value);
    reply_fault(call, err, &fault);
}

static void refuse_form(struct call *call, enum err err)
{
    const struct http_field condition = {
        S("Condition"), S("Bucket POST must be of the enclosure-type multipart/form-data") };
    refuse(call, err, S(""), &condition, err == ERR_PRECONDITION ? 1 : 0);
}

/* What was to be signed is the policy as it stands in the form. */
static void refuse_signature(struct call *call, const struct sigv4_claim *claim)
{
    slice policy = form_get(call->form, S("policy"));
    struct text bytes = text_in(call->keep);
    for (size_t i = 0; i < policy.len; i++)
        text_printf(&bytes, "%s%02x", i ? " " : "", (unsigned char)policy.ptr[i]);
    const struct http_field more[] = {
        { S("AWSAccessKeyId"), claim->access_key }, { S("StringToSign"), policy },
        { S("SignatureProvided"), claim->signature },
        { S("StringToSignBytes"), text_slice(&bytes) },
    };
    refuse(call, ERR_SIGNATURE, S(""), more, countof(more));
}

/* OK, with call->client; else it has been answered. */
static bool prove(struct call *call)
{
    struct sigv4_claim *claim = arena_alloc(call->keep, sizeof(*claim));
    struct s3_fault *fault = &claim->fault;
    slice secret;
    enum err err = form_claim(call->keep, call->form, claim);
    slice regions = call->front->options.regions;
    if (!err && sigv4_claim_region(call->keep, regions, claim) != OK) {
        err = ERR_BAD_ARGUMENT;
        *fault = (struct s3_fault){
            .message = arena_printf(call->keep, "the region \"%.*s\" is wrong; expecting \"%.*s\"",
                                    SLICE_ARG(claim->region), SLICE_ARG(regions)),
            .more = { { S("ArgumentName"), S("x-amz-credential") },
                      { S("ArgumentValue"), form_get(call->form, S("x-amz-credential")) } },
            .more_count = 2 };
    }
    if (!err) {
        call->access_key = claim->access_key;
        err = front_find_client(call->front, call->keep, claim, &call->client, &secret);
    }
    if (err == ERR_UNKNOWN_KEY)
        *fault = (struct s3_fault){ .more = { { S("AWSAccessKeyId"), claim->access_key } },
                                       .more_count = 1 };
    if (!err && form_verify(call->loop->sigv4, call->keep, call->form, claim, secret) != OK) {
        refuse_signature(call, claim);
        return false;
    }
    if (err)
        refuse(call, err, fault->message, fault->more, fault->more_count);
    return !err;
}

/* Its key, and what its fields would give to others. */
static enum err judge(const struct call *call)
{
    const struct form *form = call->form;
    struct write_key key = { form_get(form, S("key")), S("") };
    bool privileged = false;
    for (size_t i = 0; i < form->field_count; i++)
        privileged |= right_is_privileged(form->fields[i].name, form->fields[i].value);
    enum err err = right_judge_keys(call, &key, 1);
    return err || !privileged ? err : right_judge_admin(call, key.key);
}

void form_post(struct call *call)
{
    struct form *form = arena_alloc(call->keep, sizeof(*form));
    slice type = http_head_get(call->head, S("content-type"));
    enum err err = form_read(call->keep, type, http_request_body(call->http), form);
    call->form = form;
    if (err) {
        refuse_form(call, err);
        return;
    }
    slice key = form_get(form, S("key"));
    if (!key.len || key.len > 1024) {
        const struct http_field more[] = { { S("ArgumentName"), S("key") },
                                           { S("ArgumentValue"), S("") } };
        if (key.len)
            refuse(call, ERR_KEY_TOO_LONG, S(""), NULL, 0);
        else
            refuse(call, ERR_BAD_ARGUMENT, S("Bucket POST must contain a field named 'key'.  If it "
                                             "is specified, please check the order of the fields."),
                   more, countof(more));
        return;
    }
    bool is_signed = form_is_signed(form);
    const struct client *nobody = identities_nobody(call->front->options.identities);
    if (is_signed && !prove(call))
        return;
    if (!is_signed) {
        call->access_key = S("");
        call->client = nobody;
    }
    if (!is_signed && (!nobody || !nobody->own))    /* nothing that could be signed anew */
        refuse(call, ERR_DENIED, S(""), NULL, 0);
    else if ((err = judge(call)))
        refuse(call, err, S(""), NULL, 0);
    else
        pass_form(call, type);
}
