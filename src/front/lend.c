/* lend.c - key pairs that Penstock lends to local clients. SPDX-License-Identifier: Apache-2.0
 *
 * A pair is valid for two hours. A client gets the newest pair. If that pair is an hour old, a new
 * pair is made first. So every client gets a pair with at least an hour left, and at most two pairs
 * are valid at a time. */
#include "front/lend.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/url_kind.h"
#include "s3/encode.h"

#define HANDED_S 3600             /* a pair of this age is not given to clients any more */
#define GOOD_S 7200               /* a pair of this age is no longer valid */
#define PAIRS 4u                  /* more than can be valid at a time */
static_assert(PAIRS > GOOD_S / HANDED_S, "a valid pair is not overwritten");

struct pair {
    char access_key[21], secret_key[41], token[65];
    int64_t made_s;               /* 0: none */
};

struct lend {
    pthread_mutex_t lock;
    char *token;                  /* clients must send it */
    struct pair pairs[PAIRS];
    unsigned newest;
};

struct lend *lend_new(slice token)
{
    check(token.len > 0);
    struct lend *lend = must_alloc(sizeof(*lend));
    pthread_mutex_init(&lend->lock, NULL);
    lend->token = must_strndup(token.ptr, token.len);
    return lend;
}

void lend_free(struct lend **lend)
{
    if (!*lend)
        return;
    pthread_mutex_destroy(&(*lend)->lock);
    free((*lend)->token);
    free(*lend);
    *lend = NULL;
}

/* ---- pairs ---- */

static void random_hex(char *to, size_t chars)
{
    uint8_t bytes[32];
    check(chars / 2 <= sizeof(bytes));
    check(getrandom(bytes, chars / 2, 0) == (ssize_t)(chars / 2));
    hex_write(bytes, chars / 2, to);
    to[chars] = '\0';
}

static bool is_good(const struct pair *pair, int64_t now_s)
{
    return pair->made_s && now_s >= pair->made_s && now_s < pair->made_s + GOOD_S;
}

static struct pair current(struct lend *lend, int64_t now_s)
{
    pthread_mutex_lock(&lend->lock);
    struct pair *pair = &lend->pairs[lend->newest % PAIRS];
    if (!is_good(pair, now_s) || now_s >= pair->made_s + HANDED_S) {
        pair = &lend->pairs[++lend->newest % PAIRS];
        memcpy(pair->access_key, "LENT", 4);
        random_hex(pair->access_key + 4, 16);
        random_hex(pair->secret_key, 40);
        random_hex(pair->token, 64);
        pair->made_s = now_s;
    }
    struct pair copy = *pair;
    pthread_mutex_unlock(&lend->lock);
    return copy;
}

bool lend_find(struct lend *lend, struct arena *keep, slice access_key, slice session_token,
               int64_t now_s, slice *ret_secret)
{
    bool found = false;
    pthread_mutex_lock(&lend->lock);
    for (size_t i = 0; i < PAIRS && !found; i++) {
        const struct pair *pair = &lend->pairs[i];
        found = is_good(pair, now_s) &&
                slice_eq_secret(slice_of(pair->access_key), access_key) &&
                slice_eq_secret(slice_of(pair->token), session_token);
        if (found)
            *ret_secret = arena_copy(keep, slice_of(pair->secret_key));
    }
    pthread_mutex_unlock(&lend->lock);
    return found;
}

/* ---- the page ---- */

/* True for a Host header or an address that means this machine, with or without a port. */
static bool is_loopback(slice host)
{
    uint64_t part;
    unsigned parts = 0;
    (void)url_cut_port(&host);
    if (slice_eq(host, S("[::1]")) || slice_eq_nocase(host, S("localhost")))
        return true;
    for (slice rest = host; rest.ptr; parts++)
        if (!slice_u64(slice_cut(&rest, '.'), &part) || part > 255 || (parts == 0 && part != 127))
            return false;
    return parts == 4;
}

/* True for a header that only browsers or proxies send. A proxy on this machine may forward
 * requests of other machines. The header Origin alone would not show every browser: a stored object
 * may be a page, and requests that this page sends to its own host have no Origin. */
static bool is_of_others(slice name)
{
    static const char *const names[] = { "origin", "referer", "cookie", "forwarded", "via",
                                         "x-real-ip" };
    return slice_is_one_of_nocase(name, names, countof(names)) ||
           slice_starts_nocase(name, S("sec-fetch-")) ||
           slice_starts_nocase(name, S("x-forwarded-"));
}

/* Returns NULL if the client may have a pair, otherwise the reason of the refusal. */
static const char *why_not(const struct lend *lend, slice peer, const struct request_head *head)
{
    bool hosted = false, authorized = false;
    for (size_t i = 0; i < head->field_count; i++) {
        slice name = head->fields[i].name, value = slice_trim(head->fields[i].value);
        if (slice_eq_nocase(name, S("host")))
            hosted = is_loopback(value);
        if (slice_eq_nocase(name, S("authorization")))
            authorized = slice_eq_secret(slice_of(lend->token),
                                         slice_starts(value, S("Bearer ")) &&
                                                 strncmp(lend->token, "Bearer ", 7) != 0
                                             ? slice_from(value, 7) : value);
        if (is_of_others(name))
            return "the request came from a browser or through a proxy: only programs on this "
                   "machine may get credentials, without a proxy";
    }
    return !is_loopback(peer) ? "the client's address is not a loopback address, and only programs "
                                "on this machine may get credentials: use 127.0.0.1 in "
                                "AWS_CONTAINER_CREDENTIALS_FULL_URI. A container must also use "
                                "the network of the host"
         : !hosted ? "the Host header of the request is neither a loopback address nor localhost: "
                     "use one of these in AWS_CONTAINER_CREDENTIALS_FULL_URI"
         : !authorized ? "the Authorization header of the request is not lend_token: set "
                         "AWS_CONTAINER_AUTHORIZATION_TOKEN to that token" : NULL;
}

const char *lend_answer(struct lend *lend, struct arena *keep, slice peer,
                        const struct request_head *head, int64_t now_s, slice *ret_access_key,
                        struct http_answer *ret)
{
    const char *why = why_not(lend, peer, head);
    if (why) {
        ret->status = 403;
        ret->body = S("{\"code\":\"AccessDenied\",\"message\":\"Penstock gives credentials only to "
                      "programs on this machine. This request has one of four mistakes: (1) its "
                      "sender's address is not a loopback address; (2) its Host header is neither "
                      "a loopback address nor localhost: use one of these in "
                      "AWS_CONTAINER_CREDENTIALS_FULL_URI; (3) it came from a browser or through a "
                      "proxy; (4) its Authorization header is not lend_token: set "
                      "AWS_CONTAINER_AUTHORIZATION_TOKEN to that token. Penstock's access log says "
                      "which (lend_refused)\"}\n");
        return why;
    }
    struct pair pair = current(lend, now_s);
    slice until = iso_date_text(keep, pair.made_s + GOOD_S);
    ret->status = 200;
    ret->body = arena_printf(keep, "{\"AccessKeyId\":\"%s\",\"SecretAccessKey\":\"%s\","
                             "\"Token\":\"%s\",\"Expiration\":\"%.19sZ\"}\n", pair.access_key,
                             pair.secret_key, pair.token, until.ptr);
    *ret_access_key = arena_copy(keep, slice_of(pair.access_key));
    return NULL;
}
