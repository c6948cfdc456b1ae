"""differs.py - the same calls to an origin and through Penstock, and what differs between the answers.
SPDX-License-Identifier: Apache-2.0

penstock-s3(7) lists, under "Where an answer is not the origin's", each way in which Penstock differs on
purpose: an entry each, with a name. `judge` asks about 190 things on both sides; each difference must
be one that an entry explains."""
import base64
from email.utils import formatdate, parsedate_to_datetime

from harness import *

SIZE = 300_000
# Of every answer: a connection's, or another each time.
HOPS = {"date", "connection", "keep-alive", "transfer-encoding", "x-amz-request-id", "x-amz-id-2", "server", "x-cache", "age",
        "server-timing"}


def cases(etag, modified):
    """(name, method, key, query, headers) of reads that an origin may answer in its own way."""
    stamp = parsedate_to_datetime(modified).timestamp()
    before, after = (formatdate(stamp + by, usegmt=True) for by in (-100, 100))
    tomorrow = formatdate(time.time() + 86400, usegmt=True)
    reads = [("plain", {}), ("no-cache", {"cache-control": "no-cache"})]
    reads += [(f"range {form}", {"range": form}) for form in (
        "bytes=0-0", "bytes=5-9", f"bytes={SIZE - 1}-", f"bytes={SIZE - 1}-{SIZE + 9}", "bytes=-5", f"bytes=-{SIZE + 1}",
        "bytes=-0", f"bytes={SIZE}-", f"bytes={SIZE}-{SIZE + 5}", "bytes=5-2", "bytes=", "bytes=-", "bytes=a-b", "chars=0-5",
        "bytes=0-1,5-6", "bytes 0-1", "bytes=0-18446744073709551616", "BYTES=0-1", "bytes= 0-1", "bytes=0 - 1")]
    reads += [(f"{' + '.join(f'{n}: {label}' for n, label, _ in what)}", {n: v for n, _, v in what}) for what in (
        [("if-match", "same", etag)], [("if-match", "other", '"x"')], [("if-match", "*", "*")], [("if-match", "unquoted", etag.strip('"'))],
        [("if-match", "weak", "W/" + etag)], [("if-match", "list", f'"x", {etag}')],
        [("if-none-match", "same", etag)], [("if-none-match", "other", '"x"')], [("if-none-match", "*", "*")],
        [("if-none-match", "unquoted", etag.strip('"'))], [("if-none-match", "weak", "W/" + etag)], [("if-none-match", "list", f'"x", {etag}')],
        [("if-modified-since", "same", modified)], [("if-modified-since", "before", before)], [("if-modified-since", "after", after)],
        [("if-modified-since", "tomorrow", tomorrow)], [("if-modified-since", "no date", "not a date")],
        [("if-unmodified-since", "same", modified)], [("if-unmodified-since", "before", before)], [("if-unmodified-since", "after", after)],
        [("if-unmodified-since", "no date", "not a date")],
        [("if-match", "same", etag), ("if-unmodified-since", "before", before)],
        [("if-match", "other", '"x"'), ("if-unmodified-since", "after", after)],
        [("if-none-match", "same", etag), ("if-modified-since", "before", before)],
        [("if-none-match", "other", '"x"'), ("if-modified-since", "after", after)],
        [("if-match", "same", etag), ("if-none-match", "same", etag)],
        [("if-range", "same", etag), ("range", "0-9", "bytes=0-9")], [("if-range", "other", '"x"'), ("range", "0-9", "bytes=0-9")],
        [("if-range", "weak", "W/" + etag), ("range", "0-9", "bytes=0-9")],
        [("if-range", "date", modified), ("range", "0-9", "bytes=0-9")], [("if-range", "old date", before), ("range", "0-9", "bytes=0-9")],
        [("if-match", "other", '"x"'), ("range", "outside", f"bytes={SIZE}-")], [("if-none-match", "same", etag), ("range", "outside", f"bytes={SIZE}-")])]
    for name, headers in reads:
        for method in ("GET", "HEAD"):
            yield f"{method} {name}", method, "bucket/a", [], headers
    for name, query in (("response-*", [("response-content-type", "text/x"), ("response-cache-control", "no-store")]),
                        ("an unknown parameter", [("never-heard-of", "1")]), ("x-id", [("x-id", "GetObject")]),
                        ("partNumber=1", [("partNumber", "1")]), ("partNumber=2", [("partNumber", "2")]), ("partNumber=0", [("partNumber", "0")]),
                        ("versionId=null", [("versionId", "null")]), ("versionId=none", [("versionId", "none")]), ("versionId=", [("versionId", "")])):
        yield f"GET {name}", "GET", "bucket/a", query, {}
        yield f"HEAD {name}", "HEAD", "bucket/a", query, {}
    yield "GET checksum-mode", "GET", "bucket/sum", [], {"x-amz-checksum-mode": "ENABLED"}
    yield "GET no checksum-mode", "GET", "bucket/sum", [], {}
    yield "GET part, checksum-mode", "GET", "bucket/sum", [], {"x-amz-checksum-mode": "ENABLED", "range": "bytes=0-1"}
    yield "GET whole range, checksum-mode", "GET", "bucket/sum", [], {"x-amz-checksum-mode": "ENABLED", "range": "bytes=0-"}
    for key in ("bucket/none", "bucket/empty", "nobucket/a", "bucket/headers", "B/a", "bucket//a", "bucket/a/", "bucket/" + "k" * 1025, "bucket/./a",
                "bucket/%2e%2e"):
        for method in ("GET", "HEAD"):
            yield f"{method} {key[:20]}", method, key, [], {}
            yield f"{method} {key[:20]} range", method, key, [], {"range": "bytes=0-5"}
    for method, key in (("HEAD", ""), ("GET", ""), ("POST", ""), ("PATCH", "bucket/a"), ("HEAD", "bucket"), ("GET", "bucket"), ("OPTIONS", "bucket/a")):
        yield f"{method} /{key}", method, key, [], {}
    yield "GET two operations", "GET", "bucket/a", [("acl", ""), ("tagging", "")], {}
    yield "GET wrong owner", "GET", "bucket/a", [], {"x-amz-expected-bucket-owner": "nobody"}


