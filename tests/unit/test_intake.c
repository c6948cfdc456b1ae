/* test_intake.c - which body waits for which, on a scripted disk. SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <poll.h>
#include <stdatomic.h>
#include <unistd.h>

#include "front/intake.c"

#define BEGIN "--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\n"
#define END "\r\n--b--\r\n"
#define TYPE S("multipart/form-data; boundary=b")

/* A form with a file of x's that is stored nowhere. */
struct http_body {
    size_t bytes;
    bool in_file;
};

static atomic_bool disk_hangs;
static atomic_uint hanging;

size_t http_body_bytes(const struct http_body *body)
{
    return body ? body->bytes : 0;
}

bool http_body_in_file(const struct http_body *body)
{
    return body->in_file;
}

bool http_body_read(const struct http_body *body, size_t at, char *to, size_t bytes)
{
    atomic_fetch_add(&hanging, 1);
    while (body->in_file && atomic_load(&disk_hangs))
        usleep(1000);
    atomic_fetch_sub(&hanging, 1);
    memset(to, 'x', bytes);
    if (at == 0)
        memcpy(to, BEGIN, MIN(bytes, strlen(BEGIN)));
    size_t end_at = body->bytes - strlen(END);
    for (size_t i = MAX(at, end_at); i < at + bytes; i++)
        to[i - at] = END[i - end_at];
    return true;
}

bool http_body_write(struct http_body *body, size_t at, char *from, size_t bytes)
{
    (void)body;
    return false;
}

char *http_body_part(const struct http_body *body, size_t at, char *buffer, size_t *bytes)
{
    *bytes = MIN(*bytes, body->bytes - at);
    return http_body_read(body, at, buffer, *bytes) ? buffer : NULL;
}

/* ---- forms, taken in ---- */

struct upload {
    struct http_body body;
    struct arena arena;
    struct form form;
    enum err err;
    unsigned ended;    /* as the how-manieth; 0: not yet */
};

static unsigned ended_count;

static void done(void *arg, const struct intake_outcome *outcome)
{
    struct upload *upload = arg;
    upload->ended = ++ended_count;
    upload->err = outcome->err;
    arena_free(&upload->arena);
}

static void lost(void *arg)
{
    (void)arg;
    fail();
}

static void start(struct intakes *intakes, struct mailbox *box, struct upload *upload, size_t bytes,
                  bool in_file)
{
    *upload = (struct upload){ .body = { bytes, in_file } };
    static struct request_head head = { .field_count = 1 };
    head.fields[0] = (struct http_field){ S("Content-Type"), TYPE };
    intake_start(intakes, &(struct intake_ask){
        .box = box, .body = &upload->body, .head = &head, .keep = &upload->arena,
        .form = &upload->form, .done = done, .lost = lost, .arg = upload });
}

static void wait_for(struct mailbox *box, const struct upload *upload)
{
    for (int i = 0; i < 6000 && !upload->ended; i++) {
        poll(&(struct pollfd){ .fd = mailbox_fd(box), .events = POLLIN }, 1, 10);
        mailbox_deliver(box);
    }
    ok(upload->ended && upload->err == OK);
    ok(upload->form.file_bytes == upload->body.bytes - strlen(BEGIN) - strlen(END));
}

TEST(bodies_in_files_on_a_disk_that_hangs_hold_no_body_in_memory)
{
    struct mailbox *box = mailbox_new();
    struct intakes *intakes = intakes_new();
    struct upload in_files[2 * THREADS_MAX], in_memory;
    atomic_store(&disk_hangs, true);
    for (size_t i = 0; i < countof(in_files); i++)
        start(intakes, box, &in_files[i], MIB, true);
    while (atomic_load(&hanging) < 2)
        usleep(1000);
    start(intakes, box, &in_memory, MIB, false);
    wait_for(box, &in_memory);
    atomic_store(&disk_hangs, false);
    for (size_t i = 0; i < countof(in_files); i++)
        wait_for(box, &in_files[i]);
    intakes_free(&intakes);
    mailbox_free(&box);
}

TEST(large_forms_take_turns_with_small_ones)
{
    struct mailbox *box = mailbox_new();
    struct intakes *intakes = intakes_new();
    struct upload large[2 * THREADS_MAX], small;
    atomic_store(&disk_hangs, true);
    ended_count = 0;
    for (size_t i = 0; i < countof(large); i++)
        start(intakes, box, &large[i], 4 * TURN_BYTES + 12345, true);
    start(intakes, box, &small, MIB, true);
    atomic_store(&disk_hangs, false);
    wait_for(box, &small);
    ok(small.ended == 1);
    for (size_t i = 0; i < countof(large); i++)
        wait_for(box, &large[i]);
    intakes_free(&intakes);
    mailbox_free(&box);
}

TEST(the_end_of_a_form_is_found_wherever_it_lies)
{
    struct mailbox *box = mailbox_new();
    struct intakes *intakes = intakes_new();
    struct upload upload;
    for (size_t bytes = 2 * PART_BYTES - 120; bytes < 2 * PART_BYTES + 40; bytes++) {
        start(intakes, box, &upload, bytes, bytes % 2);
        wait_for(box, &upload);
    }
    start(intakes, box, &upload, strlen(BEGIN) + strlen(END), false);    /* an empty file */
    wait_for(box, &upload);
    intakes_free(&intakes);
    mailbox_free(&box);
}

RUN(cmocka_unit_test(bodies_in_files_on_a_disk_that_hangs_hold_no_body_in_memory),
    cmocka_unit_test(large_forms_take_turns_with_small_ones),
    cmocka_unit_test(the_end_of_a_form_is_found_wherever_it_lies))
