/* test_s3_xml.c - documents written and read. SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <stdio.h>

#include "s3/xml.h"

static struct arena arena;

static int forget(void **state)
{
    arena_free(&arena);
    return 0;
}

static slice escaped(slice s)
{
    struct text text = text_in(&arena);
    xml_escape(&text, s);
    return text.len ? text_slice(&text) : S("");
}

TEST(what_is_no_xml_is_written_as_a_replacement)
{
    same(escaped(S("a<b>&\"'\r\n\t")), S("a&lt;b&gt;&amp;&quot;&#39;&#13;\n\t"));
    slice fine = S("caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
    same(escaped(fine), fine);
    same(escaped(S("\x01\x1f\0")), S("\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"));
    static const slice bad[] = {
        { "\xff", 1 }, { "\x80", 1 }, { "\xc1", 1 }, { "\xc3", 1 }, { "\xf5", 1 },
        { "\xef\xbf\xbf", 3 }, { "\xef\xbf\xbe", 3 },
    };
    for (size_t i = 0; i < countof(bad); i++)
        same(escaped(bad[i]), S("\xef\xbf\xbd"));
    /* overlong, surrogate */
    ok(escaped(S("\xe0\x80\x80")).len == 9 && escaped(S("\xed\xa0\x80")).len == 9);
    ok(escaped(S("\xf4\x90\x80\x80")).len == 12 && escaped(S("\xc3(")).len == 4);
}

TEST(an_element_is_escaped_between_its_tags)
{
    struct text text = text_in(&arena);
    xml_element(&text, "Key", S("a&b"));
    xml_element(&text, "None", S(""));
    same(text_slice(&text), S("<Key>a&amp;b</Key><None></None>"));
}

#define V2 \
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n" \
    "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Name>b</Name>" \
    "<Prefix>p</Prefix><KeyCount>2</KeyCount><IsTruncated>true</IsTruncated>" \
    "<NextContinuationToken>1%2B+</NextContinuationToken><NextMarker>m</NextMarker>" \
    "<Contents><Key>a&amp;b+%20</Key><LastModified>2009-10-12T17:50:30.000Z</LastModified>" \
    "<ETag>&quot;e1&quot;</ETag><Size>434234</Size><Owner><ID>x</ID></Owner></Contents>" \
    "<Contents><Key> c </Key><Size>0</Size></Contents>" \
    "<CommonPrefixes><Prefix>d/</Prefix></CommonPrefixes></ListBucketResult>"

TEST(a_listing_is_read)
{
    struct listing listing;
    ok(xml_read_listing(&arena, S(V2), &listing) == OK);
    ok(listing.object_count == 2 && listing.prefix_count == 1 && listing.truncated);
    same(listing.objects[0].key, S("a&b+%20"));
    same(listing.objects[0].etag, S("\"e1\""));
    ok(listing.objects[0].size == 434234 && listing.objects[0].modified_s == 1255369830);
    same(listing.objects[1].key, S(" c "));
    ok(listing.objects[1].size == 0 && listing.objects[1].modified_s == -1 &&
       !listing.objects[1].etag.len);
    same(listing.prefixes[0], S("d/"));
    same(listing.next_token, S("1%2B+"));
}

TEST(keys_of_an_encoded_listing_are_decoded_and_its_token_is_not)
{
    struct listing listing;
    ok(xml_read_listing(&arena, S("<ListBucketResult><Contents><Key>a+b%2Bc%2f%0A</Key></Contents>"
                                  "<CommonPrefixes><Prefix>%C3%A9/</Prefix></CommonPrefixes>"
                                  "<NextMarker>a+b</NextMarker><EncodingType>url</EncodingType>"
                                  "</ListBucketResult>"), &listing) == OK);
    same(listing.objects[0].key, S("a b+c/\n"));
    same(listing.prefixes[0], S("\xc3\xa9/"));
    same(listing.next_token, S("a b"));
    ok(!listing.truncated);
    ok(xml_read_listing(&arena, S("<ListBucketResult>"
                                  "<NextContinuationToken>a+%2B</NextContinuationToken>"
                                  "<EncodingType>url</EncodingType>"
                                  "</ListBucketResult>"), &listing) == OK);
    same(listing.next_token, S("a+%2B"));
    ok(listing.object_count == 0);
}

static enum err listing_of(const char *document)
{
    struct listing listing;
    return xml_read_listing(&arena, slice_of(document), &listing);
}

#define L(inside) "<ListBucketResult>" inside "</ListBucketResult>"

