/* test_s3_sigv4.c - signatures of others verified, ours made.
 * SPDX-License-Identifier: Apache-2.0 */
#include "vector_unit.h"

#include <openssl/sha.h>

#include "s3/canon.h"
#include "s3/encode.h"
#include "s3/sigv4.h"

#define SECRET S("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
#define KEY S("AKIDEXAMPLE")
#define NOW 1440938160    /* 2015-08-30T12:36:00Z */

static struct sigv4 *sigv4;
static struct request_head head;
static struct sigv4_claim claim;

static int set_up(void **state)
{
    sigv4 = sigv4_new();
    return 0;
}

static int tear_down(void **state)
{
    sigv4_free(&sigv4);
    sigv4_free(&sigv4);
    return 0;
}

static enum err read_claim(struct arena *keep, slice bytes)
{
    enum err e = request_head_scan(bytes, &head, NULL);
    return e ? e : sigv4_claim_read(keep, &head, &claim);
}

/* As a server does it: the secret is found by the access key. */
static enum err verify_at(slice bytes, int64_t now_s)
{
    struct arena arena = { 0 };
    enum err e = read_claim(&arena, bytes);
    if (!e && !slice_eq(claim.access_key, KEY))
        e = ERR_UNKNOWN_KEY;
    if (!e)
        e = sigv4_verify(sigv4, &arena, &head, &claim, SECRET, now_s);
    arena_free(&arena);
    return e;
}

/* ---- the vectors ---- */

static enum err wanted(const char *expect)
{
    return strcmp(expect, "ok") == 0 ? OK
         : strcmp(expect, "head") == 0 ? ERR_BAD_HEAD : ERR_SIGNATURE;
}

TEST(every_vector_of_botocore_has_its_verdict)
{
    FILE *file = vectors_open("sigv4.txt");
    struct vector vector;
    size_t count = 0;
    while (vector_next(file, &vector)) {
        enum err e = verify_at((slice){ vector.head, vector.len }, NOW);
        if (e != wanted(vector.word) &&
            !(e == ERR_NOT_SIGNED && wanted(vector.word) == ERR_SIGNATURE))
            fail_msg("%s: %s", vector.name, err_name(e));
        count++;
    }
    fclose(file);
    ok(count > 76);
}

/* Everything in these heads is signed or is what the signature is made with. */
TEST(every_vector_with_any_one_byte_changed_is_refused)
{
    FILE *file = vectors_open("sigv4.txt");
    struct vector vector;
    while (vector_next(file, &vector)) {
        if (strcmp(vector.word, "ok") != 0)
            continue;
        for (size_t i = 0; i < vector.len; i++) {
            char before = vector.head[i];
            vector.head[i] = before == 'x' || before == 'X' ? 'y' : 'x';
            if (verify_at((slice){ vector.head, vector.len }, NOW) == OK)
                fail_msg("%s verifies with byte %zu changed", vector.name, i);
            vector.head[i] = before;
        }
        ok(verify_at((slice){ vector.head, vector.len }, NOW) == OK);
    }
    fclose(file);
}

/* ---- claims ---- */

#define SIGNATURE "4a57a9b66302b918923f101b20f6be667a12693f84a1e13a9a8b877028bef358"
#define SCOPE "20150830/us-east-1/s3/aws4_request"
#define SIGNED "host;x-amz-content-sha256;x-amz-date"
#define AUTH(scope, names, signature) \
    "Authorization: AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/" scope ", SignedHeaders=" names \
    ", Signature=" signature "\r\n"
#define GOOD AUTH(SCOPE, SIGNED, SIGNATURE)
#define DATE "X-Amz-Date: 20150830T123600Z\r\n"
#define HASH "X-Amz-Content-SHA256: " EMPTY_SHA256 "\r\n"

/* What `claim` then points into stays until the next call. */
static enum err claimed(const char *target, const char *headers)
{
    static struct arena arena;
    arena_free(&arena);
    slice bytes = arena_printf(&arena, "GET %s HTTP/1.1\r\nHost: example.amazonaws.com\r\n%s\r\n",
                               target, headers);
    return read_claim(&arena, bytes);
}

