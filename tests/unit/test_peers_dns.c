/* test_peers_dns.c - answers of name servers: good, cut off, malformed.
 * SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "peers/dns_answer.h"

/* ---- making a message ---- */

struct message {
    uint8_t bytes[4096];
    size_t len;
};

static void put(struct message *to, slice bytes)
{
    ok(to->len + bytes.len <= sizeof(to->bytes));
    to->len += slice_put((char *)to->bytes + to->len, bytes);
}

static void put_16(struct message *to, unsigned number)
{
    put(to, (slice){ (char[]){ (char)(number >> 8), (char)number }, 2 });
}

static void put_name(struct message *to, const char *name)
{
    for (slice rest = slice_of(name); rest.len;) {
        slice label = slice_cut(&rest, '.');
        put(to, (slice){ (char[]){ (char)label.len }, 1 });
        put(to, label);
    }
    put(to, S("\0"));
}

/* The head, and the question for "fleet.test", which is at offset 12. */
static struct message message_new(unsigned flags, unsigned type, unsigned answers, unsigned more)
{
    struct message message = { .len = 0 };
    const unsigned head[] = { 0x1234, flags, 1, answers, 0, more };
    for (size_t i = 0; i < countof(head); i++)
        put_16(&message, head[i]);
    put_name(&message, "fleet.test");
    put_16(&message, type);
    put_16(&message, 1);
    return message;
}

/* A record; with `name` NULL, of the name in the question, by a pointer. */
static void put_record(struct message *to, const char *name, unsigned type, unsigned ttl,
                       slice data)
{
    if (name)
        put_name(to, name);
    else
        put_16(to, 0xc00c);
    put_16(to, type);
    put_16(to, 1);
    put_16(to, ttl >> 16);
    put_16(to, ttl & 0xffff);
    put_16(to, (unsigned)data.len);
    put(to, data);
}

static void put_service(struct message *to, unsigned ttl, unsigned port, const char *target)
{
    struct message data = { .len = 0 };
    put(&data, S("\0\1\0\2"));    /* priority and weight */
    put_16(&data, port);
    put_name(&data, target);
    put_record(to, NULL, DNS_SRV, ttl, (slice){ (char *)data.bytes, data.len });
}

static slice slice_from_message(const struct message *message)
{
    return (slice){ (const char *)message->bytes, message->len };
}

#define RESPONSE 0x8180u
#define CUT_OFF 0x0200u
#define CNAME 5u

static struct arena keep;
static struct dns_answer answer;

static enum err read_message(const struct message *message, enum dns_type type)
{
    return dns_answer_read(slice_from_message(message), type, &keep, &answer);
}

/* ---- tests ---- */

TEST(addresses_are_read)
{
    struct message message = message_new(RESPONSE, DNS_A, 4, 0);
    put_record(&message, NULL, CNAME, 77, S("\1a\4test\0"));
    put_record(&message, "a.test", DNS_A, 300, S("\12\0\0\1"));
    put_record(&message, "a.test", DNS_A, 60, S("\12\0\0\2"));
    put_record(&message, "a.test", DNS_AAAA, 5, S("0123456789abcdef"));    /* of another type */
    ok(read_message(&message, DNS_A) == OK);
    ok(answer.address_count == 2 && answer.service_count == 0 && answer.ttl_s == 60);
    ok(memcmp(answer.addresses[1].ip, "\0\0\0\0\0\0\0\0\0\0\xff\xff\12\0\0\2", 16) == 0);
    same(answer.addresses[0].name, S("a.test"));
    ok(read_message(&message, DNS_AAAA) == OK);
    ok(answer.address_count == 1 && answer.ttl_s == 5);
    ok(memcmp(answer.addresses[0].ip, "0123456789abcdef", 16) == 0);
    arena_free(&keep);
}

TEST(services_are_read_with_the_addresses_beside_them)
{
    struct message message = message_new(RESPONSE, DNS_SRV, 3, 2);
    put_service(&message, 30, 9002, "n1.fleet.test");
    put_service(&message, 20, 9003, "n2.fleet.test");
    put_record(&message, NULL, DNS_A, 1, S("\12\0\0\1"));    /* no SRV record: left out */
    put_record(&message, "n1.fleet.test", DNS_A, 10, S("\12\0\0\1"));
    put_record(&message, "n2.fleet.test", DNS_AAAA, 15, S("0123456789abcdef"));
    ok(read_message(&message, DNS_SRV) == OK);
    ok(answer.service_count == 2 && answer.address_count == 2 && answer.ttl_s == 10);
    same(answer.services[1].target, S("n2.fleet.test"));
    ok(answer.services[0].port == 9002 && answer.services[1].port == 9003);
    same(answer.addresses[0].name, S("n1.fleet.test"));
    arena_free(&keep);
}

