/* fuzz_form.c - any body as a form that a browser posts. SPDX-License-Identifier: Apache-2.0
 *
 * The first line is its Content-Type. No input has a valid signature. A form that is written anew is
 * read back as the same fields and the same file, and verifies with the key that signed it. */
#include <string.h>

#include "s3/form.h"

#define SECRET S("a secret nobody guesses")
#define BOUNDARY "a boundary nobody guesses"

static bool is_of_the_signer(slice name)
{
    static const char *const names[] = {
        "policy", "x-amz-algorithm", "x-amz-credential", "x-amz-date", "x-amz-signature",
        "x-amz-security-token", "x-ignore-security-token", "awsaccesskeyid", "signature",
    };
    for (size_t i = 0; i < countof(names); i++)
        if (slice_eq_nocase(name, slice_of(names[i])))
            return true;
    return false;
}

/* False if the file has no end. */
static bool file_of(const struct form *form, slice body, slice *ret)
{
    size_t bytes;
    *ret = slice_from(body, form->file_at);
    bool ends = form_file_ends(form, *ret, &bytes);
    ret->len = bytes;
    return ends;
}

static void same_fields(const struct form *form, const struct form *again)
{
    for (size_t i = 0; i < form->field_count; i++) {
        const struct http_field *field = &form->fields[i];
        check(is_of_the_signer(field->name) ||
              slice_eq(form_get(again, field->name), field->value));
    }
    check(slice_eq(form->file_type, again->file_type));
}

static void goes_on(struct sigv4 *sigv4, struct arena *arena, const struct form *form, slice file,
                    bool is_claim)
{
    const struct sigv4_credentials with = { S("B"), SECRET, S("") };
    struct form *again = arena_alloc(arena, sizeof(*again));
    struct sigv4_claim claim;
    slice end, head = form_write(sigv4, arena, form, &with, S("r"), 1440938160,
                                 S(BOUNDARY), &end);
    struct text whole = text_in(arena);
    text_add(&whole, head);
    text_add(&whole, file);
    text_add(&whole, end);
    if (head.len > 60000 || form->field_count > FORM_FIELDS_MAX - 6)
        return;    /* it grew beyond the limit of the reader */
    slice body = text_slice(&whole), same;
    check(form_read(arena, S("multipart/form-data; boundary=\"" BOUNDARY "\""),
                    slice_sub(body, 0, FORM_FIELDS_BYTES_MAX), again) == OK);
    same_fields(form, again);
    check(file_of(again, body, &same) && slice_eq(same, file));
    if (!is_claim)
        return;
    check(form_claim(arena, again, &claim) == OK && !claim.v2);
    check(form_verify(sigv4, arena, again, &claim, SECRET) == OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct sigv4 *sigv4;
    static struct form form;
    if (!sigv4)
        sigv4 = sigv4_new();
    struct arena arena = { 0 };
    struct sigv4_claim claim;
    slice body = { (const char *)data, size }, type = slice_cut(&body, '\n'), file;
    if (memmem(data, size, BOUNDARY, sizeof(BOUNDARY) - 1))
        return 0;    /* the input has the boundary */
    slice begin = slice_sub(body, 0, FORM_FIELDS_BYTES_MAX);
    if (body.ptr && form_read(&arena, type, begin, &form) == OK && file_of(&form, body, &file)) {
        bool is_claim = form_claim(&arena, &form, &claim) == OK;
        check(!is_claim || form_verify(sigv4, &arena, &form, &claim, SECRET) != OK);
        goes_on(sigv4, &arena, &form, file, is_claim);
    }
    arena_free(&arena);
    return 0;
}