TEST(a_claim_in_the_header_says_all_that_is_needed)
{
    struct arena arena = { 0 };
    ok(read_claim(&arena, S("GET / HTTP/1.1\r\nHost: h\r\n" DATE HASH
                            "x-amz-security-token: tok\r\n"
                            "Authorization: AWS4-HMAC-SHA256 Signature=" SIGNATURE
                            ",SignedHeaders=" SIGNED ",Credential=a/b/" SCOPE "\r\n\r\n")) == OK);
    same(claim.access_key, S("a/b"));    /* a key may hold a slash */
    same(claim.date, S("20150830"));
    same(claim.region, S("us-east-1"));
    same(claim.service, S("s3"));
    same(claim.signed_headers, S(SIGNED));
    same(claim.signature, S(SIGNATURE));
    same(claim.session_token, S("tok"));
    ok(claim.signed_at_s == NOW && !claim.presigned && claim.payload == PAYLOAD_HEX);
    ok(claim.payload_sha256[0] == 0xe3 && claim.payload_sha256[31] == 0x55);
    arena_free(&arena);
}

TEST(the_payload_is_named_in_three_ways)
{
    ok(claimed("/", GOOD DATE HASH) == OK && claim.payload == PAYLOAD_HEX);
    ok(claimed("/", GOOD DATE "x-amz-content-sha256: UNSIGNED-PAYLOAD\r\n") == OK);
    ok(claim.payload == PAYLOAD_UNSIGNED);
    ok(claimed("/", GOOD DATE
               "x-amz-content-sha256: STREAMING-AWS4-HMAC-SHA256-PAYLOAD\r\n") == OK);
    ok(claim.payload == PAYLOAD_SIGNED_CHUNKS);
    ok(claimed("/", GOOD DATE "x-amz-content-sha256: e3b0\r\n") == ERR_BAD_ARGUMENT);
    ok(claimed("/", GOOD DATE) == ERR_BAD_REQUEST);
}

TEST(a_request_may_be_dated_by_its_date)
{
    ok(claimed("/", GOOD HASH "Date: Sun, 30 Aug 2015 12:36:00 GMT\r\n") == OK &&
       claim.signed_at_s == NOW);
    ok(claimed("/", GOOD HASH) == ERR_DENIED);
    ok(claimed("/", GOOD HASH "X-Amz-Date: yesterday\r\n") == ERR_DENIED);
}

TEST(another_scheme_is_an_argument_that_is_wrong)
{
    ok(claimed("/", "Authorization: \r\n" DATE HASH) == ERR_BAD_ARGUMENT);
    ok(claimed("/", "Authorization: Basic eDp5\r\n" DATE HASH) == ERR_BAD_ARGUMENT);
    same(claim.fault.message, S("Unsupported Authorization Type"));
    same(claim.fault.more[1].value, S("Basic"));
    ok(claimed("/", "Authorization: AWS4-HMAC-SHA256\r\n" DATE HASH) == ERR_BAD_ARGUMENT);
    ok(claimed("/", "Authorization: AWS4-ECDSA-P256-SHA256 Credential=a\r\n" DATE HASH) ==
       ERR_BAD_ARGUMENT);
}