TEST(malformed_records_beside_the_services_do_no_harm)
{
    struct message message = message_new(RESPONSE, DNS_SRV, 1, 2);
    put_service(&message, 30, 9002, "n1.fleet.test");
    put_record(&message, "n1.fleet.test", DNS_A, 30, S("\12\0\0\1"));
    size_t at = message.len;
    put_record(&message, NULL, DNS_A, 30, S("\12\0\0\2"));
    message.bytes[at] = (uint8_t)(0xc0 | at >> 8);    /* a name that points to itself */
    message.bytes[at + 1] = (uint8_t)at;
    ok(read_message(&message, DNS_SRV) == OK);
    ok(answer.service_count == 1 && answer.address_count == 1);
    arena_free(&keep);
}

/* "." says that there is no such service. */
TEST(services_without_a_host_are_left_out)
{
    struct message message = message_new(RESPONSE, DNS_SRV, 6, 0);
    put_service(&message, 30, 9002, "");
    put_service(&message, 30, 0, "n1.test");
    put_service(&message, 30, 9002, "a b.test");
    put_service(&message, 30, 9002, "$(id).test");
    put_record(&message, NULL, DNS_SRV, 30, S("\0\0\0\0\0"));           /* too short */
    put_record(&message, NULL, DNS_SRV, 30, S("\0\0\0\0\43\52\5ab"));   /* a name without an end */
    ok(read_message(&message, DNS_SRV) == OK);
    ok(answer.service_count == 0 && answer.ttl_s == UINT32_MAX);
    arena_free(&keep);
}

TEST(records_of_a_wrong_size_or_class_are_left_out)
{
    struct message message = message_new(RESPONSE, DNS_A, 4, 0);
    put_record(&message, NULL, DNS_A, 30, S("\12\0\0"));
    put_record(&message, NULL, DNS_A, 30, S("\12\0\0\1\1"));
    put_record(&message, NULL, DNS_A, 30, S(""));
    size_t class = message.len + 4;
    put_record(&message, NULL, DNS_A, 30, S("\12\0\0\1"));
    message.bytes[class + 1] = 3;    /* CHAOS */
    ok(read_message(&message, DNS_A) == OK);
    ok(answer.address_count == 0);
    arena_free(&keep);
}

TEST(no_records_are_no_failure)
{
    struct message message = message_new(RESPONSE, DNS_A, 0, 0);
    ok(read_message(&message, DNS_A) == OK);
    ok(answer.address_count == 0 && answer.ttl_s == UINT32_MAX);
}

TEST(an_answer_that_was_cut_off_gives_what_there_is)
{
    struct message message = message_new(RESPONSE | CUT_OFF, DNS_A, 1, 0);
    put_record(&message, NULL, DNS_A, 30, S("\12\0\0\1"));
    ok(read_message(&message, DNS_A) == ERR_INCOMPLETE && answer.address_count == 1);
    arena_free(&keep);
}

/* Whatever is missing at the end is noticed; what is read is inside the bytes (address
 * sanitizer). */
TEST(a_message_without_its_end_is_malformed)
{
    struct message message = message_new(RESPONSE, DNS_SRV, 2, 1);
    put_service(&message, 30, 9002, "n1.fleet.test");
    put_service(&message, 30, 9003, "n2.fleet.test");
    put_record(&message, "n1.fleet.test", DNS_A, 30, S("\12\0\0\1"));
    for (size_t len = 0; len < message.len; len++) {
        char *copy = malloc(len + 1);
        memcpy(copy, message.bytes, len);
        ok(dns_answer_read((slice){ copy, len }, DNS_SRV, &keep, &answer) == ERR_FORMAT);
        free(copy);
    }
    ok(read_message(&message, DNS_SRV) == OK && answer.service_count == 2);
    arena_free(&keep);
}

TEST(names_that_point_to_themselves_are_malformed)
{
    struct message message = message_new(RESPONSE, DNS_A, 1, 0);
    size_t at = message.len;
    put_record(&message, NULL, DNS_A, 30, S("\12\0\0\1"));
    message.bytes[at] = 0xc0;
    message.bytes[at + 1] = (uint8_t)at;
    ok(read_message(&message, DNS_A) == ERR_FORMAT);
    struct message service = message_new(RESPONSE, DNS_SRV, 1, 0);
    char data[8] = { 0, 0, 0, 0, 0x23, 0x2a, (char)0xc0, 0 };
    data[7] = (char)(service.len + 12 + 6);    /* where this very pointer will be */
    put_record(&service, NULL, DNS_SRV, 30, (slice){ data, sizeof(data) });
    ok(read_message(&service, DNS_SRV) == OK && answer.service_count == 0);
    arena_free(&keep);
}

RUN(cmocka_unit_test(addresses_are_read),
    cmocka_unit_test(services_are_read_with_the_addresses_beside_them),
    cmocka_unit_test(malformed_records_beside_the_services_do_no_harm),
    cmocka_unit_test(services_without_a_host_are_left_out),
    cmocka_unit_test(records_of_a_wrong_size_or_class_are_left_out),
    cmocka_unit_test(no_records_are_no_failure),
    cmocka_unit_test(an_answer_that_was_cut_off_gives_what_there_is),
    cmocka_unit_test(a_message_without_its_end_is_malformed),
    cmocka_unit_test(names_that_point_to_themselves_are_malformed))
