/* xml.c - the few XML documents Penstock reads and writes. SPDX-License-Identifier: Apache-2.0
 *
 * Written XML is always valid: bytes that are no UTF-8, and characters that XML 1.0 can't express,
 * become U+FFFD.
 *
 * Reading: expat walks the document. A table of paths ("/Delete/Object/Key") says what to do where
 * an element begins and ends. No document type is accepted, so there are no entities to expand.
 * Size, depth and the length of a value and of a tag are limited; without a limit for tags, the
 * cost of attributes would grow with the square of their number. Names with a prefix are refused,
 * because an origin that supports name spaces would read elements that Penstock does not. Any
 * thread. */
#include "s3/xml.h"

#include <expat.h>
#include <string.h>

#include "s3/encode.h"

#define DOCUMENT_BYTES_MAX (8 * MIB)
#define VALUE_BYTES_MAX (16 * KIB)
#define TAG_BYTES_MAX (4 * KIB)
#define PATH_BYTES_MAX 160
#define DEPTH_MAX 16
#define ITEMS_MAX 1000

/* The length of the UTF-8 character at the start of s; 0 if there is none. */
static size_t character(slice s, uint32_t *ret_code)
{
    uint8_t first = (uint8_t)s.ptr[0];
    size_t len = first < 0x80 ? 1 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    if (len == 1) {
        *ret_code = first;
        return 1;
    }
    if (first < 0xc2 || first > 0xf4 || s.len < len)
        return 0;
    uint32_t code = first & (0x7fu >> len);
    for (size_t i = 1; i < len; i++) {
        if (((uint8_t)s.ptr[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | ((uint8_t)s.ptr[i] & 0x3f);
    }
    *ret_code = code;
    return code >= least[len] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff) ? len : 0;
}

static bool writable(uint32_t code)
{
    return code >= 0x20 ? code != 0xfffe && code != 0xffff : code == '\t' || code == '\n';
}

void xml_escape(struct text *to, slice s)
{
    while (s.len) {
        uint32_t code = 0;
        size_t len = character(s, &code);
        if (len && code == '&')
            text_add(to, S("&amp;"));
        else if (len && code == '<')
            text_add(to, S("&lt;"));
        else if (len && code == '>')
            text_add(to, S("&gt;"));
        else if (len && code == '"')
            text_add(to, S("&quot;"));
        else if (len && code == '\'')
            text_add(to, S("&#39;"));
        else if (len && code == '\r')
            text_add(to, S("&#13;"));    /* a parser would read a bare CR as a line feed */
        else if (len && writable(code))
            text_add(to, slice_sub(s, 0, len));
        else
            text_add(to, S("\xef\xbf\xbd"));
        s = slice_from(s, MAX(len, 1));
    }
}

void xml_element(struct text *to, const char *name, slice value)
{
    text_printf(to, "<%s>", name);
    xml_escape(to, value);
    text_printf(to, "</%s>", name);
}

/* ---- walking ---- */

struct reading;
struct step {
    const char *path;
    enum err (*begin)(struct reading *reading);             /* may be NULL */
    enum err (*end)(struct reading *reading, slice value);    /* NULL: for elements without text */
};

struct reading {
    XML_Parser parser;
    struct arena *keep;
    const struct step *steps;
    size_t step_count;
    bool strict;                /* an element without a step makes the document invalid */
    void *result;
    enum err err;
    char path[PATH_BYTES_MAX];
    size_t path_len, depth;
    const struct step *open;    /* the step whose text is being collected */
    struct text value;
};

static void stop(struct reading *reading, enum err err)
{
    reading->err = err;
    XML_StopParser(reading->parser, XML_FALSE);
}

static const struct step *step_here(const struct reading *reading)
{
    slice path = { reading->path, reading->path_len };
    for (size_t i = 0; i < reading->step_count; i++)
        if (slice_eq(path, slice_of(reading->steps[i].path)))
            return &reading->steps[i];
    return NULL;
}

static void XMLCALL on_start(void *arg, const XML_Char *name, const XML_Char **attributes)
{
    struct reading *reading = arg;
    slice part = slice_of(name);
    if (reading->err)
        return;    /* expat may still call back after a stop */
    if (reading->open || slice_has(part, ':') || reading->depth == DEPTH_MAX ||
        reading->path_len + 1 + part.len > PATH_BYTES_MAX) {
        stop(reading, ERR_BAD_XML);
        return;
    }
    reading->path[reading->path_len++] = '/';
    memcpy(reading->path + reading->path_len, part.ptr, part.len);
    reading->path_len += part.len;
    reading->depth++;
    const struct step *step = step_here(reading);
    if (step && step->end) {
        reading->open = step;
        reading->value = text_in(reading->keep);
    } else if (step) {
        enum err e = step->begin(reading);
        if (e)
            stop(reading, e);
    } else if (reading->strict) {
        stop(reading, ERR_BAD_XML);
    }
}

static void XMLCALL on_end(void *arg, const XML_Char *name)
{
    struct reading *reading = arg;
    if (reading->err)
        return;
    if (reading->open) {
        slice value = text_slice(&reading->value);
        enum err e = reading->open->end(reading, value.ptr ? value : S(""));
        reading->open = NULL;
        if (e) {
            stop(reading, e);
            return;
        }
    }
    reading->path_len -= strlen(name) + 1;
    reading->depth--;
}

static void XMLCALL on_text(void *arg, const XML_Char *bytes, int len)
{
    struct reading *reading = arg;
    if (reading->err || !reading->open)
        return;
    text_add(&reading->value, (slice){ bytes, (size_t)len });
    if (reading->value.len > VALUE_BYTES_MAX)
        stop(reading, ERR_BAD_XML);
}

/* Refuses a document type, the only place where entities can be declared. */
static void XMLCALL on_doctype(void *arg, const XML_Char *name, const XML_Char *system,
                               const XML_Char *public, int has_subset)
{
    stop(arg, ERR_BAD_XML);
}

/* The length of a tag, with its brackets; a tag that does not end takes all bytes. A '>' inside an
 * attribute's value does not end it. */
static size_t tag_bytes(slice s)
{
    char quote = 0;
    for (size_t i = 0; i < s.len; i++) {
        char byte = s.ptr[i];
        if (quote ? byte == quote : byte == '"' || byte == '\'')
            quote = quote ? 0 : byte;
        else if (!quote && byte == '>')
            return i + 1;
    }
    return s.len;
}

/* The length of the markup at the start of s, which begins with '<'. */
static size_t markup_bytes(slice s, bool *ret_tag)
{
    static const struct {
        slice begin, end;
    } others[] = { { { "<!--", 4 }, { "-->", 3 } }, { { "<![CDATA[", 9 }, { "]]>", 3 } },
                   { { "<?", 2 }, { "?>", 2 } } };
    *ret_tag = false;
    for (size_t i = 0; i < countof(others); i++) {
        if (!slice_starts(s, others[i].begin))
            continue;
        slice rest = slice_from(s, others[i].begin.len);
        const char *end = memmem(rest.ptr, rest.len, others[i].end.ptr, others[i].end.len);
        return end ? (size_t)(end - s.ptr) + others[i].end.len : s.len;
    }
    *ret_tag = true;
    return tag_bytes(s);
}

/* Checks the length of tags, and that there is no NUL. Every encoding that expat knows and that
 * uses no NUL writes markup as in ASCII. */
static bool is_reasonable(slice document)
{
    const char *at;
    slice rest = document;
    if (document.len > DOCUMENT_BYTES_MAX || (rest.len && memchr(rest.ptr, 0, rest.len)))
        return false;
    while (rest.len && (at = memchr(rest.ptr, '<', rest.len)) != NULL) {
        bool tag;
        rest = slice_from(rest, (size_t)(at - rest.ptr));
        size_t bytes = markup_bytes(rest, &tag);
        if (tag && bytes > TAG_BYTES_MAX)
            return false;
        rest = slice_from(rest, bytes);
    }
    return true;
}

static enum err parse(struct reading *reading, slice document)
{
    if (!is_reasonable(document))
        return ERR_BAD_XML;
    reading->parser = XML_ParserCreate(NULL);
    check(reading->parser && "out of memory");
    XML_SetUserData(reading->parser, reading);
    XML_SetElementHandler(reading->parser, on_start, on_end);
    XML_SetCharacterDataHandler(reading->parser, on_text);
    XML_SetStartDoctypeDeclHandler(reading->parser, on_doctype);
    enum XML_Status status = XML_Parse(reading->parser, document.ptr, (int)document.len, 1);
    XML_ParserFree(reading->parser);
    if (reading->err)
        return reading->err;
    return status == XML_STATUS_OK ? OK : ERR_BAD_XML;
}

static enum err walk(struct arena *keep, slice document, const struct step *steps,
                     size_t step_count, void *result)
{
    struct reading reading = { .keep = keep, .steps = steps, .step_count = step_count,
                               .result = result };
    return parse(&reading, document);
}

/* Makes room for one more item in an array that doubles in an arena; NULL if it has reached its
 * limit. */
static void *one_more(struct arena *keep, void *items, size_t *count, size_t item_bytes)
{
    if (*count == ITEMS_MAX)
        return NULL;
    size_t used = *count * item_bytes;
    if ((*count & (*count - 1)) == 0) {
        void *grown = arena_alloc(keep, MAX(2 * used, item_bytes));
        if (used)
            memcpy(grown, items, used);
        items = grown;
    }
    ++*count;
    return items;
}

/* ---- listings ---- */

struct list_state {
    struct listing *listing;
    slice token, marker;    /* a marker is encoded like keys; a token never is */
    bool url_encoded, seen_root;
};

static struct list_state *list_state(struct reading *reading)
{
    return reading->result;
}

static struct listed *last_listed(struct reading *reading)
{
    struct listing *listing = list_state(reading)->listing;
    return &listing->objects[listing->object_count - 1];
}

static enum err listing_root(struct reading *reading)
{
    list_state(reading)->seen_root = true;
    return OK;
}

static enum err listing_object(struct reading *reading)
{
    struct listing *listing = list_state(reading)->listing;
    struct listed *grown = one_more(reading->keep, listing->objects, &listing->object_count,
                                    sizeof(*grown));
    if (!grown)
        return ERR_BAD_XML;
    listing->objects = grown;
    grown[listing->object_count - 1] = (struct listed){ .modified_s = -1 };
    return OK;
}

static enum err listing_key(struct reading *reading, slice value)
{
    last_listed(reading)->key = value;
    return OK;
}

static enum err listing_etag(struct reading *reading, slice value)
{
    last_listed(reading)->etag = value;
    return OK;
}

static enum err listing_size(struct reading *reading, slice value)
{
    return slice_u64(value, &last_listed(reading)->size) ? OK : ERR_BAD_XML;
}

static enum err listing_modified(struct reading *reading, slice value)
{
    last_listed(reading)->modified_s = iso_date_read(value);
    return OK;
}

static enum err listing_prefix(struct reading *reading, slice value)
{
    struct listing *listing = list_state(reading)->listing;
    slice *grown = one_more(reading->keep, listing->prefixes, &listing->prefix_count,
                            sizeof(*grown));
    if (!grown)
        return ERR_BAD_XML;
    listing->prefixes = grown;
    grown[listing->prefix_count - 1] = value;
    return OK;
}

static enum err listing_truncated(struct reading *reading, slice value)
{
    list_state(reading)->listing->truncated = slice_eq(value, S("true"));
    return OK;
}

static enum err listing_token(struct reading *reading, slice value)
{
    list_state(reading)->token = value;
    return OK;
}

static enum err listing_marker(struct reading *reading, slice value)
{
    list_state(reading)->marker = value;
    return OK;
}

static enum err listing_encoding(struct reading *reading, slice value)
{
    list_state(reading)->url_encoded = slice_eq(value, S("url"));
    return OK;
}

#define ROOT "/ListBucketResult"
static const struct step listing_steps[] = {
    { ROOT "/Contents/Key", NULL, listing_key },
    { ROOT "/Contents/ETag", NULL, listing_etag },
    { ROOT "/Contents/Size", NULL, listing_size },
    { ROOT "/Contents/LastModified", NULL, listing_modified },
    { ROOT "/Contents", listing_object, NULL },
    { ROOT "/CommonPrefixes/Prefix", NULL, listing_prefix },
    { ROOT "/IsTruncated", NULL, listing_truncated },
    { ROOT "/NextContinuationToken", NULL, listing_token },
    { ROOT "/NextMarker", NULL, listing_marker },
    { ROOT "/EncodingType", NULL, listing_encoding },
    { ROOT, listing_root, NULL },
};

static enum err form_decode(struct arena *keep, slice *value)
{
    return query_decode(keep, *value, value) ? ERR_BAD_XML : OK;
}

/* Decodes at the end of the document, because EncodingType may come after the keys. */
static enum err decode_all(struct arena *keep, struct list_state *state)
{
    struct listing *listing = state->listing;
    enum err e = form_decode(keep, &state->marker);
    for (size_t i = 0; !e && i < listing->object_count; i++)
        e = form_decode(keep, &listing->objects[i].key);
    for (size_t i = 0; !e && i < listing->prefix_count; i++)
        e = form_decode(keep, &listing->prefixes[i]);
    return e;
}

enum err xml_read_listing(struct arena *keep, slice document, struct listing *ret)
{
    struct listing listing = { 0 };
    struct list_state state = { .listing = &listing };
    enum err e = walk(keep, document, listing_steps, countof(listing_steps), &state);
    if (!e && state.url_encoded)
        e = decode_all(keep, &state);
    if (e)
        return e;
    for (size_t i = 0; i < listing.object_count; i++)
        if (!listing.objects[i].key.len)
            return ERR_BAD_XML;
    if (!state.seen_root)
        return ERR_BAD_XML;
    listing.next_token = state.token.len ? state.token : state.marker;
    *ret = listing;
    return OK;
}

/* ---- deletions ---- */

struct delete_state {
    struct deletion *items;
    size_t count;
    bool seen_root;
};

static enum err deletion_root(struct reading *reading)
{
    ((struct delete_state *)reading->result)->seen_root = true;
    return OK;
}

static enum err deletion_begin(struct reading *reading)
{
    struct delete_state *state = reading->result;
    struct deletion *grown = one_more(reading->keep, state->items, &state->count, sizeof(*grown));
    if (!grown)
        return ERR_BAD_XML;
    state->items = grown;
    grown[state->count - 1] = (struct deletion){ 0 };
    return OK;
}

/* Refuses a second Key, because the origin could use the other one. */
static enum err deletion_key(struct reading *reading, slice value)
{
    struct delete_state *state = reading->result;
    slice *key = &state->items[state->count - 1].key;
    if (key->ptr || !value.len)
        return ERR_BAD_XML;
    *key = value;
    return OK;
}

static enum err deletion_version(struct reading *reading, slice value)
{
    struct delete_state *state = reading->result;
    slice *version = &state->items[state->count - 1].version;
    if (version->ptr)
        return ERR_BAD_XML;
    *version = value;
    return OK;
}

static const struct step delete_steps[] = {
    { "/Delete/Object/Key", NULL, deletion_key },
    { "/Delete/Object/VersionId", NULL, deletion_version },
    { "/Delete/Object", deletion_begin, NULL },
    { "/Delete", deletion_root, NULL },
};

enum err xml_read_delete(struct arena *keep, slice document, struct deletion **ret,
                         size_t *ret_count)
{
    struct delete_state state = { 0 };
    enum err e = walk(keep, document, delete_steps, countof(delete_steps), &state);
    if (e)
        return e;
    for (size_t i = 0; i < state.count; i++)
        if (!state.items[i].key.ptr)
            return ERR_BAD_XML;
    /* A body without keys is fine, unless an origin could find one in it, in another namespace
     * say. */
    if (!state.seen_root || (!state.count && memmem(document.ptr, document.len, "Key", 3)))
        return ERR_BAD_XML;
    *ret = state.items;
    *ret_count = state.count;
    return OK;
}

/* ---- restores ---- */

static enum err restore_begin(struct reading *reading)
{
    (void)reading;
    return OK;
}

static enum err restore_value(struct reading *reading, slice value)
{
    (void)reading;
    (void)value;
    return OK;
}

bool xml_restores_in_place(struct arena *keep, slice document)
{
    static const struct step steps[] = {
        { "/RestoreRequest", restore_begin, NULL },
        { "/RestoreRequest/Days", NULL, restore_value },
        { "/RestoreRequest/Tier", NULL, restore_value },
        { "/RestoreRequest/Description", NULL, restore_value },
        { "/RestoreRequest/GlacierJobParameters", restore_begin, NULL },
        { "/RestoreRequest/GlacierJobParameters/Tier", NULL, restore_value },
    };
    struct reading reading = { .keep = keep, .steps = steps, .step_count = countof(steps),
                               .strict = true };
    return !document.len || parse(&reading, document) == OK;
}

/* ---- the credentials of STS ---- */

static enum err lent_value(struct reading *reading, slice value)
{
    struct lent *lent = reading->result;
    slice *const members[] = { &lent->access_key, &lent->secret_key, &lent->session_token,
                               &lent->expires };
    *members[(size_t)(reading->open - reading->steps) % countof(members)] = value;
    return OK;
}

#define LENT_BY(response, result, member) \
    { "/" response "/" result "/Credentials/" member, NULL, lent_value }
#define ROLE(member) LENT_BY("AssumeRoleResponse", "AssumeRoleResult", member)
#define WEB(member) \
    LENT_BY("AssumeRoleWithWebIdentityResponse", "AssumeRoleWithWebIdentityResult", member)

/* In the same order as in lent_value. */
static const struct step lent_steps[] = {
    ROLE("AccessKeyId"), ROLE("SecretAccessKey"), ROLE("SessionToken"), ROLE("Expiration"),
    WEB("AccessKeyId"), WEB("SecretAccessKey"), WEB("SessionToken"), WEB("Expiration"),
};

enum err xml_read_lent(struct arena *keep, slice document, struct lent *ret)
{
    *ret = (struct lent){ S(""), S(""), S(""), S("") };
    return walk(keep, document, lent_steps, countof(lent_steps), ret);
}

/* ---- errors ---- */

struct error_state {
    slice code, message;
};

static enum err error_code(struct reading *reading, slice value)
{
    ((struct error_state *)reading->result)->code = value;
    return OK;
}

static enum err error_message(struct reading *reading, slice value)
{
    ((struct error_state *)reading->result)->message = value;
    return OK;
}

static const struct step error_steps[] = {
    { "/Error/Code", NULL, error_code },
    { "/Error/Message", NULL, error_message },
    { "/ErrorResponse/Error/Code", NULL, error_code },
    { "/ErrorResponse/Error/Message", NULL, error_message },
};

enum err xml_read_error(struct arena *keep, slice document, slice *ret_code, slice *ret_message)
{
    struct error_state state = { 0 };
    enum err e = walk(keep, document, error_steps, countof(error_steps), &state);
    if (e)
        return e;
    *ret_code = state.code;
    *ret_message = state.message;
    return OK;
}
