"""batches.py - batch GETs, asked for and read. SPDX-License-Identifier: Apache-2.0"""

import io
import json
import struct
import tarfile

from harness import Wrong

FRAME = struct.Struct("<IIHHIQQQQ16x")
ERRORS = "__penstock__/errors.json"


class Item:
    """One item of an answer; first, size and etag are told by frames alone."""

    def __init__(self, index, status, code, body, key=None, etag="", first=0, size=0, modified=0):
        self.index, self.status, self.code, self.body, self.key = index, status, code, body, key
        self.etag, self.first, self.size, self.modified = etag, first, size, modified

    def __repr__(self):
        return f"<{self.index} {self.key or ''} {self.status} {self.code} {len(self.body)} bytes>"


def document(items, **more):
    return json.dumps({"items": items, **more}).encode()


def ask(client, bucket, items, form="frames", body=None, **how):
    """The answer as it came. `how`: prefix, on_error; and what Client.ask takes."""
    more = {name: how.pop(name) for name in ("prefix", "on_error") if name in how}
    return client.ask("POST", bucket, query=[("penstock-batch", "")],
                      body=document(items, form=form, **more) if body is None else body, **how)


def read_frames(data):
    """The items, and whether the end was there and told the truth."""
    items, at = [], 0
    while at < len(data):
        magic, index, status, etag, code, length, first, size, modified = FRAME.unpack_from(data, at)
        at += FRAME.size
        if magic != 0x31425350:
            raise Wrong(f"no frame at byte {at - FRAME.size} of {len(data)}")
        if index == 0xFFFFFFFF:
            failed = sum(1 for item in items if item.code)
            return items, at == len(data) and (size, length) == (len(items), failed)
        said = data[at:at + etag].decode(), data[at + etag:at + etag + code].decode()
        at += etag + code
        items.append(Item(index, status, said[1], data[at:at + length], None, said[0], first, size,
                          modified))
        at += length
    return items, False


def read_tar(data, mode="r|"):
    """The members as items, by their order; those of the errors in their places."""
    items, errors = [], []
    with tarfile.open(fileobj=io.BytesIO(data), mode=mode) as tar:
        for member in tar:
            body = tar.extractfile(member).read()
            if member.name == ERRORS:
                errors = json.loads(body)["errors"]
            else:
                items.append(Item(None, 200, "", body, member.name, modified=member.mtime))
    for error in errors:
        items.insert(error["index"], Item(error["index"], error["status"], error["code"], b"",
                                          error["key"]))
    for i, item in enumerate(items):
        item.index = i
    return items


def frames(client, bucket, items, **how):
    """The items of an answer that is whole."""
    reply = ask(client, bucket, items, **how)
    if reply.error or reply.status != 200:
        raise Wrong(f"the batch: {reply} {reply.body[:500]}")
    got, whole = read_frames(reply.body)
    if not whole:
        raise Wrong(f"the batch has no right end: {got[-3:]}")
    return got


def tar(client, bucket, items, **how):
    reply = ask(client, bucket, items, form="tar", **how)
    if reply.error or reply.status != 200:
        raise Wrong(f"the batch: {reply} {reply.body[:500]}")
    return read_tar(reply.body)