TEST(why_it_is_refused_is_said_in_the_words_of_s3)
{
    static const struct {
        const char *credential, *message;
    } rows[] = {
        { "AKID/20150830/us-east-1/ec2/aws4_request",
          "incorrect service \"ec2\". This endpoint belongs to \"s3\"." },
        { "AKID/20150830/us-east-1/s3/aws_request",
          "incorrect terminal \"aws_request\". This endpoint uses \"aws4_request\"." },
        { "AKID/2015083/us-east-1/s3/aws4_request", "incorrect date format \"2015083\". This date "
          "in the credential must be in the format \"yyyyMMdd\"." },
        { "AKID/us-east-1/s3/aws4_request", "the Credential is mal-formed; expecting "
          "\"<YOUR-AKID>/YYYYMMDD/REGION/SERVICE/aws4_request\"." },
    };
    for (size_t i = 0; i < countof(rows); i++) {
        struct arena arena = { 0 };
        slice line = arena_printf(&arena, "Authorization: AWS4-HMAC-SHA256 Credential=%s, "
                                  "SignedHeaders=" SIGNED ", Signature=" SIGNATURE "\r\n" DATE HASH,
                                  rows[i].credential);
        ok(read_claim(&arena, arena_printf(&arena, "GET / HTTP/1.1\r\nHost: h\r\n%s\r\n",
                                           line.ptr)) == ERR_BAD_AUTH_HEADER);
        same(claim.fault.message, arena_printf(&arena, "The authorization header is malformed; %s",
                                               rows[i].message));
        arena_free(&arena);
    }
}

/* Whoever has no good signature gets no more than a few times what they sent. */
TEST(what_is_long_is_not_explained_at_length)
{
    static char value[30000];
    memset(value, 'v', sizeof(value) - 1);
    for (int is_long = 0; is_long < 2; is_long++) {
        struct arena arena = { 0 };
        struct sigv4 *fresh = sigv4_new();
        struct s3_fault fault;
        slice bytes = arena_printf(&arena, "GET / HTTP/1.1\r\nHost: h\r\nx-amz-meta-a: %s\r\n" AUTH(
            SCOPE, SIGNED ";x-amz-meta-a", SIGNATURE) DATE HASH "\r\n", is_long ? value : "v");
        size_t size = 0;
        ok(request_head_scan(bytes, &head, NULL) == OK);
        ok(sigv4_claim_read(&arena, &head, &claim) == OK);
        sigv4_explain(fresh, &arena, &head, &claim, ERR_SIGNATURE, NOW, &fault);
        for (size_t i = 0; i < fault.more_count; i++)
            size += fault.more[i].value.len;
        ok(fault.more_count == (is_long ? 4 : 6) && size < 4096);
        if (!is_long)
            ok(slice_starts(fault.more[5].value, S("47 45 54 0a 2f 0a")));
        sigv4_free(&fresh);
        arena_free(&arena);
    }
}

TEST(a_region_may_have_to_be_one_of_ours)
{
    struct arena arena = { 0 };
    ok(claimed("/", GOOD DATE HASH) == OK);
    ok(sigv4_claim_region(&arena, S(""), &claim) == OK);
    ok(sigv4_claim_region(&arena, S("eu-west-1, us-east-1"), &claim) == OK);
    ok(sigv4_claim_region(&arena, S("eu-west-1,us-east-2"), &claim) == ERR_BAD_AUTH_HEADER);
    same(claim.fault.message, S("The authorization header is malformed; the region \"us-east-1\" is "
                                "wrong; expecting \"eu-west-1\""));
    arena_free(&arena);
}