def writes():
    """(name, method, key, query, headers, body, payload): what is wrong with a body, or with a head."""
    md5 = lambda body: base64.b64encode(hashlib.md5(body).digest()).decode()    # noqa: E731
    for name, headers, payload in (
            ("right MD5", {"content-md5": md5(b"body")}, None), ("wrong MD5", {"content-md5": md5(b"other")}, None),
            ("MD5 that is none", {"content-md5": "x"}, None), ("MD5 with spare bits", {"content-md5": md5(b"body")[:-3] + "B=="}, None),
            ("wrong SHA-256", {}, hashlib.sha256(b"other").hexdigest()), ("SHA-256 that is none", {}, "x"),
            ("wrong CRC32", {"x-amz-checksum-crc32": "AAAAAA=="}, None), ("CRC32 that is none", {"x-amz-checksum-crc32": "x"}, None),
            ("two checksums", {"x-amz-checksum-crc32": "AAAAAA==", "x-amz-checksum-sha1": "AAAA"}, None),
            ("unknown checksum", {"x-amz-checksum-crc99": "AAAAAA=="}, None), ("unknown algorithm", {"x-amz-sdk-checksum-algorithm": "CRC99"}, None),
            ("wrong class", {"x-amz-storage-class": "NEVER"}, None), ("if-none-match *", {"if-none-match": "*"}, None),
            ("if-match other", {"if-match": '"x"'}, None), ("STREAMING without a length", {}, "STREAMING-UNSIGNED-PAYLOAD-TRAILER"),
            ("missing source", {"x-amz-copy-source": "/bucket/none"}, None), ("source is none", {"x-amz-copy-source": "x"}, None),
            ("source is another bucket", {"x-amz-copy-source": "/nobucket/a"}, None)):
        yield f"PUT {name}", "PUT", "bucket/w", [], headers, b"" if "source" in name else b"body", payload
    yield "PUT part of no upload", "PUT", "bucket/w", [("partNumber", "1"), ("uploadId", "none")], {}, b"body", None
    yield "PUT partNumber 0", "PUT", "bucket/w", [("partNumber", "0"), ("uploadId", "none")], {}, b"body", None
    yield "PUT a long key", "PUT", "bucket/" + "k" * 1025, [], {}, b"body", None
    yield "PUT a bad bucket", "PUT", "B", [], {}, b"", None
    yield "PUT large metadata", "PUT", "bucket/w", [], {"x-amz-meta-a": "m" * 3000}, b"body", None
    yield "DELETE none", "DELETE", "bucket/none", [], {}, b"", None
    yield "POST no form", "POST", "bucket", [], {}, b"body", None
    yield "POST delete, not XML", "POST", "bucket", [("delete", "")], {"content-md5": md5(b"body")}, b"body", None
    yield "POST complete nothing", "POST", "bucket/w", [("uploadId", "none")], {}, b"<CompleteMultipartUpload/>", None


