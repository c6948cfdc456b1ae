"""The checksum of a part comes with the part, as MinIO and AWS say it; what is said of the whole object,
or of its sums, never does. (versitygw and radosgw 16 say none, so the origin is ours.)"""
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from harness import *

PART, COUNT = 200_000, 3
BODY = random.Random(14).randbytes(PART * COUNT)
WHOLE, PARTS = "x-whole==", ["AAAAAQ==", "AAAAAg==", "AAAAAw=="]
# What the origin says of part n: bucket/own its own sum, bucket/whole the object's, bucket/sums a sum of sums.
SAYS = {"own": lambda n: (PARTS[n - 1], "FULL_OBJECT"), "whole": lambda n: (WHOLE, "FULL_OBJECT"), "sums": lambda n: ("AAAABA==-3", "COMPOSITE")}


class Parts(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    asked = []

    def do_GET(self):
        path, _, query = self.path.partition("?")
        says, number = SAYS[path.rpartition("/")[2]], int(dict(p.split("=") for p in query.split("&") if p).get("partNumber", 0))
        first, last = ((number - 1) * PART, number * PART - 1) if number else (0, len(BODY) - 1)
        asked = re.match(r"bytes=(\d+)-(\d*)", self.headers.get("range", ""))
        if asked:
            first, last = int(asked.group(1)), min(int(asked.group(2) or last), last)
        self.asked.append((self.command, number))
        self.send_response(206 if number or asked else 200)
        self.send_header("Content-Length", str(last - first + 1))
        self.send_header("ETag", '"0123456789abcdef-3"')
        self.send_header("Last-Modified", "Mon, 02 Nov 2026 00:00:00 GMT")
        if number or asked:
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(BODY)}")
        if number:
            self.send_header("x-amz-mp-parts-count", str(COUNT))
        if self.headers.get("x-amz-checksum-mode") == "ENABLED" and not asked:
            value, kind = says(number) if number else (WHOLE, "FULL_OBJECT")
            self.send_header("x-amz-checksum-crc32", value)
            self.send_header("x-amz-checksum-type", kind)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(BODY[first:last + 1])

    do_HEAD = do_GET

    def log_message(self, *_):
        pass


with Story("s15 the checksum of a part comes with it") as story:
    origin = ThreadingHTTPServer(("127.0.0.1", 0), Parts)
    threading.Thread(target=origin.serve_forever, daemon=True).start()
    server = story.penstock(origin=f"http://127.0.0.1:{origin.server_port}")
    checked = {"x-amz-checksum-mode": "ENABLED"}
    for key, wanted in (("own", lambda n: PARTS[n - 1]), ("whole", lambda n: None), ("sums", lambda n: None)):
        whole = server.head(f"bucket/{key}", headers=checked)
        story.same(f"{key}: the object's checksum comes with the object", whole.headers.get("x-amz-checksum-crc32"), WHOLE)
        for turn in ("cold", "warm"):
            for number in (2, 3, 1):
                for method in ("GET", "HEAD"):
                    reply = server.ask(method, f"bucket/{key}", [("partNumber", str(number))], headers=checked)
                    story.same(f"{key}, {turn}: {method} of part {number} has the part's checksum, or none",
                               (reply.status, reply.headers.get("x-amz-checksum-crc32")), (206, wanted(number)))
                    if method == "GET":
                        story.same("... and its bytes", reply.body == BODY[(number - 1) * PART:number * PART], True)
        reply = server.ask("GET", f"bucket/{key}", [("partNumber", "2")])
        story.same(f"{key}: none comes to a client that asks for none", reply.headers.get("x-amz-checksum-crc32"), None)
        reply = server.get(f"bucket/{key}", PART, 2 * PART - 1, headers=checked)
        story.same(f"{key}: nor with a range that is the part", reply.headers.get("x-amz-checksum-crc32"), None)
    story.same("where a part lies is asked once a part", sorted(Parts.asked).count(("HEAD", 2)), len(SAYS))
