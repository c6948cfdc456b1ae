/* crc.c - cyclic checksums. SPDX-License-Identifier: Apache-2.0
 *
 * ISA-L computes CRC-32 and CRC-32C. Its function crc32_iscsi takes and returns the bare register,
 * and takes the length as an int. So this file does the usual inversion before and after the call,
 * and splits long inputs. crc32_gzip_refl inverts by itself, and takes any length.
 * CRC-64/NVME is computed here, because ISA-L (2.30) lacks its polynomial. If the processor has
 * carry-less multiplication, the input is folded into four lanes of 16 bytes, 64 bytes at a time.
 * To move a lane by k bits, its low half is multiplied by x^(k+64) and its high half by x^k, modulo
 * the polynomial. Bits are reflected, which makes each product one bit short, so the exponents of
 * the constants are one less. A table serves short inputs, other processors, and the bytes that are
 * left after the folding. Constants and table are computed once. */
#include "base/crc.h"

#include <isa-l/crc.h>
#include <limits.h>
#include <pthread.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define NVME_POLYNOMIAL 0x9a6c9329ac4bc9b5u    /* reflected, without x^64 */
#define FOLD_BYTES_LEAST 128u

uint32_t crc32c(uint32_t seed, const void *bytes, size_t len)
{
    unsigned char *at = (unsigned char *)(uintptr_t)bytes;    /* ISA-L's argument is not const */
    unsigned int sum = ~seed;
    while (len) {
        int part = (int)MIN(len, (size_t)INT_MAX);
        sum = crc32_iscsi(at, part, sum);
        at += part;
        len -= (size_t)part;
    }
    return ~sum;
}

uint32_t crc32(uint32_t seed, const void *bytes, size_t len)
{
    return len ? crc32_gzip_refl(seed, bytes, len) : seed;
}

/* ---- CRC-64/NVME ---- */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint64_t table[8][256];
/* fold_far moves a lane by 64 bytes, fold_near by 16. [0] multiplies the low half of the lane. */
static uint64_t fold_far[2], fold_near[2];
static bool can_fold;

/* Returns x^power modulo the polynomial. Bit 63 stands for x^0, as in all values of this file. */
static uint64_t power_of_x(unsigned power)
{
    uint64_t value = 1ull << 63;
    while (power--)
        value = value >> 1 ^ (value & 1 ? NVME_POLYNOMIAL : 0);
    return value;
}

static void prepare(void)
{
    for (unsigned byte = 0; byte < 256; byte++) {
        uint64_t sum = byte;
        for (unsigned bit = 0; bit < 8; bit++)
            sum = sum >> 1 ^ (sum & 1 ? NVME_POLYNOMIAL : 0);
        table[0][byte] = sum;
    }
    for (unsigned byte = 0; byte < 256; byte++)
        for (unsigned row = 1; row < 8; row++)
            table[row][byte] = table[row - 1][byte] >> 8 ^ table[0][table[row - 1][byte] & 0xff];
    fold_far[0] = power_of_x(512 + 63);
    fold_far[1] = power_of_x(512 - 1);
    fold_near[0] = power_of_x(128 + 63);
    fold_near[1] = power_of_x(128 - 1);
#if defined(__x86_64__)
    can_fold = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
#endif
}

static uint64_t by_table(uint64_t sum, const unsigned char *at, size_t len)
{
    for (; len >= 8; at += 8, len -= 8) {
        for (unsigned i = 0; i < 8; i++)
            sum ^= (uint64_t)at[i] << (8 * i);
        uint64_t next = 0;
        for (unsigned i = 0; i < 8; i++)
            next ^= table[7 - i][sum >> (8 * i) & 0xff];
        sum = next;
    }
    for (; len; at++, len--)
        sum = sum >> 8 ^ table[0][(sum ^ *at) & 0xff];
    return sum;
}

#if defined(__x86_64__)
#define FOLDS __attribute__((target("pclmul,sse4.1")))

FOLDS static inline __m128i load(const unsigned char *at)
{
    return _mm_loadu_si128((const __m128i *)(const void *)at);
}

FOLDS static inline __m128i fold(__m128i lane, __m128i by, __m128i onto)
{
    return _mm_xor_si128(onto, _mm_xor_si128(_mm_clmulepi64_si128(lane, by, 0x00),
                                             _mm_clmulepi64_si128(lane, by, 0x11)));
}

FOLDS static uint64_t by_folding(uint64_t sum, const unsigned char *at, size_t len)
{
    __m128i far = _mm_set_epi64x((long long)fold_far[1], (long long)fold_far[0]);
    __m128i near = _mm_set_epi64x((long long)fold_near[1], (long long)fold_near[0]);
    __m128i lanes[4];
    for (unsigned i = 0; i < 4; i++)
        lanes[i] = load(at + 16 * i);
    lanes[0] = _mm_xor_si128(lanes[0], _mm_set_epi64x(0, (long long)sum));
    for (at += 64, len -= 64; len >= 64; at += 64, len -= 64)
        for (unsigned i = 0; i < 4; i++)
            lanes[i] = fold(lanes[i], far, load(at + 16 * i));
    for (unsigned i = 1; i < 4; i++)
        lanes[i] = fold(lanes[i - 1], near, lanes[i]);
    unsigned char left[16];
    _mm_storeu_si128((__m128i *)(void *)left, lanes[3]);
    return by_table(by_table(0, left, sizeof(left)), at, len);
}
#else
static uint64_t by_folding(uint64_t sum, const unsigned char *at, size_t len)
{
    return by_table(sum, at, len);
}
#endif

uint64_t crc64nvme(uint64_t seed, const void *bytes, size_t len)
{
    pthread_once(&once, prepare);
    return ~(can_fold && len >= FOLD_BYTES_LEAST ? by_folding(~seed, bytes, len)
                                                 : by_table(~seed, bytes, len));
}