def look(client, method, key, query, headers, body=b"", payload=None):
    reply = client.ask(method, key, query=query, headers=headers, body=body, **({"payload": payload} if payload else {}))
    fields = {n: v for n, v in reply.headers.items() if n not in HOPS}
    text = re.sub(rb"127\.0\.0\.1:\d+", b"ENDPOINT", reply.body)
    text = re.sub(rb"<(RequestId|HostId|Message|Resource|LastModified|CreationDate)>[^<]*</\1>", rb"", text) if b"<?xml" in text[:60] else text
    if method != "HEAD" and (reply.status >= 300 or b"<?xml" in text[:60]):
        fields.pop("content-length", None)
    return reply.status, reply.code, fields, text if reply.status < 300 and b"<?xml" not in text[:60] else b"", reply.error


def told(was, became):
    """What differs between two looks, as a list of short texts."""
    found = []
    if was[:2] != became[:2]:
        found.append(f"{was[0]} {was[1] or ''} -> {became[0]} {became[1] or ''}")
    for name in sorted(set(was[2]) | set(became[2])):
        if was[2].get(name) != became[2].get(name):
            found.append(f"{name}: {was[2].get(name)} -> {became[2].get(name)}")
    if was[3] != became[3]:
        found.append(f"{len(was[3])} bytes -> {len(became[3])} bytes")
    if was[4] != became[4]:
        found.append(f"{was[4]} -> {became[4]}")
    return found


def fill(client):
    body = random.Random(1).randbytes(SIZE)
    check(client.put("bucket", b"").status == 200, "a bucket is made")
    client.put("bucket/a", body, headers={"content-type": "text/a", "x-amz-meta-a": "1"})
    client.put("bucket/empty", b"")
    client.put("bucket/sum", b"sum", headers={"x-amz-checksum-crc32": "TjoDBw=="})
    client.put("bucket/headers", b"headers", headers={"content-type": "text/a", "content-language": "de", "content-encoding": "x",
                                                      "content-disposition": "inline", "cache-control": "max-age=5",
                                                      "expires": "Thu, 01 Jan 2099 00:00:00 GMT", "x-amz-meta-umlaut": "=?UTF-8?Q?=C3=A4?=",
                                                      "x-amz-tagging": "a=1", "x-amz-website-redirect-location": "/x"})
    return client.head("bucket/a").headers


def differences(direct, through):
    """Yields (case, [what differs]). Each read is made twice through Penstock, so that its second is a hit."""
    head = fill(direct)
    for name, method, key, query, headers in cases(head["etag"], head["last-modified"]):
        was = look(direct, method, key, query, headers)
        found = [told(was, look(through, method, key, query, headers)) for _ in range(2)]
        if found[0] or found[1]:
            yield name, sorted({text for one in found for text in one})
    for name, *call in writes():
        found = told(look(direct, *call), look(through, *call))
        if found:
            yield name, found