TEST(a_malformed_authorization_is_named_so)
{
    static const char *const bad[] = {
        "Authorization: AWS4-HMAC-SHA256 a\r\n",
        "Authorization: AWS4-HMAC-SHA256 Credential\r\n",
        "Authorization: AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/" SCOPE
        ", SignedHeaders=" SIGNED "\r\n",
        "Authorization: AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/" SCOPE
        ", Signature=" SIGNATURE "\r\n",
        AUTH(SCOPE, SIGNED, SIGNATURE ", Foo=bar"),
        AUTH(SCOPE, SIGNED, SIGNATURE ", Signature=" SIGNATURE), AUTH(SCOPE, SIGNED, "4a57"),
        AUTH(SCOPE, "", SIGNATURE), AUTH(SCOPE, "x-amz-date;host", SIGNATURE),
        AUTH(SCOPE, "host;host", SIGNATURE), AUTH(SCOPE, "Host", SIGNATURE),
        AUTH(SCOPE, "host;", SIGNATURE), AUTH(SCOPE, "a b", SIGNATURE),
        AUTH(SCOPE, "a:b", SIGNATURE),
        AUTH("20150831/us-east-1/s3/aws4_request", SIGNED, SIGNATURE),
        AUTH("20150830/us-east-1/sqs/aws4_request", SIGNED, SIGNATURE),
        AUTH("20150830/us-east-1/s3/aws4", SIGNED, SIGNATURE),
        AUTH("20150830//s3/aws4_request", SIGNED, SIGNATURE),
        AUTH("aws4_request", SIGNED, SIGNATURE), GOOD GOOD, GOOD DATE, GOOD HASH HASH,
    };
    for (size_t i = 0; i < countof(bad); i++) {
        char headers[2048];
        snprintf(headers, sizeof(headers), "%s" DATE "%s", bad[i],
                 strstr(bad[i], HASH) ? "" : HASH);
        if (claimed("/", headers) != ERR_BAD_AUTH_HEADER)
            fail_msg("%s", bad[i]);
    }
    ok(claimed("/", "Authorization: AWS4-HMAC-SHA256 Credential=/" SCOPE
               ", SignedHeaders=host, Signature=" SIGNATURE "\r\n" DATE HASH) ==
       ERR_BAD_AUTH_HEADER);
}

TEST(no_signature_and_version_2_are_told_apart)
{
    ok(claimed("/", "") == ERR_NO_AUTH && claimed("/?prefix=a", DATE HASH) == ERR_NO_AUTH);
    ok(claimed("/", "Date: Sun, 30 Aug 2015 12:36:00 GMT\r\n"
               "Authorization: AWS AKIDEXAMPLE:frJIUN8DYpKDtOLCwo//yllqDzg=\r\n") == OK && claim.v2);
    ok(claimed("/?AWSAccessKeyId=a&Signature=b%3D&Expires=1", "") == OK && claim.v2);
    ok(claimed("/?AWSAccessKeyId=a", "") == ERR_DENIED);
}

#define QUERY(algorithm, key, date, expires, names, signature) \
    "/?X-Amz-Algorithm=" algorithm "&X-Amz-Credential=" key "&X-Amz-Date=" date \
    "&X-Amz-Expires=" expires "&X-Amz-SignedHeaders=" names "&X-Amz-Signature=" signature
#define V4 "AWS4-HMAC-SHA256"
#define Q_KEY "AKIDEXAMPLE%2F20150830%2Fus-east-1%2Fs3%2Faws4_request"
#define Q_DATE "20150830T123600Z"
#define Q_GOOD QUERY(V4, Q_KEY, Q_DATE, "604800", "host", SIGNATURE)

TEST(two_ways_to_sign_at_once_are_one_too_many)
{
    ok(claimed(Q_GOOD, GOOD DATE HASH) == ERR_BAD_ARGUMENT);
    ok(claimed(Q_GOOD "&AWSAccessKeyId=a&Signature=b", "") == ERR_BAD_ARGUMENT);
    ok(claimed("/?X-Amz-Signature=a", GOOD DATE HASH) == ERR_BAD_ARGUMENT);
}

TEST(a_presigned_claim_says_all_that_is_needed)
{
    ok(claimed(Q_GOOD, "") == OK && claim.presigned && claim.expires_s == 604800);
    ok(claim.payload == PAYLOAD_UNSIGNED && claim.signed_at_s == NOW && !claim.session_token.ptr);
    ok(claimed(Q_GOOD, HASH) == OK && claim.payload == PAYLOAD_HEX);
    ok(claimed(Q_GOOD "&X-Amz-Content-Sha256=" EMPTY_SHA256, "") == OK &&
       claim.payload == PAYLOAD_HEX);
    ok(claimed(Q_GOOD "&X-Amz-Content-Sha256=x", "") == ERR_BAD_ARGUMENT);
    ok(claimed(Q_GOOD "&x-amz-content-sh%612%356=" EMPTY_SHA256, "") == OK &&
       claim.payload == PAYLOAD_HEX);
    ok(claimed(Q_GOOD "&x-amz-content-sha256=UNSIGNED-PAYLOAD", HASH) == ERR_BAD_ARGUMENT);
    ok(claimed("/?x-amz-content-sha256=UNSIGNED-PAYLOAD", GOOD DATE HASH) == ERR_BAD_ARGUMENT);
    ok(claimed(Q_GOOD "&x-amz-expires=1", "") == ERR_BAD_AUTH_QUERY);
    ok(claimed(Q_GOOD, "x-amz-security-token: t\r\n") == OK && claim.session_token.len == 1);
}

