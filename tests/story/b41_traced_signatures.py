"""A trace breaks no signature: versitygw accepts every request of a recorded trace, whichever way the client signed it."""
from collector import *
from recorder import Recorder

with Story("b41 traces and signatures") as story:
    origin, collector = story.versity(), Collector()
    recorder = Recorder(origin.port)
    story.same("a bucket is made", origin.client.put("photos", b"").status, 200)
    body = story.random.randbytes(100_000)
    for name in "abcdef":
        story.same(f"{name} is there", origin.client.put(f"photos/{name}", body).status, 200)
    server = story.penstock(origin=recorder.url, traces_url=collector.endpoint, traces_ratio="0")
    state = {"tracestate": "a=b,vendor=some thing"}
    traces = {}

    def traced(name, count, ask, status=200, **also):
        """Asks with a trace, of which so many spans are to come."""
        ids, header = new_trace()
        reply = ask({**header, **state, **also})
        story.same(f"{name}", (reply.status, reply.code), (status, ""))
        traces[name] = (ids, count)
        return reply

    class Signed(Client):
        """Signs traceparent and tracestate, too, as a client does that adds them before it signs."""

        def head_of(self, method, key, query=(), headers=None, body=b"", **how):
            headers = {"host": self.host, **headers}
            now = datetime.now(timezone.utc)
            stamp, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
            headers.update({"x-amz-date": stamp, "x-amz-content-sha256": hashlib.sha256(body).hexdigest()})
            path, names = "/" + uri(key, "/-._~"), ";".join(sorted(headers))
            canonical = "\n".join([method, path, "", "".join(f"{n}:{headers[n]}\n" for n in sorted(headers)), names, headers["x-amz-content-sha256"]])
            scope = f"{day}/us-east-1/s3/aws4_request"
            text = "\n".join(["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()])
            signature = hmac.new(signing_key(self.secret, day, "us-east-1"), text.encode(), hashlib.sha256).hexdigest()
            headers["authorization"] = f"AWS4-HMAC-SHA256 Credential={self.key}/{scope}, SignedHeaders={names}, Signature={signature}"
            if body:
                headers["content-length"] = str(len(body))
            return "\r\n".join([f"{method} {path} HTTP/1.1", *(f"{n}: {v}" for n, v in headers.items())]).encode() + b"\r\n\r\n" + body

    signed = Signed(server.port)
    story.same("a miss has the bytes", traced("a GET", 2, lambda h: server.get("photos/a", headers=h)).body == body, True)
    story.same("... also if the client signed the trace", traced("a GET with a signed trace", 2, lambda h: signed.get("photos/b", headers=h)).body == body, True)
    story.same("... which goes on unsigned", [name for name in ("traceparent", "tracestate") if name in recorder.last("GET")["authorization"]], [])
    story.same("... with its state", recorder.last("GET")["tracestate"], state["tracestate"])
    traced("a HEAD", 2, lambda h: server.head("photos/c", headers=h))
    traced("a range", 2, lambda h: server.get("photos/d", 10, 99, headers=h), 206)
    traced("a PUT", 2, lambda h: server.put("photos/new", body, h))
    traced("a PUT with a signed trace", 2, lambda h: signed.put("photos/newer", body, h))
    traced("a list", 2, lambda h: server.ask("GET", "photos", [("list-type", "2")], h))
    traced("a read past the cache", 2, lambda h: server.ask("GET", "photos/a", [("tagging", "")], h), 200)
    traced("a DELETE", 2, lambda h: server.ask("DELETE", "photos/new", headers=h), 204)
    target = presign("GET", server.client.host, "/photos/e", ACCESS_KEY, SECRET_KEY)
    story.same("a presigned URL has the bytes", traced("a presigned GET", 2, lambda h: plain(server.port, "GET", target, headers=[f"{n}: {v}" for n, v in h.items()])).body == body, True)
    target = presign("PUT", server.client.host, "/photos/f", ACCESS_KEY, SECRET_KEY)
    traced("a presigned PUT", 2, lambda h: plain(server.port, "PUT", target, b"new", headers=[f"{n}: {v}" for n, v in h.items()]))
    story.same("... which the origin has", origin.client.get("photos/f").body, b"new")
    for name, (ids, count) in traces.items():
        request, *calls = collector.wait(ids.trace, count)
        story.same(f"{name} has its spans", (request.parent, request.failed, {(c.parent, c.failed) for c in calls}), (ids.span, False, {(request.id, False)}))