# (entry of penstock-s3(7), cases, what differs of them): patterns; the first that fits explains.
EXPLAINED = [(row, re.compile(case), re.compile(text)) for row, case, text in (
    ("range-outside", r"range (bytes=-0|bytes=300000-)|empty range|outside", r"20[06] +-> 416|content-range: |^(accept-ranges|etag|last-modified|content-type|content-length|x-amz-|x-minio-error-)|bytes$"),
    ("range-unread", r"range (bytes=5-2|bytes=|bytes=-|bytes=a-b|chars=0-5|bytes=0-1,5-6|bytes 0-1|bytes= 0-1|bytes=0 - 1)$", r""),
    ("range-numbers", r"range (bytes=0-18446744073709551616|BYTES=0-1)$", r""),
    ("if-range", r"if-range: ", r""),
    ("condition-dates", r"since: (same|after|tomorrow|no date)$", r""),
    ("condition-order", r"none-match: other \+ if-mod|if-match: same \+ if-unmod", r""),
    ("etag-lists", r"match: (list|weak|\*|unquoted)$", r"\d{3} .*-> \d{3}|bytes|^[a-z-]+: "),
    ("head-refused", r"^HEAD ", r"^content-length: \d+ -> 0$|^x-minio-error-|^content-type: .* -> application/xml$"),
    ("not-modified", r"match|since", r"^(accept-ranges|etag|last-modified|content-type|content-length|x-amz-meta-a): "),
    ("name-rules", r"(GET|HEAD) (B/a|bucket/kkk)|PUT a long key", r""),
    ("two-operations", r"two operations", r""),
    ("methods", r"(HEAD|POST|PATCH) /", r""),
    ("versions-null", r"HEAD versionId=null", r""),
    ("base64", r"spare bits", r""),
    ("bodies", r"PUT .*(MD5|SHA-256|CRC32|checksum|algorithm)", r""),
    ("body-length", r"STREAMING", r""),
    ("delete-list", r"POST delete, not XML", r""),
    ("no-form", r"POST no form", r""),
    ("head-overrides", r"HEAD response-", r"^(content-type|cache-control): "),
    ("headers-kept", r"", r"^(strict-transport-security|vary|x-content-type-options|x-ratelimit-[a-z]+|x-xss-protection|x-rgw-object-type|"
                        r"x-amzn-requestid|access-control-allow-origin|x-amz-content-sha256|accept-ranges): "),
)]


def rows():
    """The names of the entries of penstock-s3(7)."""
    with open(os.path.join(ROOT, "man", "penstock-s3.7.md")) as f:
        text = f.read().partition("\n## Where an answer is not the origin's\n")[2].partition("\n## ")[0]
    return re.findall(r"^- `([a-z0-9-]+)`$", text, re.M)


def explained_by(case, text):
    return next((row for row, cases_of, texts in EXPLAINED if cases_of.search(case) and texts.search(text)), None)


def judge(story, name, direct, through):
    """Each difference has an entry; returns {entry: number of cases}."""
    known, met, wrong = rows(), {}, []
    for case, found in differences(direct, through):
        for text in found:
            row = explained_by(case, text)
            if row not in known:
                wrong.append(f"{case}: {text} ({row})")
            elif os.environ.get("DIFFERS_TELL"):
                print(f"      {name} | {row} | {case} | {text}"[:300], flush=True)
            met.setdefault(row, set()).add(case)
    story.note(f"{name}: " + ", ".join(f"{row} {len(cases_of)}" for row, cases_of in sorted(met.items(), key=str)))
    story.fact(f"{name}: each difference is one that penstock-s3(7) explains", not wrong, "; ".join(wrong[:20]))
    return {row: len(cases_of) for row, cases_of in met.items()}