TEST(a_malformed_presigned_query_is_named_so)
{
    static const char *const bad[] = {
        QUERY("AWS4", Q_KEY, Q_DATE, "1", "host", SIGNATURE),
        QUERY(V4, "a", Q_DATE, "1", "host", SIGNATURE),
        QUERY(V4, Q_KEY, "2015", "1", "host", SIGNATURE),
        QUERY(V4, Q_KEY, "20150831T123600Z", "1", "host", SIGNATURE),
        QUERY(V4, Q_KEY, Q_DATE, "604801", "host", SIGNATURE),
        QUERY(V4, Q_KEY, Q_DATE, "-1", "host", SIGNATURE),
        QUERY(V4, Q_KEY, Q_DATE, "1", "", SIGNATURE), QUERY(V4, Q_KEY, Q_DATE, "1", "host", "12"),
        QUERY(V4, "%zz", Q_DATE, "1", "host", SIGNATURE), "/?X-Amz-Algorithm",
        "/?X-Amz-Algorithm=AWS4-HMAC-SHA256", "/?X-Amz-Credential=" Q_KEY,
        "/?X-Amz-Signature=" SIGNATURE, Q_GOOD "&X-Amz-Expires=1",
        "/?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=" Q_KEY,
    };
    for (size_t i = 0; i < countof(bad); i++)
        if (claimed(bad[i], "") != ERR_BAD_AUTH_QUERY)
            fail_msg("%s", bad[i]);
    ok(claimed(Q_GOOD "&X-Amz-Security-Token=a",
               "x-amz-security-token: t\r\n") == ERR_BAD_AUTH_QUERY);
}

/* ---- time, and what must be signed ---- */

static slice head_of(struct arena *keep, const char *method, const char *target,
                     const struct http_field *fields, size_t count, const struct sigv4_signed *more)
{
    struct text text = text_in(keep);
    text_printf(&text, "%s %s HTTP/1.1\r\n", method, target);
    for (size_t i = 0; i < count + (more ? more->field_count : 0); i++) {
        const struct http_field *field = i < count ? &fields[i] : &more->fields[i - count];
        text_printf(&text, "%.*s: %.*s\r\n", SLICE_ARG(field->name), SLICE_ARG(field->value));
    }
    text_add(&text, S("\r\n"));
    return text_slice(&text);
}

static const struct http_field host[] = { { { "Host", 4 }, { "127.0.0.1:9000", 14 } },
                                          { { "Range", 5 }, { "bytes=0-9", 9 } },
                                          { { "x-amz-meta-a", 12 }, { " a   b ", 7 } },
                                          { { "X-Amz-Meta-A", 12 }, { "c", 1 } } };

static struct sigv4_ask ask_for(const char *path, const char *query)
{
    return (struct sigv4_ask){ .method = S("GET"), .path = slice_of(path), .query = slice_of(query),
                               .fields = host, .field_count = countof(host),
                               .payload_hash = S(EMPTY_SHA256), .region = S("us-east-1"),
                               .service = S("s3"), .now_s = NOW };
}

static slice own_head(struct arena *keep, slice token)
{
    struct sigv4_ask ask = ask_for("/bkt/a%20b//../c", "prefix=%2Fa&uploads&a=1");
    struct sigv4_signed made;
    sigv4_sign(sigv4, keep, &ask, &(struct sigv4_credentials){ KEY, SECRET, token }, &made);
    ok(made.field_count == (token.len ? 4 : 3));
    return head_of(keep, "GET", "/bkt/a%20b//../c?prefix=%2Fa&uploads&a=1", host, countof(host),
                   &made);
}

