/* xml.c - the few XML documents Penstock reads and writes. SPDX-License-Identifier: Apache-2.0
 *
 * Written XML is always valid: bytes that are not UTF-8, and characters that XML 1.0 can't express,
 * become U+FFFD.
 *
 * To read a document, Penstock lets expat walk it. A table of paths ("/Delete/Object/Key") says
 * what to do when an element begins or ends. A document type is refused, so there are no entities
 * to expand. The size and depth of a document and the length of a value and of a tag are limited.
 * Without a limit for tags, the cost of attributes would grow with the square of their number. A
 * name with a prefix ("x:Key") is refused, because an origin that supports name spaces could read
 * elements that Penstock does not see. Any thread may call these functions. */
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

static bool writable(uint32_t code)
{
    return code >= 0x20 ? code != 0xfffe && code != 0xffff : code == '\t' || code == '\n';
}

void xml_escape(struct text *to, slice s)
{
    while (s.len) {
        uint32_t code = 0;
        size_t len = utf8_read(s, &code);
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
            text_add(to, S("&#13;"));    /* parsers read a bare CR as a line feed */
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

/* A document has texts that occur once, and lists of items with a few texts each. */
#define TEXTS_MAX 4
struct item {
    slice texts[TEXTS_MAX];
};

struct items {
    struct item *list;
    size_t count;
};

/* The effect of an element. TEXT keeps the element's text for the document; ITEM_TEXT keeps it for
 * the last item of a list. ITEM adds an item to a list; TEXT_ITEM adds an item with the element's
 * text. An element with TEXT, ITEM_TEXT or TEXT_ITEM may not have elements inside. */
struct step {
    const char *path;
    enum { HOLDS, TEXT, ITEM, ITEM_TEXT, TEXT_ITEM } does;
    unsigned text, list;
};

struct reading {
    XML_Parser parser;
    struct arena *keep;
    const struct step *steps;
    size_t step_count;
    bool strict;                /* an element without a step makes the document invalid */
    bool once;                  /* a text given twice in an item makes the document invalid */
    bool known;                 /* the document has an element with a step */
    bool bad;
    slice texts[TEXTS_MAX];
    struct items lists[2];
    char path[PATH_BYTES_MAX];
    size_t path_len, depth;
    const struct step *open;    /* the step whose text is being collected */
    struct text value;
};

static void stop(struct reading *reading)
{
    reading->bad = true;
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

/* Adds an item to a list, an array in the arena that doubles when needed. Returns false if the list
 * is full. */
static bool add_item(struct arena *keep, struct items *items)
{
    if (items->count == ITEMS_MAX)
        return false;
    items->list = arena_grow(keep, items->list, items->count, sizeof(*items->list));
    items->list[items->count++] = (struct item){ 0 };
    return true;
}

static void XMLCALL on_start(void *arg, const XML_Char *name, const XML_Char **attributes)
{
    struct reading *reading = arg;
    slice part = slice_of(name);
    if (reading->bad)
        return;    /* expat may still call back after a stop */
    if (reading->open || slice_has(part, ':') || reading->depth == DEPTH_MAX ||
        reading->path_len + 1 + part.len > PATH_BYTES_MAX) {
        stop(reading);
        return;
    }
    reading->path[reading->path_len++] = '/';
    memcpy(reading->path + reading->path_len, part.ptr, part.len);
    reading->path_len += part.len;
    reading->depth++;
    const struct step *step = step_here(reading);
    bool adds = step && (step->does == ITEM || step->does == TEXT_ITEM);
    reading->known |= step != NULL;
    if ((!step && reading->strict) ||
        (adds && !add_item(reading->keep, &reading->lists[step->list]))) {
        stop(reading);
    } else if (step && step->does != HOLDS && step->does != ITEM) {
        reading->open = step;
        reading->value = text_in(reading->keep);
    }
}

/* Keeps the text of the element that ends. */
static void keep_text(struct reading *reading)
{
    const struct step *step = reading->open;
    check(step->text < TEXTS_MAX && step->list < countof(reading->lists));
    slice value = text_slice(&reading->value), *kept = &reading->texts[step->text];
    if (step->does != TEXT) {
        const struct items *items = &reading->lists[step->list];
        check(items->count > 0);    /* a text lies inside its item, which began before */
        kept = &items->list[items->count - 1].texts[step->text];
    }
    reading->open = NULL;
    if (kept->ptr && reading->once)
        stop(reading);
    else
        *kept = value.ptr ? value : S("");
}

static void XMLCALL on_end(void *arg, const XML_Char *name)
{
    struct reading *reading = arg;
    if (reading->bad)
        return;
    if (reading->open)
        keep_text(reading);
    size_t len = strlen(name) + 1;
    check(reading->depth > 0 && reading->path_len >= len);
    reading->path_len -= len;
    reading->depth--;
}

static void XMLCALL on_text(void *arg, const XML_Char *bytes, int len)
{
    struct reading *reading = arg;
    if (reading->bad || !reading->open)
        return;
    text_add(&reading->value, (slice){ bytes, (size_t)len });
    if (reading->value.len > VALUE_BYTES_MAX)
        stop(reading);
}

/* Refuses a document type, because only a document type can declare entities. */
static void XMLCALL on_doctype(void *arg, const XML_Char *name, const XML_Char *system,
                               const XML_Char *public, int has_subset)
{
    stop(arg);
}

/* Returns the length of a tag, with its brackets, or s.len if the tag does not end. A '>' inside
 * the value of an attribute does not end the tag. */
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

/* Returns the length of the markup at the start of s, which begins with '<'. */
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
        size_t inside = slice_find(rest, others[i].end);
        return MIN(others[i].begin.len + inside + others[i].end.len, s.len);
    }
    *ret_tag = true;
    return tag_bytes(s);
}

/* Checks that no tag is too long, and that there is no NUL. Without a NUL, every encoding that
 * expat knows writes markup as ASCII, so this check sees every tag. */
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
    return status == XML_STATUS_OK && !reading->bad ? OK : ERR_BAD_XML;
}

