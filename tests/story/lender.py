"""lender.py - who lends credentials to a service, and an origin that takes no others.
SPDX-License-Identifier: Apache-2.0

One server speaks the wire forms of AWS: the container endpoint (/container), the instance's metadata
(IMDSv2: PUT /latest/api/token, /latest/meta-data/iam/security-credentials/ROLE), STS (POST /) and an
S3 that answers /bucket/KEY to whoever signs with keys that were lent, are not over and were not
revoked. What it lends, and how badly, is set from outside."""
import json
import re
import threading
import time
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs


def iso(at):
    return datetime.fromtimestamp(at, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


class Lender:
    def __init__(self, life=3600):
        self.life = life            # of what is lent, in seconds
        self.delay = 0              # before an answer about credentials
        self.down = 0               # a status that is answered instead of credentials
        self.raw = None             # a document that is lent instead
        self.expires = None         # an Expiration instead of the right one
        self.want_token = None      # what a container must say in Authorization
        self.lent, self.good = [], {}
        self.asked, self.forms, self.refused, self.served = [], [], 0, 0
        self.seen_by = set()        # keys that the S3 was asked with
        self.static = {}            # access key: token ("" for none) that is always good
        self.hold = None            # an Event: who asks the S3 is not judged before it
        self.lock = threading.Lock()
        lender = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def reply(self, status, body, kind="text/plain", **fields):
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Content-Type", kind)
                for name, value in fields.items():
                    self.send_header(name.replace("_", "-"), value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            def do_PUT(self):
                self.rfile.read(int(self.headers.get("content-length", 0)))
                lender.token(self)

            def do_GET(self):
                lender.get(self)

            def do_HEAD(self):
                lender.get(self)

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                lender.sts(self, body.decode())

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128
        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def lend(self):
        with self.lock:
            number, until = len(self.lent) + 1, time.time() + self.life
            pair = (f"LENT{number}", f"secret/of+{number}", f"token=={number}")
            self.lent.append(pair[0])
            self.good[pair[0]] = (pair[2], until)
        return (*pair, self.expires or iso(until))

    def revoke(self):
        """What was lent is no good any more."""
        with self.lock:
            self.good.clear()

    def document(self, token_name, **more):
        key, secret, token, until = self.lend()
        return json.dumps({**more, "AccessKeyId": key, "SecretAccessKey": secret,
                           token_name: token, "Expiration": until}).encode()

    def answers(self, ask):
        """False if it was told to fail, and did."""
        self.asked.append(ask.path)
        time.sleep(self.delay)
        if self.down:
            ask.reply(self.down, b"<ErrorResponse><Error><Code>AccessDenied</Code><Message>told to"
                      b"</Message></Error></ErrorResponse>" if ask.command == "POST" else b"no")
        return not self.down

    def get(self, ask):
        if ask.path.startswith("/bucket/"):
            return self.s3(ask)
        if not self.answers(ask):
            return None
        if self.raw is not None:
            return ask.reply(200, self.raw)
        if ask.path == "/container":
            if self.want_token and ask.headers.get("authorization") != self.want_token:
                return ask.reply(401, b"who are you")
            return ask.reply(200, self.document("Token"))
        if ask.headers.get("x-aws-ec2-metadata-token") != "a-session":
            return ask.reply(401, b"")
        listing = "/latest/meta-data/iam/security-credentials/"
        if ask.path == listing:
            return ask.reply(200, b"node-role\n")
        if ask.path == listing + "node-role":
            return ask.reply(200, self.document("Token", Code="Success", Type="AWS-HMAC",
                                                LastUpdated=iso(time.time())))
        return ask.reply(404, b"")

    def token(self, ask):
        if ask.path == "/latest/api/token" and self.answers(ask):
            ttl = ask.headers.get("x-aws-ec2-metadata-token-ttl-seconds", "")
            ask.reply(200 if ttl.isdigit() else 400, b"a-session")

    def sts(self, ask, body):
        if not self.answers(ask):
            return
        form = {name: values[0] for name, values in parse_qs(body).items()}
        form["signed"] = ask.headers.get("authorization", "")
        self.forms.append(form)
        action = form["Action"]
        key, secret, token, until = self.lend()
        ask.reply(200, self.raw if self.raw is not None else (
            f'<{action}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><{action}Result>'
            f"<AssumedRoleUser><Arn>arn</Arn></AssumedRoleUser><Credentials><AccessKeyId>{key}"
            f"</AccessKeyId><SecretAccessKey>{secret}</SecretAccessKey><SessionToken>{token}"
            f"</SessionToken><Expiration>{until}</Expiration></Credentials></{action}Result>"
            f"</{action}Response>").encode(), "text/xml")

    def s3(self, ask):
        if self.hold:
            self.hold.wait(20)
        key = re.search("Credential=([^/]*)/", ask.headers.get("authorization", ""))
        key = key.group(1) if key else ""
        token = ask.headers.get("x-amz-security-token", "")
        with self.lock:
            self.seen_by.add(key)
            want, until = self.good.get(key, (None, 0))
            good = self.static.get(key) == token or (want == token and time.time() < until)
            self.refused += not good
            self.served += good
        if not good:
            return ask.reply(400, b"<Error><Code>ExpiredToken</Code><Message>The provided token has"
                             b" expired.</Message></Error>", "application/xml")
        body = ask.path.encode() * 50
        return ask.reply(200, body, "binary/octet-stream", ETag=f'"{hash(ask.path) & 0xffff:x}"',
                         Last_Modified="Wed, 21 Oct 2015 07:28:00 GMT")