TEST(what_we_sign_verifies)
{
    struct arena arena = { 0 };
    ok(verify_at(own_head(&arena, S("")), NOW) == OK);
    ok(verify_at(own_head(&arena, S("token+/=")), NOW) == OK);
    same(claim.signed_headers,
         S("host;range;x-amz-content-sha256;x-amz-date;x-amz-meta-a;x-amz-security-token"));
    arena_free(&arena);
}

TEST(a_clock_may_differ_by_15_minutes_and_no_more)
{
    struct arena arena = { 0 };
    slice bytes = own_head(&arena, S(""));
    ok(verify_at(bytes, NOW + 900) == OK && verify_at(bytes, NOW - 900) == OK);
    ok(verify_at(bytes, NOW + 901) == ERR_SKEWED && verify_at(bytes, NOW - 901) == ERR_SKEWED);
    arena_free(&arena);
}

static void add_param(struct text *to, const char *name, slice value)
{
    text_printf(to, "%s%s=", to->len ? "&" : "", name);
    uri_encode(to, value, true);
}

/* The query of a presigned request, as a client makes it. */
static slice presign(struct arena *keep, const struct sigv4_ask *ask,
                     const struct sigv4_credentials *with, int64_t expires_s)
{
    struct sigv4_claim own = { .date = S("20150830"), .region = ask->region, .service = S("s3") };
    slice scope = arena_printf(keep, "20150830/%.*s/s3/aws4_request", SLICE_ARG(ask->region));
    struct canon canon = { .method = ask->method, .path = ask->path,
                           .fields = ask->fields, .field_count = ask->field_count,
                           .signed_headers = canon_signed_names(keep, ask->fields,
                                                                ask->field_count),
                           .payload_hash = S("UNSIGNED-PAYLOAD") };
    struct text query = text_in(keep);
    slice canonical;
    uint8_t hash[32];
    char hex[64], signature[64];
    text_add(&query, ask->query);
    add_param(&query, "X-Amz-Algorithm", S("AWS4-HMAC-SHA256"));
    add_param(&query, "X-Amz-Credential", arena_printf(keep, "%.*s/%.*s",
                                                       SLICE_ARG(with->access_key),
                                                       SLICE_ARG(scope)));
    add_param(&query, "X-Amz-Date", S("20150830T123600Z"));
    add_param(&query, "X-Amz-Expires", arena_printf(keep, "%lld", (long long)expires_s));
    add_param(&query, "X-Amz-SignedHeaders", canon.signed_headers);
    if (with->session_token.len)
        add_param(&query, "X-Amz-Security-Token", with->session_token);
    canon.query = text_slice(&query);
    ok(canon_write(keep, &canon, &canonical) == OK);
    SHA256((const uint8_t *)canonical.ptr, canonical.len, hash);
    hex_write(hash, sizeof(hash), hex);
    slice text = arena_printf(keep, "AWS4-HMAC-SHA256\n20150830T123600Z\n%.*s\n%.64s",
                              SLICE_ARG(scope), hex);
    sigv4_text(sigv4, keep, with->secret_key, &own, text, signature);
    add_param(&query, "X-Amz-Signature", (slice){ signature, sizeof(signature) });
    return text_slice(&query);
}

static slice own_presigned(struct arena *keep, slice token, int64_t expires_s)
{
    struct sigv4_ask ask = ask_for("/bkt/k", "response-content-type=a%2Fb");
    ask.field_count = 1;
    struct sigv4_credentials with = { KEY, SECRET, token };
    slice query = presign(keep, &ask, &with, expires_s);
    slice target = arena_printf(keep, "/bkt/k?%.*s", SLICE_ARG(query));
    return head_of(keep, "GET", arena_copy(keep, target).ptr, host, 1, NULL);
}

