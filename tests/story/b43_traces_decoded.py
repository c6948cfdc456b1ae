"""What Penstock exports is OTLP: OpenTelemetry's own message types read it, field for field."""
from collector import *

# Reads a body of each line of its input, and writes the same as protobuf's JSON. The ids are hex in OTLP, where
# protobuf's JSON has base64; a field or type that OTLP does not have is an error.
DECODER = """
import base64, json, sys
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

def ids(node):
    if isinstance(node, dict):
        return {k: base64.b64encode(bytes.fromhex(v)).decode() if k in ("traceId", "spanId", "parentSpanId") else ids(v) for k, v in node.items()}
    return [ids(v) for v in node] if isinstance(node, list) else node

for line in sys.stdin:
    message = json_format.ParseDict(ids(json.loads(line)), ExportTraceServiceRequest())
    for of in message.resource_spans:
        for scope in of.scope_spans:
            for span in scope.spans:
                print(json.dumps({
                    "trace": span.trace_id.hex(), "id": span.span_id.hex(), "parent": span.parent_span_id.hex(), "name": span.name, "kind": span.kind,
                    "begin": span.start_time_unix_nano, "end": span.end_time_unix_nano, "flags": span.flags, "failed": span.status.code == 2,
                    "links": [[link.trace_id.hex(), link.span_id.hex()] for link in span.links], "scope": scope.scope.name,
                    "service": [a.value.string_value for a in of.resource.attributes if a.key == "service.name"],
                    "attributes": {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in span.attributes}}))
"""

with Story("b43 spans as OpenTelemetry reads them") as story:
    found = glob.glob(os.path.join(TOOLS, "otel-*", "bin", "python3"))
    if not found:
        raise Skip("opentelemetry-proto is not installed: run scripts/tools all")
    origin, collector = story.origin("objects=bucket/k%d 30 1000"), Collector()
    server = story.penstock(origin=origin.url, traces_url=collector.endpoint, traces_ratio="0")
    ids, header = new_trace()
    statuses = [server.get(f"bucket/{key}", headers=header).status for key in ("k0", "k1", "k1", "none")]
    statuses += [server.put("bucket/p", b"x", header).status, server.ask("GET", "bucket", [("list-type", "2")], header).status]
    story.same("some requests of one trace", statuses, [200, 200, 200, 404, 200, 200])
    server.stop()
    status, out, err = run([max(found, key=os.path.getmtime), "-c", DECODER], input=b"\n".join(collector.bodies) + b"\n")
    story.same("OpenTelemetry's types take each body", (status, err), (0, ""))
    read = [json.loads(line) for line in out.splitlines()]
    story.same("... with all its spans", len(read), len(collector.spans()))
    for span, raw in zip(read, collector.spans()):
        story.same(f"{raw.name} is what was sent", (span["trace"], span["id"], span["parent"], span["name"], span["kind"], span["flags"], span["failed"], span["scope"], span["service"]),
                   (raw.trace, raw.id, raw.parent, raw.name, raw.kind, raw.flags, raw.failed, "penstock", ["penstock"]))
        story.same("... with its attributes", {k: str(v) for k, v in span["attributes"].items()}, raw.of)
        story.fact("... and its times", 0 < span["begin"] <= span["end"], span)
        story.same("... and numbers are numbers", isinstance(span["attributes"]["http.response.status_code"], int), True)
    servers = [s for s in read if s["kind"] == SERVER]
    story.same("each request has a span", (len(servers), {s["parent"] for s in servers}), (6, {ids.span}))
    story.fact("each other span is a child of one of them", {s["parent"] for s in read if s["kind"] != SERVER} <= {s["id"] for s in servers}, read)
    story.same("all are of one trace", {s["trace"] for s in read}, {ids.trace})