/* ---- listings ---- */

enum { TRUNCATED, TOKEN, MARKER, ENCODING };            /* texts of a listing */
enum { KEY, ETAG, SIZE, MODIFIED };                     /* texts of an object */
enum { OBJECTS, PREFIXES };                             /* lists */

#define ROOT "/ListBucketResult"
static const struct step listing_steps[] = {
    { ROOT "/Contents/Key", ITEM_TEXT, KEY, OBJECTS },
    { ROOT "/Contents/ETag", ITEM_TEXT, ETAG, OBJECTS },
    { ROOT "/Contents/Size", ITEM_TEXT, SIZE, OBJECTS },
    { ROOT "/Contents/LastModified", ITEM_TEXT, MODIFIED, OBJECTS },
    { ROOT "/Contents", ITEM, 0, OBJECTS },
    { ROOT "/CommonPrefixes/Prefix", TEXT_ITEM, KEY, PREFIXES },
    { ROOT "/IsTruncated", TEXT, TRUNCATED, 0 },
    { ROOT "/NextContinuationToken", TEXT, TOKEN, 0 },
    { ROOT "/NextMarker", TEXT, MARKER, 0 },
    { ROOT "/EncodingType", TEXT, ENCODING, 0 },
    { ROOT, HOLDS, 0, 0 },
};

/* Decodes a key, prefix or marker, if the listing encodes them. */
static bool decode(struct arena *keep, bool encoded, slice *value)
{
    return !encoded || query_decode(keep, *value, value) == OK;
}

static bool read_listed(struct arena *keep, bool encoded, const struct item *item,
                        struct listed *ret)
{
    slice size = item->texts[SIZE], modified = item->texts[MODIFIED];
    *ret = (struct listed){ .key = item->texts[KEY], .etag = item->texts[ETAG],
                            .modified_s = modified.ptr ? iso_date_read(modified) : -1 };
    return ret->key.len && decode(keep, encoded, &ret->key) &&
           (!size.ptr || slice_u64(size, &ret->size));
}

/* Texts are decoded at the end of the document, because EncodingType may come after the keys. */
enum err xml_read_listing(struct arena *keep, slice document, struct listing *ret)
{
    struct reading reading = { .keep = keep, .steps = listing_steps,
                               .step_count = countof(listing_steps) };
    const struct items *objects = &reading.lists[OBJECTS], *prefixes = &reading.lists[PREFIXES];
    enum err e = parse(&reading, document);
    if (e || !reading.known)
        return ERR_BAD_XML;
    bool encoded = slice_eq(reading.texts[ENCODING], S("url"));
    struct listing listing = {
        .objects = arena_alloc(keep, objects->count * sizeof(*listing.objects)),
        .prefixes = arena_alloc(keep, prefixes->count * sizeof(*listing.prefixes)),
        .object_count = objects->count, .prefix_count = prefixes->count,
        .truncated = slice_eq(reading.texts[TRUNCATED], S("true")),
        .next_token = reading.texts[MARKER],    /* a marker is encoded like keys, a token never */
    };
    bool good = decode(keep, encoded, &listing.next_token);
    if (reading.texts[TOKEN].len)
        listing.next_token = reading.texts[TOKEN];
    for (size_t i = 0; good && i < objects->count; i++)
        good = read_listed(keep, encoded, &objects->list[i], &listing.objects[i]);
    for (size_t i = 0; good && i < prefixes->count; i++) {
        listing.prefixes[i] = prefixes->list[i].texts[KEY];
        good = decode(keep, encoded, &listing.prefixes[i]);
    }
    if (good)
        *ret = listing;
    return good ? OK : ERR_BAD_XML;
}