TEST(what_is_presigned_verifies_until_it_expires)
{
    struct arena arena = { 0 };
    slice bytes = own_presigned(&arena, S("a/b+c"), 60);
    ok(verify_at(bytes, NOW) == OK && verify_at(bytes, NOW + 59) == OK);
    same(claim.payload_hash, S("UNSIGNED-PAYLOAD"));
    ok(verify_at(bytes, NOW + 60) == ERR_EXPIRED && verify_at(bytes, NOW - 901) == ERR_SKEWED);
    ok(verify_at(own_presigned(&arena, S(""), 604800), NOW + 604799) == OK);
    ok(verify_at(own_presigned(&arena, S(""), 0), NOW) == ERR_EXPIRED);
    ok(verify_at(own_presigned(&arena, S(""), 604801), NOW) == ERR_BAD_AUTH_QUERY);
    arena_free(&arena);
}

static slice with_line(struct arena *keep, slice bytes, const char *line)
{
    return arena_printf(keep, "%.*s%s\r\n\r\n", (int)bytes.len - 2, bytes.ptr, line);
}

TEST(an_amz_header_or_host_that_is_not_signed_is_refused)
{
    struct arena arena = { 0 };
    slice bytes = own_presigned(&arena, S(""), 60);
    ok(verify_at(with_line(&arena, bytes, "X-Unsigned: 1"), NOW) == OK);
    ok(verify_at(with_line(&arena, bytes, "X-Amz-Acl: public-read"), NOW) == ERR_NOT_SIGNED);
    ok(verify_at(with_line(&arena, bytes, "x-amz-meta-a: 1"), NOW) == ERR_NOT_SIGNED);
    struct sigv4_ask ask = ask_for("/", "");
    ask.fields = host + 1;    /* signed without the host it goes to */
    ask.field_count = 1;
    struct sigv4_signed made;
    sigv4_sign(sigv4, &arena, &ask, &(struct sigv4_credentials){ KEY, SECRET, S("") }, &made);
    ok(verify_at(head_of(&arena, "GET", "/", host, 2, &made), NOW) == ERR_NOT_SIGNED);
    arena_free(&arena);
}

TEST(a_signature_in_upper_case_is_another_one)
{
    struct arena arena = { 0 };
    slice bytes = own_presigned(&arena, S(""), 60);
    char *signature = strstr((char *)bytes.ptr, "X-Amz-Signature=") + 16;
    for (int i = 0; i < 64; i++)
        if (signature[i] >= 'a')
            signature[i] -= 32;
    ok(verify_at(bytes, NOW) == ERR_SIGNATURE);
    arena_free(&arena);
}

TEST(too_many_parameters_are_refused_and_a_bare_percent_stays_one)
{
    struct arena arena = { 0 };
    struct text line = text_in(&arena);
    text_add(&line, S("/?"));
    for (int i = 0; i < 101; i++)
        text_add(&line, S("a&"));
    slice bytes = arena_printf(&arena, "GET %.*s HTTP/1.1\r\nHost: h\r\n" DATE HASH GOOD "\r\n",
                               SLICE_ARG(text_slice(&line)));
    ok(verify_at(bytes, NOW) == ERR_BAD_URI);
    struct sigv4_ask ask = ask_for("/100%25", "a=%25zz");
    struct sigv4_signed made;
    sigv4_sign(sigv4, &arena, &ask, &(struct sigv4_credentials){ KEY, SECRET, S("") }, &made);
    ok(verify_at(head_of(&arena, "GET", "/100%?a=%zz", host, countof(host), &made), NOW) == OK);
    arena_free(&arena);
}

/* ---- day keys ---- */

