/* test_peers_members.c - what the setting "peers" may be, and addresses.
 * SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <pthread.h>
#include <stdio.h>

#include "peers/members.h"

/* Reads a setting, which must be good, and prints what was read. */
static void reads(const char *setting, const char *want)
{
    struct arena keep = { 0 };
    struct members_source source;
    const char *why = "";
    if (!members_parse(slice_of(setting), &keep, &source, &why))
        fail_msg("\"%s\" %s", setting, why);
    struct text text = text_in(&keep);
    text_printf(&text, "%d%s", source.kind, source.has_services ? " srv" : "");
    for (size_t i = 0; i < source.host_count; i++)
        text_printf(&text, " %.*s %u", SLICE_ARG(source.hosts[i].host), source.hosts[i].port);
    if (source.url.len)
        text_printf(&text, " %.*s %.*s", SLICE_ARG(source.url), SLICE_ARG(source.prefix));
    same(text_slice(&text), slice_of(want));
    arena_free(&keep);
}

static void refuses(const char *setting, const char *part)
{
    struct arena keep = { 0 };
    struct members_source source;
    const char *why = "";
    ok_as(!members_parse(slice_of(setting), &keep, &source, &why), setting);
    if (!strstr(why, part))
        fail_msg("\"%s\": \"%s\" has no \"%s\"", setting, why, part);
    arena_free(&keep);
}

TEST(the_setting_has_four_forms)
{
    reads("", "0");
    reads("10.0.0.1", "1 10.0.0.1 0");
    reads("10.0.0.1:9002,node-b.example:1 , [fd00::4]:65535, [::1],c",
          "1 10.0.0.1 9002 node-b.example 1 fd00::4 65535 ::1 0 c 0");
    reads("localhost:9002, localhost:9003", "1 localhost 9002 localhost 9003");
    reads("dns:penstock-peers", "2 penstock-peers 0");
    reads("dns:peers.default.svc.cluster.local.:9002", "2 peers.default.svc.cluster.local. 9002");
    reads("dns:_penstock._tcp.example", "2 srv _penstock._tcp.example 0");
    reads("etcd:https://etcd.example:2379/penstock", "3 https://etcd.example:2379 penstock");
    reads("etcd:http://[::1]:2379//penstock/fleet a/", "3 http://[::1]:2379 /penstock/fleet a");
}

TEST(a_mistake_says_what_to_write)
{
    static const char *const told[][2] = {
        { ",", "empty entry" }, { "a,,b", "empty entry" }, { "a,", "empty entry" },
        { "a:0", "the port must be between 1 and 65535" },
        { "a:65536", "the port must be between" },
        { "a:x", "\"x\" is no port: write HOST:PORT" }, { "a:", "\"\" is no port" },
        { "::1", "write [::1] or [::1]:PORT" }, { "fd00::4:9002", "without brackets" },
        { "[a]", "no IPv6 address" }, { "[10.0.0.1", "not a host name" },
        { "10.0.0.256", "neither an IPv4 address nor a host name" },
        { "0.0.0.0:9002", "every address of a machine" },
        { "[::]:9002", "every address of a machine" },
        { "a b", "not a host name" }, { "a;b", "not a host name" }, { "a..b", "not a host name" },
        { "https://a", "must be dns:NAME, etcd:URL/PREFIX, or a list" },
        { "consul:a", "\"a\" is no port" },
        { "dns:", "has no name after dns:" }, { "dns:a, b", "write one name" },
        { "dns:a:x", "is no port" }, { "dns:10.0.0.1", "Write addresses without dns:" },
        { "dns:_a._tcp.b:9002", "remove the port" },
        { "etcd:a/b", "must have an http or https URL" },
        { "etcd:https://a", "has no prefix" }, { "etcd:https://a/", "has no prefix" },
        { "etcd:https://a//", "has no prefix" },
        { "etcd:https://u:p@a/b", "set etcd_user and etcd_password_file" },
        { "etcd:https:///b", "must have an http or https URL" },
        { "etcd:https://a:99999/b", "the port must be between" },
    };
    for (size_t i = 0; i < countof(told); i++)
        refuses(told[i][0], told[i][1]);
    struct arena keep = { 0 };
    struct text text = text_in(&keep);
    for (unsigned i = 0; i <= MEMBERS_MAX; i++)
        text_printf(&text, "%sn%u", i ? "," : "", i);
    text_char(&text, '\0');
    refuses(text.ptr, "more than 1000 nodes");
    char label[65] = { 0 };
    memset(label, 'a', 64);
    refuses(label, "not a host name");
    arena_free(&keep);
}

