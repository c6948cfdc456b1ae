/* web.c - one small HTTP request that blocks its caller. SPDX-License-Identifier: Apache-2.0
 *
 * libcurl runs the request on the caller's thread, with the options that curl_rules (curl.c) sets.
 * While the thread waits, it looks at *stop at least every LOOK_MS. */
#include "origin/web.h"

#include <string.h>

#include "origin/carrier.h"

#define BODY_BYTES_MAX (64 * 1024)
#define LOOK_MS 100

struct received {
    struct text text;
    size_t bytes_max;
};

static size_t on_body(char *ptr, size_t size, size_t count, void *arg)
{
    struct received *got = arg;
    if (got->text.len + size * count > got->bytes_max)
        return CURL_WRITEFUNC_ERROR;
    text_add(&got->text, (slice){ ptr, size * count });
    return size * count;
}

static size_t on_send(char *ptr, size_t size, size_t count, void *arg)
{
    slice *rest = arg, part = slice_sub(*rest, 0, size * count);
    *rest = slice_from(*rest, part.len);
    return slice_put(ptr, part);
}

static CURLcode run(CURL *easy, const struct web_ask *ask)
{
    CURLM *multi = curl_multi_init();
    CURLcode code = CURLE_ABORTED_BY_CALLBACK;
    int running = 1, left;
    check(multi && curl_multi_add_handle(multi, easy) == CURLM_OK);
    while (running && !(ask->stop && atomic_load(ask->stop))) {
        check(curl_multi_perform(multi, &running) == CURLM_OK);
        if (running)
            check(curl_multi_poll(multi, NULL, 0, LOOK_MS, NULL) == CURLM_OK);
        else
            code = curl_multi_info_read(multi, &left)->data.result;
        if (running && ask->waiting)
            ask->waiting(ask->arg);
    }
    check(curl_multi_remove_handle(multi, easy) == CURLM_OK);
    curl_multi_cleanup(multi);
    return code;
}

static enum err judge(CURL *easy, CURLcode code, const char *error, struct arena *keep,
                      slice *ret_why)
{
    long os_error = 0;
    curl_easy_getinfo(easy, CURLINFO_OS_ERRNO, &os_error);
    if (code == CURLE_COULDNT_CONNECT && os_error)    /* libcurl's message lacks the errno */
        error = strerror((int)os_error);
    switch (code) {
    case CURLE_OK:
        return OK;
    case CURLE_OPERATION_TIMEDOUT:
        *ret_why = S("no answer came in time");
        return ERR_TIMEOUT;
    case CURLE_WRITE_ERROR:
        *ret_why = S("the answer is too long");
        return ERR_TOO_LARGE;
    case CURLE_ABORTED_BY_CALLBACK:
        *ret_why = slice_of(err_text(ERR_STOPPING));
        return ERR_STOPPING;
    default:
        *ret_why = arena_copy(keep, slice_of(*error ? error : curl_easy_strerror(code)));
        return ERR_ORIGIN_CONNECT;
    }
}

static slice header_of(CURL *easy, const char *name, struct arena *keep)
{
    struct curl_header *header;
    bool found = curl_easy_header(easy, name, 0, CURLH_HEADER, -1, &header) == CURLHE_OK;
    return found ? arena_copy(keep, slice_of(header->value)) : S("");
}

enum err web_get(const struct web_ask *ask, struct arena *keep, struct web_reply *ret,
                 slice *ret_why)
{
    struct received got = { text_in(keep),
                            ask->body_bytes_max ? ask->body_bytes_max : BODY_BYTES_MAX };
    slice body = ask->body;
    char error[CURL_ERROR_SIZE] = "";
    long status = 0;
    check(ask->time_ms > 0 && (*ask->method == 'P' || !ask->body.len));
    if (!slice_starts(ask->url, S("http://")) && !slice_starts(ask->url, S("https://"))) {
        *ret_why = arena_printf(keep, "\"%.*s\" is not an http or https URL: it must begin with "
                                "http:// or https://", SLICE_ARG(ask->url));
        return ERR_BAD_ARGUMENT;
    }
    curl_init();
    CURL *easy = curl_easy_init();
    struct curl_slist *fields = curl_fields(ask->fields, ask->field_count);
    check(easy != NULL);
    curl_rules(easy, ask->ca_file ? ask->ca_file : "");
    CURL_SET(easy, CURLOPT_URL, arena_copy(keep, ask->url).ptr);
    CURL_SET(easy, CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
    CURL_SET(easy, CURLOPT_HTTPHEADER, fields);
    CURL_SET(easy, CURLOPT_TIMEOUT_MS, (long)ask->time_ms);
    CURL_SET(easy, CURLOPT_ERRORBUFFER, error);
    CURL_SET(easy, CURLOPT_WRITEFUNCTION, on_body);
    CURL_SET(easy, CURLOPT_WRITEDATA, &got);
    CURL_SET(easy, CURLOPT_READFUNCTION, on_send);
    CURL_SET(easy, CURLOPT_READDATA, &body);
    if (*ask->method == 'P') {
        CURL_SET(easy, CURLOPT_UPLOAD, 1L);
        CURL_SET(easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)body.len);
    }
    if (*ask->method != 'G')
        CURL_SET(easy, CURLOPT_CUSTOMREQUEST, ask->method);
    enum err e = judge(easy, run(easy, ask), error, keep, ret_why);
    slice software = header_of(easy, "Server", keep);
    slice retry_after = header_of(easy, "Retry-After", keep);
    slice date = header_of(easy, "Date", keep);
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_cleanup(easy);
    curl_slist_free_all(fields);
    *ret = (struct web_reply){ (int)status, got.text.len ? text_slice(&got.text) : S(""),
                               software, retry_after, date };
    return e;
}