TEST(day_keys_are_told_apart_also_when_they_share_a_slot)
{
    struct arena arena = { 0 };
    char secret[8], region[8];
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 300; i++) {
            snprintf(secret, sizeof(secret), "s%d", i % 20);
            snprintf(region, sizeof(region), "r%d", i / 20);
            struct sigv4_ask ask = ask_for("/b", "");
            ask.region = slice_of(region);
            struct sigv4_signed made;
            struct sigv4_credentials with = { KEY, slice_of(secret), S("") };
            sigv4_sign(sigv4, &arena, &ask, &with, &made);
            slice bytes = head_of(&arena, "GET", "/b", host, countof(host), &made);
            struct sigv4 *fresh = sigv4_new();
            ok(read_claim(&arena, bytes) == OK);
            ok(sigv4_verify(fresh, &arena, &head, &claim, slice_of(secret), NOW) == OK);
            ok(sigv4_verify(fresh, &arena, &head, &claim, S("other"), NOW) == ERR_SIGNATURE);
            sigv4_free(&fresh);
        }
    arena_free(&arena);
}

TEST(a_secret_too_long_to_be_kept_works_and_is_no_other)
{
    struct arena arena = { 0 };
    char one[400], other[400];
    memset(one, 'a', sizeof(one));
    memset(other, 'b', sizeof(other));
    struct sigv4_ask ask = ask_for("/b", "");
    struct sigv4_signed made;
    struct sigv4_credentials with = { KEY, { one, sizeof(one) }, S("") };
    sigv4_sign(sigv4, &arena, &ask, &with, &made);
    ok(read_claim(&arena, head_of(&arena, "GET", "/b", host, countof(host), &made)) == OK);
    ok(sigv4_verify(sigv4, &arena, &head, &claim, (slice){ other, sizeof(other) },
                    NOW) == ERR_SIGNATURE);
    ok(sigv4_verify(sigv4, &arena, &head, &claim, (slice){ one, sizeof(one) }, NOW) == OK);
    arena_free(&arena);
}

TEST(an_empty_secret_proves_nothing)
{
    struct arena arena = { 0 };
    struct sigv4_ask ask = ask_for("/b", "");
    struct sigv4_signed made;
    struct sigv4_credentials with = { KEY, S(""), S("") };
    sigv4_sign(sigv4, &arena, &ask, &with, &made);
    ok(read_claim(&arena, head_of(&arena, "GET", "/b", host, countof(host), &made)) == OK);
    ok(sigv4_verify(sigv4, &arena, &head, &claim, S(""), NOW) == ERR_SIGNATURE);
    arena_free(&arena);
}

#define UNIT(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
RUN(UNIT(every_vector_of_botocore_has_its_verdict),
    UNIT(every_vector_with_any_one_byte_changed_is_refused),
    cmocka_unit_test(a_claim_in_the_header_says_all_that_is_needed),
    cmocka_unit_test(the_payload_is_named_in_three_ways),
    cmocka_unit_test(a_request_may_be_dated_by_its_date),
    cmocka_unit_test(a_malformed_authorization_is_named_so),
    cmocka_unit_test(another_scheme_is_an_argument_that_is_wrong),
    cmocka_unit_test(why_it_is_refused_is_said_in_the_words_of_s3),
    cmocka_unit_test(a_region_may_have_to_be_one_of_ours),
    cmocka_unit_test(no_signature_and_version_2_are_told_apart),
    cmocka_unit_test(two_ways_to_sign_at_once_are_one_too_many),
    cmocka_unit_test(a_presigned_claim_says_all_that_is_needed),
    cmocka_unit_test(a_malformed_presigned_query_is_named_so),
    UNIT(what_is_long_is_not_explained_at_length),
    UNIT(what_we_sign_verifies),
    UNIT(a_clock_may_differ_by_15_minutes_and_no_more),
    UNIT(what_is_presigned_verifies_until_it_expires),
    UNIT(an_amz_header_or_host_that_is_not_signed_is_refused),
    UNIT(a_signature_in_upper_case_is_another_one),
    UNIT(too_many_parameters_are_refused_and_a_bare_percent_stays_one),
    UNIT(day_keys_are_told_apart_also_when_they_share_a_slot),
    UNIT(a_secret_too_long_to_be_kept_works_and_is_no_other),
    UNIT(an_empty_secret_proves_nothing))