TEST(addresses_are_read_printed_and_given_to_connect)
{
    static const char *const texts[][2] = {
        { "10.0.0.1", "10.0.0.1:9002" }, { "::ffff:10.0.0.1", "10.0.0.1:9002" },
        { "fd00:0::4", "[fd00::4]:9002" }, { "::1", "[::1]:9002" },
        { "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
          "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:9002" },
    };
    for (size_t i = 0; i < countof(texts); i++) {
        struct member_address address, again;
        struct sockaddr_storage at;
        char text[MEMBER_TEXT_BYTES];
        ok(member_address_read(slice_of(texts[i][0]), 9002, &address));
        same(member_text(&address, text), slice_of(texts[i][1]));
        ok(member_sockaddr(&address, &at) > 0);
        ok(member_of_sockaddr((struct sockaddr *)&at, 9002, &again));
        ok(member_order(&address, &again) == 0);
    }
    struct member_address address;
    static const char *const odd[] = { "", "a", "[::1]", "10.0.0", "10.0.0.1:1", "1.2.3.4.5",
                                       "fe80::1%lo" };
    for (size_t i = 0; i < countof(odd); i++)
        ok_as(!member_address_read(slice_of(odd[i]), 1, &address), odd[i]);
    ok(!member_address_read((slice){ "10.0.0.1\0x", 10 }, 1, &address));
    ok(!member_of_sockaddr(&(struct sockaddr){ .sa_family = AF_UNIX }, 1, &address));
}

TEST(addresses_have_an_order)
{
    static const char *const sorted[] = { "::1", "9.0.0.1", "10.0.0.1", "200.0.0.1", "fd00::1" };
    struct member_address a, b;
    for (size_t i = 0; i < countof(sorted); i++)
        for (size_t j = 0; j < countof(sorted); j++) {
            ok(member_address_read(slice_of(sorted[i]), 2, &a));
            ok(member_address_read(slice_of(sorted[j]), 2, &b));
            int order = member_order(&a, &b);
            ok(i < j ? order < 0 : i > j ? order > 0 : order == 0);
        }
    b = a;
    b.port = 300;
    ok(member_order(&a, &b) < 0 && member_order(&b, &a) > 0);
}

/* ---- the thread, with lists that need no server ---- */

static char got[256];
static _Atomic unsigned calls;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t called = PTHREAD_COND_INITIALIZER;

static void on_change(void *arg, const struct member_address *list, size_t count)
{
    char text[MEMBER_TEXT_BYTES];
    size_t len = 0;
    (void)arg;
    pthread_mutex_lock(&lock);
    got[0] = '\0';
    for (size_t i = 0; i < count; i++)
        len += (size_t)snprintf(got + len, sizeof(got) - len, "%.*s ",
                                SLICE_ARG(member_text(&list[i], text)));
    calls++;
    pthread_cond_signal(&called);
    pthread_mutex_unlock(&lock);
}

TEST(a_list_is_sorted_and_has_no_duplicates)
{
    struct members_options options = {
        .peers = S("10.0.0.3, [::ffff:10.0.0.2], 10.0.0.10:1, 10.0.0.2:9002, [fd00::1], "
                   "10.0.0.2:1"),
        .listen = S("10.0.0.2:9002"), .etcd_ca_file = "", .changed = on_change,
    };
    struct members *members;
    struct arena keep = { 0 };
    struct members_status status;
    ok(members_open(&options, &members) == OK);
    ok(members_begin(members) == OK);
    pthread_mutex_lock(&lock);
    while (!calls)
        pthread_cond_wait(&called, &lock);
    same(slice_of(got), S("10.0.0.2:1 10.0.0.2:9002 10.0.0.3:9002 10.0.0.10:1 [fd00::1]:9002 "));
    pthread_mutex_unlock(&lock);
    members_status(members, &keep, &status);
    ok(status.count == 5 && status.left_out == 0 && status.changed_s && status.looked_s);
    ok(!status.failed_s && !status.why.len);
    members_close(&members);
    ok(members == NULL && calls == 1);
    members_close(&members);
    arena_free(&keep);
}

TEST(without_peers_nothing_runs)
{
    struct members_options options = {
        .peers = S(""), .listen = S("off"), .etcd_ca_file = "", .changed = on_change,
    };
    struct members *members;
    struct arena keep = { 0 };
    struct members_status status;
    unsigned before = calls;
    ok(members_open(&options, &members) == OK);
    ok(members_begin(members) == OK);
    members_status(members, &keep, &status);
    ok(status.count == 0 && !status.looked_s && !status.failed_s);
    members_close(&members);
    ok(calls == before);
    options.peers = S("dns:");
    ok(members_open(&options, &members) == ERR_BAD_ARGUMENT);
    arena_free(&keep);
}

RUN(cmocka_unit_test(the_setting_has_four_forms),
    cmocka_unit_test(a_mistake_says_what_to_write),
    cmocka_unit_test(addresses_are_read_printed_and_given_to_connect),
    cmocka_unit_test(addresses_have_an_order),
    cmocka_unit_test(a_list_is_sorted_and_has_no_duplicates),
    cmocka_unit_test(without_peers_nothing_runs))
