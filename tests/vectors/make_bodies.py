"""make_bodies.py - records what boto3 puts on the wire, into bodies.txt.
SPDX-License-Identifier: Apache-2.0

    python3 tests/vectors/make_bodies.py >tests/vectors/bodies.txt      (needs boto3, awscrt, openssl)

A server of a few lines takes uploads over http:// and https:// and keeps head and body as they came;
the outer framing (Transfer-Encoding: chunked, over https) is taken off. Data is not written down:
byte i of it is (i * 2654435761 mod 2^32) >> 24, and @N stands for the next N bytes of it.
"""
import os
import re
import socket
import ssl
import subprocess
import tempfile
import threading

import boto3
import botocore
from botocore.config import Config

KEEP = re.compile(r"(x-amz-(content-sha256|trailer|decoded-content-length|checksum-.*|sdk-checksum-algorithm)|content-(encoding|length|md5)|transfer-encoding):", re.I)
KIB, MIB = 1024, 1 << 20
CASES = [(scheme, size, algorithm) for scheme, size, algorithm in [
    ("https", 0, None), ("https", 1, None), ("https", 64 * KIB - 1, None),
    ("https", 64 * KIB, "CRC32"), ("https", 64 * KIB + 1, "CRC32C"), ("https", MIB - 1, "CRC64NVME"),
    ("https", MIB, "SHA1"), ("https", MIB + 1, "SHA256"), ("https", 2 * MIB, None),
    ("https", 3 * MIB + 7, "CRC32C"), ("https", 5, "CRC64NVME"), ("https", 7, "SHA1"), ("https", 100, "SHA256"),
    ("http", 0, None), ("http", 1, "CRC32"), ("http", 64 * KIB - 1, "CRC32C"), ("http", 64 * KIB, "CRC64NVME"),
    ("http", 64 * KIB + 1, "SHA1"), ("http", MIB - 1, "SHA256"), ("http", MIB + 1, None)]]


def data(size):
    return bytes((i * 2654435761 & 0xffffffff) >> 24 for i in range(size))


def read_request(stream):
    lines = []
    while (line := stream.readline()) not in (b"\r\n", b""):
        lines.append(line.decode().rstrip("\r\n"))
    fields = dict(line.lower().split(": ", 1) for line in lines[1:])
    if "100-continue" in fields.get("expect", ""):
        stream.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        stream.flush()
    if fields.get("transfer-encoding") != "chunked":
        return lines, stream.read(int(fields.get("content-length", 0)))
    body = b""
    while size := int(stream.readline(), 16):
        body += stream.read(size)
        stream.readline()
    stream.readline()
    return lines, body


def serve(listener, context, seen):
    while True:
        wire, _ = listener.accept()
        with (context.wrap_socket(wire, server_side=True) if context else wire) as wire, \
                wire.makefile("rwb") as stream:
            seen.append(read_request(stream))
            stream.write(b"HTTP/1.1 200 OK\r\nETag: \"e\"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            stream.flush()


def start(context, seen):
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=serve, args=(listener, context, seen), daemon=True).start()
    return listener.getsockname()[1]


def compact(body, whole):
    """Pieces of text and of data, each as it comes: what is long enough and is the next data, is data."""
    said, at, rest = [], 0, body
    if body == whole:
        return [f"@{len(whole)}"] if whole else []
    while rest:
        line, _, rest = rest.partition(b"\r\n")
        size = 0 if line.startswith((b"x-amz", b"0")) or not line else int(line.split(b";")[0], 16)
        said.append(line.decode() + "\\r\\n")
        if size:
            assert rest[:size] == whole[at:at + size]
            said += [f"@{size}"]
            at, rest = at + size, rest[size:]
    return said


def main():
    folder = tempfile.mkdtemp()
    pair = [os.path.join(folder, name) for name in ("key", "cert")]
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=127.0.0.1",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", pair[0], "-out", pair[1]],
                   check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair[1], pair[0])
    seen = []
    ports = {"http": start(None, seen), "https": start(context, seen)}
    print(f"# Recorded by make_bodies.py from botocore {botocore.__version__}. See there for how to read it.")
    for scheme, size, algorithm in CASES:
        client = boto3.client("s3", endpoint_url=f"{scheme}://127.0.0.1:{ports[scheme]}", verify=pair[1],
                              region_name="us-east-1", aws_access_key_id="KEY", aws_secret_access_key="SECRET",
                              config=Config(retries={"max_attempts": 0}))
        more = {"ChecksumAlgorithm": algorithm} if algorithm else {}
        client.put_object(Bucket="b", Key="k", Body=data(size), **more)
        head, body = seen.pop()
        print(f"\nname {scheme}-{size}-{(algorithm or 'default').lower()}")
        print(f"size {size}")
        for line in head[1:]:
            if KEEP.match(line):
                print(f"head {line}")
        for piece in compact(body, data(size)):
            print(f"body {piece}")


main()
