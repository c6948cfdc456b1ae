/* fuzz_dns.c - any bytes as the answer of a name server. SPDX-License-Identifier: Apache-2.0
 *
 * The first byte chooses the type that was asked for. */
#include "peers/dns_answer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum dns_type types[] = { DNS_A, DNS_AAAA, DNS_SRV };
    struct arena arena = { 0 };
    struct dns_answer answer;
    if (!size)
        return 0;
    slice message = { (const char *)data + 1, size - 1 };
    enum dns_type type = types[data[0] % countof(types)];
    enum err e = dns_answer_read(message, type, &arena, &answer);
    check(e == OK || e == ERR_FORMAT || e == ERR_INCOMPLETE);
    check(type == DNS_SRV || answer.service_count == 0);
    for (size_t i = 0; i < answer.service_count; i++)
        check(answer.services[i].port && answer.services[i].target.len &&
              !slice_has_control(answer.services[i].target));
    /* The smallest record has 11 bytes, and each gives at most one item. */
    check((answer.service_count + answer.address_count) * 11 <= message.len);
    arena_free(&arena);
    return 0;
}