TEST(a_document_that_is_no_listing_is_bad)
{
    static const char *const bad[] = {
        "", "x", "<a/>", "<Error/>", "<x><ListBucketResult/></x>", "<ListBucketResult>", L("") "x",
        L("<Contents></Contents>"), L("<Contents><Key></Key></Contents>"),
        L("<Contents><Key>a</Key><Size>-1</Size></Contents>"),
        L("<Contents><Key>a<b/></Key></Contents>"),
        L("<Contents><Key>%zz</Key></Contents><EncodingType>url</EncodingType>"),
        L("<s3:Contents/>"), L("<Contents><Key>&undefined;</Key></Contents>"),
        L("<Contents><Key>\xff</Key></Contents>"),
    };
    for (size_t i = 0; i < countof(bad); i++)
        if (listing_of(bad[i]) != ERR_BAD_XML)
            fail_msg("%s", bad[i]);
    ok(listing_of(L("")) == OK);
}

TEST(document_types_and_entities_are_refused)
{
    ok(listing_of("<!DOCTYPE ListBucketResult>" L("")) == ERR_BAD_XML);
    ok(listing_of("<!DOCTYPE a [<!ENTITY b \"bb\">]>"
                  L("<Contents><Key>&b;</Key></Contents>")) == ERR_BAD_XML);
    ok(listing_of("<!DOCTYPE a SYSTEM \"file:///etc/passwd\">" L("")) == ERR_BAD_XML);
    ok(listing_of("<!DOCTYPE a [<!ENTITY % b \"c\"> %b;]>" L("")) == ERR_BAD_XML);
}

static slice many(const char *open, const char *each, size_t count, const char *close)
{
    struct text text = text_in(&arena);
    text_add(&text, slice_of(open));
    for (size_t i = 0; i < count; i++)
        text_add(&text, slice_of(each));
    text_add(&text, slice_of(close));
    return text_slice(&text);
}

static struct listing listed;

static enum err listing_of_many(const char *before, const char *piece, size_t count,
                                const char *after)
{
    return xml_read_listing(&arena, many(before, piece, count, after), &listed);
}

#define LISTED(piece, count) \
    listing_of_many("<ListBucketResult>", piece, count, "</ListBucketResult>")

TEST(depth_length_and_number_have_limits)
{
    ok(listing_of_many("<ListBucketResult>", "<a>", 16, "") == ERR_BAD_XML);
    ok(listing_of_many("<ListBucketResult><", "long", 40, "/></ListBucketResult>") == ERR_BAD_XML);
    const char *object = "<Contents><Key>k</Key></Contents>";
    const char *prefix = "<CommonPrefixes><Prefix>p</Prefix></CommonPrefixes>";
    ok(LISTED(object, 1000) == OK);
    ok(listed.object_count == 1000 && slice_eq(listed.objects[999].key, S("k")));
    ok(LISTED(object, 1001) == ERR_BAD_XML);
    ok(LISTED(prefix, 1000) == OK);
    ok(LISTED(prefix, 1001) == ERR_BAD_XML);
    ok(listing_of_many("<ListBucketResult><NextMarker>", "0123456789abcdef", 1025,
                       "</NextMarker></ListBucketResult>") == ERR_BAD_XML);
    ok(LISTED("                ", 512 * 1024 + 1) == ERR_BAD_XML);
}

TEST(a_tag_is_no_longer_than_anybody_needs)
{
    ok(listing_of_many("<ListBucketResult a='", "0123456789abcdef", 250, "'/>") == OK);
    ok(listing_of_many("<ListBucketResult a='", "0123456789abcdef", 260, "'/>") == ERR_BAD_XML);
    ok(listing_of_many("<ListBucketResult b='>' a=\">'>", "<0123456789abcde", 260,
                       "\"/>") == ERR_BAD_XML);
    ok(listing_of_many("<ListBucketResult><!-- '> --><x a='", ">", 5000,
                       "'/></ListBucketResult>") == ERR_BAD_XML);
    ok(listing_of_many("<ListBucketResult><!-- < ' -->", "<![CDATA[<x a='--> ]]>", 1000,
                       "</ListBucketResult>") == OK);
    ok(listing_of_many("<ListBucketResult><!-- ", "<x ' ", 5000, "--></ListBucketResult>") == OK);
    ok(listing_of_many("<?a ", "<x ' ", 5000, "?><ListBucketResult/>") == OK);
    static const char wide[] = "<\0L\0i\0s\0t\0B\0u\0c\0k\0e\0t\0R\0e\0s\0u\0l\0t\0/\0>";
    ok(xml_read_listing(&arena, (slice){ wide, sizeof(wide) }, &listed) == ERR_BAD_XML);
}

static enum err delete_of(slice document, struct deletion **ret, size_t *ret_count)
{
    return xml_read_delete(&arena, document, ret, ret_count);
}