/* ---- deletions ---- */

enum { VERSION = KEY + 1 };

static const struct step delete_steps[] = {
    { "/Delete/Object/Key", ITEM_TEXT, KEY, OBJECTS },
    { "/Delete/Object/VersionId", ITEM_TEXT, VERSION, OBJECTS },
    { "/Delete/Object", ITEM, 0, OBJECTS },
    { "/Delete", HOLDS, 0, 0 },
};

/* Refuses a second Key or VersionId of an object, because the origin could use the second one. */
enum err xml_read_delete(struct arena *keep, slice document, struct deletion **ret,
                         size_t *ret_count)
{
    struct reading reading = { .keep = keep, .steps = delete_steps,
                               .step_count = countof(delete_steps), .once = true };
    const struct items *objects = &reading.lists[OBJECTS];
    enum err e = parse(&reading, document);
    /* A body without keys is valid. But if the text "Key" is in it, an origin could find a key
     * there, for example in another namespace. Such a body is refused. */
    if (e || !reading.known || (!objects->count && slice_find(document, S("Key")) < document.len))
        return ERR_BAD_XML;
    struct deletion *deletions = arena_alloc(keep, objects->count * sizeof(*deletions));
    for (size_t i = 0; i < objects->count; i++) {
        const slice *texts = objects->list[i].texts;
        deletions[i] = (struct deletion){ texts[KEY], texts[VERSION] };
        if (!texts[KEY].len)
            return ERR_BAD_XML;
    }
    *ret = deletions;
    *ret_count = objects->count;
    return OK;
}

/* ---- restores ---- */

bool xml_restores_in_place(struct arena *keep, slice document)
{
    static const struct step steps[] = {
        { "/RestoreRequest", HOLDS, 0, 0 },
        { "/RestoreRequest/Days", TEXT, 0, 0 },
        { "/RestoreRequest/Tier", TEXT, 0, 0 },
        { "/RestoreRequest/Description", TEXT, 0, 0 },
        { "/RestoreRequest/GlacierJobParameters", HOLDS, 0, 0 },
        { "/RestoreRequest/GlacierJobParameters/Tier", TEXT, 0, 0 },
    };
    struct reading reading = { .keep = keep, .steps = steps, .step_count = countof(steps),
                               .strict = true };
    return !document.len || parse(&reading, document) == OK;
}

/* ---- the credentials of STS ---- */

#define LENT_BY(response, result) \
    { "/" response "/" result "/Credentials/AccessKeyId", TEXT, 0, 0 }, \
    { "/" response "/" result "/Credentials/SecretAccessKey", TEXT, 1, 0 }, \
    { "/" response "/" result "/Credentials/SessionToken", TEXT, 2, 0 }, \
    { "/" response "/" result "/Credentials/Expiration", TEXT, 3, 0 }
static const struct step lent_steps[] = {
    LENT_BY("AssumeRoleResponse", "AssumeRoleResult"),
    LENT_BY("AssumeRoleWithWebIdentityResponse", "AssumeRoleWithWebIdentityResult"),
};

enum err xml_read_lent(struct arena *keep, slice document, struct lent *ret)
{
    struct reading reading = { .keep = keep, .steps = lent_steps,
                               .step_count = countof(lent_steps) };
    enum err e = parse(&reading, document);
    const slice *texts = reading.texts;
    *ret = (struct lent){ texts[0], texts[1], texts[2], texts[3] };
    return e;
}

/* ---- errors ---- */

static const struct step error_steps[] = {
    { "/Error/Code", TEXT, 0, 0 },
    { "/Error/Message", TEXT, 1, 0 },
    { "/ErrorResponse/Error/Code", TEXT, 0, 0 },
    { "/ErrorResponse/Error/Message", TEXT, 1, 0 },
};

enum err xml_read_error(struct arena *keep, slice document, slice *ret_code, slice *ret_message)
{
    struct reading reading = { .keep = keep, .steps = error_steps,
                               .step_count = countof(error_steps) };
    enum err e = parse(&reading, document);
    if (e)
        return e;
    *ret_code = reading.texts[0];
    *ret_message = reading.texts[1];
    return OK;
}
