"""ring.py - buffers used in turn: while one batch is used, the next batches are read.
SPDX-License-Identifier: Apache-2.0

    ring = client.ring("cuda:0", slots=3, slot_bytes=256 << 20)
    slot = ring.fill("train", keys)         # returns at once; raises if all slots are in use
    with slot:                              # waits until the fill has ended
        x = slot.tensor("bfloat16", (len(keys), 3, 224, 224))    # a view, valid until the `with` ends

The end of the `with` releases the slot. When the ring fills a released slot again, the old views of the
slot show the new bytes: clone the data that you keep. To make a new view of a released slot is an error
(ValueError). With PENSTOCK_DEBUG=1 the release overwrites the slot's bytes with 0xDB, so that a mistaken
use of an old view shows at once. The release of a slot in GPU memory marks the current CUDA stream. The
ring fills the slot again only after the stream has done all work up to this mark. Only one thread may use
a ring.
"""
import os

from .errors import PenstockError

POISON = 0xDB


def debugging():
    return os.environ.get("PENSTOCK_DEBUG", "") not in ("", "0")


class Slot:
    """A buffer of a ring, with its last fill."""

    def __init__(self, ring, nbytes):
        self.ring, self.buffer = ring, ring.client.buffer(nbytes, ring.device)
        self._busy = False
        self._fill = self._filled = self._event = None

    def begin(self, bucket, items, prefix, on_error, deadline):
        if self._event is not None:
            self._event.synchronize()    # waits for the kernels that read the last batch
            self._event = None
        self._busy, self._filled = True, None
        try:
            self._fill = self.ring.client.fill_async(self.buffer, bucket, items, prefix, on_error, deadline)
        except BaseException:
            self._busy = False
            raise
        return self

    @property
    def filled(self):
        """Waits for the end of the fill, and returns its Filled."""
        if not self._busy:
            raise ValueError("the slot was given back to its ring, and may hold another batch now: use a slot "
                             "only inside its `with`, or clone the data that you keep")
        if self._filled is None:
            self._filled = self._fill.result()
        return self._filled

    def tensor(self, dtype="uint8", shape=None, offset=0):
        return self.filled.buffer.tensor(dtype, shape, offset)

    def tensors(self, dtype="uint8"):
        return self.filled.tensors(dtype)

    @property
    def views(self):
        return self.filled.views

    @property
    def offsets(self):
        return self.filled.offsets

    @property
    def lengths(self):
        return self.filled.lengths

    def release(self):
        """Gives the slot back to the ring. If its fill is still in progress, waits for the end of the fill."""
        if not self._busy:
            return
        try:
            self.filled.stale = True
        except PenstockError:
            pass    # the fill failed, so there is no Filled to mark as stale
        on_gpu = self.buffer.kind.startswith("cuda")
        if debugging():
            self._poison(on_gpu)
        if on_gpu:
            import torch
            self._event = torch.cuda.current_stream(self.buffer.device[1]).record_event()
        self._busy = False
        self.ring.free.append(self)

    def _poison(self, on_gpu):
        if on_gpu:
            self.buffer.tensor().fill_(POISON)
            return
        memory = self.buffer.memory
        block = bytes([POISON]) * min(len(memory), 1 << 20)
        for at in range(0, len(memory), len(block)):
            memory[at:at + len(block)] = block[:len(memory) - at]

    def __enter__(self):
        try:
            self.filled
        except BaseException:
            self._busy = False
            self.ring.free.append(self)
            raise
        return self

    def __exit__(self, *_):
        self.release()


class Ring:
    def __init__(self, client, device="cpu", slots=3, slot_bytes=64 << 20):
        self.client, self.device = client, device
        self.slots = [Slot(self, slot_bytes) for _ in range(slots)]
        self.free = list(self.slots)    # the slot that was released first is used first

    def fill(self, bucket, items, prefix="", on_error="fail", deadline=None):
        if not self.free:
            raise RuntimeError(f"all {len(self.slots)} slots of the ring are in use: release one first, by "
                               "leaving its `with`")
        slot = self.free.pop(0)
        try:
            return slot.begin(bucket, items, prefix, on_error, deadline)
        except BaseException:
            self.free.append(slot)
            raise

    def close(self):
        for slot in self.slots:
            slot.buffer.close()