TEST(the_keys_to_delete_are_read_as_they_are)
{
    struct deletion *items;
    size_t count;
    slice document = S("<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
                       "<Quiet>true</Quiet><Object><Key>a+b%20&lt;&#10;</Key></Object>"
                       "<Object><VersionId>v1</VersionId><Key><![CDATA[c&d]]></Key></Object>"
                       "</Delete>");
    ok(delete_of(document, &items, &count) == OK);
    ok(count == 2);
    same(items[0].key, S("a+b%20<\n"));
    ok(items[0].version.len == 0);
    same(items[1].key, S("c&d"));
    same(items[1].version, S("v1"));
}

TEST(a_body_that_could_name_other_keys_is_bad)
{
    static const char *const bad[] = {
        "", "<Delete><Object/></Delete>",
        "<Delete><Object><Key></Key></Object></Delete>",
        "<Delete><Object><Key>a</Key><Key>b</Key></Object></Delete>",
        "<Delete><Object><Key>a</Key><VersionId>1</VersionId><VersionId/></Object></Delete>",
        "<Delete><Object><x:Key>a</x:Key></Object></Delete>", "<x:Delete/>",
        "<Delete><x:Object><Key>a</Key></x:Object></Delete>",
        "<Other><Object><Key>a</Key></Object></Other>", "<Delete><Object><Key>a</Key></Object>",
    };
    struct deletion *items;
    size_t count;
    for (size_t i = 0; i < countof(bad); i++)
        if (delete_of(slice_of(bad[i]), &items, &count) != ERR_BAD_XML)
            fail_msg("%s", bad[i]);
    const char *object = "<Object><Key>k</Key></Object>";
    ok(delete_of(many("<Delete>", object, 1000, "</Delete>"), &items, &count) == OK &&
       count == 1000);
    ok(delete_of(many("<Delete>", object, 1001, "</Delete>"), &items, &count) == ERR_BAD_XML);
}

TEST(a_body_may_name_no_key_at_all)
{
    struct deletion *items;
    size_t count = 1;
    ok(delete_of(S("<Delete/>"), &items, &count) == OK && count == 0);
    ok(delete_of(S("<Delete><Quiet>true</Quiet></Delete>"), &items, &count) == OK && count == 0);
}

static bool in_place(const char *document)
{
    return xml_restores_in_place(&arena, slice_of(document));
}

TEST(a_restore_that_says_no_more_than_days_and_tier_stays_where_it_is)
{
    ok(in_place("") && in_place("<RestoreRequest><Days>1</Days></RestoreRequest>"));
    ok(in_place("<RestoreRequest xmlns=\"x\"><Days>1</Days><GlacierJobParameters><Tier>Bulk</Tier>"
                "</GlacierJobParameters><Description>d</Description></RestoreRequest>"));
    ok(!in_place("<RestoreRequest><OutputLocation><S3/></OutputLocation></RestoreRequest>"));
    ok(!in_place("<RestoreRequest><Days>1<OutputLocation/></Days></RestoreRequest>"));
    ok(!in_place("<RestoreRequest><Type>SELECT</Type></RestoreRequest>"));
    ok(!in_place("<RestoreRequest><Days>1</Days></RestoreRequest><OutputLocation/>"));
    ok(!in_place("<r><RestoreRequest/></r>") && !in_place("RestoreRequest") && !in_place(" "));
}

TEST(an_error_is_found_and_another_document_is_none)
{
    slice code, message;
    ok(xml_read_error(&arena, S("<?xml version=\"1.0\"?><Error><Code>NoSuchKey</Code>"
                                "<Message>gone &amp; lost</Message><Key>k</Key></Error>"),
                      &code, &message) == OK);
    same(code, S("NoSuchKey"));
    same(message, S("gone & lost"));
    ok(xml_read_error(&arena, S("<CopyObjectResult><Code>a</Code></CopyObjectResult>"), &code,
                      &message) == OK);
    ok(!code.len && !message.len);
    ok(xml_read_error(&arena, S("<html><br></html>"), &code, &message) == ERR_BAD_XML);
    ok(xml_read_error(&arena, S("<Error><Code/></Error>"), &code, &message) == OK && !code.len);
}

#define UNIT(test) cmocka_unit_test_teardown(test, forget)
RUN(UNIT(what_is_no_xml_is_written_as_a_replacement), UNIT(an_element_is_escaped_between_its_tags),
    UNIT(a_listing_is_read), UNIT(keys_of_an_encoded_listing_are_decoded_and_its_token_is_not),
    UNIT(a_document_that_is_no_listing_is_bad), UNIT(document_types_and_entities_are_refused),
    UNIT(depth_length_and_number_have_limits), UNIT(a_tag_is_no_longer_than_anybody_needs),
    UNIT(the_keys_to_delete_are_read_as_they_are),
    UNIT(a_body_that_could_name_other_keys_is_bad),
    UNIT(a_body_may_name_no_key_at_all),
    UNIT(a_restore_that_says_no_more_than_days_and_tier_stays_where_it_is),
    UNIT(an_error_is_found_and_another_document_is_none))
