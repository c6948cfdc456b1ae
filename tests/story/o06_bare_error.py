"""An origin's error answer without a document: the client learns its status from Penstock's own document."""
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from harness import *


class Bare(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(int(self.path.rpartition("/")[2]))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


with Story("o06 an error answer without a document") as story:
    origin = ThreadingHTTPServer(("127.0.0.1", 0), Bare)
    threading.Thread(target=origin.serve_forever, daemon=True).start()
    server = story.penstock(origin=f"http://127.0.0.1:{origin.server_port}")
    for status in (500, 418):
        reply = server.get(f"bucket/{status}")
        story.same(f"{status}: Penstock's own error", (reply.status, reply.code), (502, "InternalError"))
        story.fact("... which does not say that the origin refused", b"refused" not in reply.body, reply.body)
        story.fact("... and says the status", b"Details: the origin answered %d." % status in reply.body, reply.body)
    reply = server.get("bucket/403")
    story.same("a refusal stays one", (reply.status, reply.code), (403, "AccessDenied"))
    origin.shutdown()
