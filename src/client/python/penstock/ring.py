"""ring.py - buffers in turn, so that the next batches come while this one is used.
SPDX-License-Identifier: Apache-2.0

    ring = client.ring("cuda:0", slots=3, slot_bytes=256 << 20)
    slot = ring.fill("train", keys)         # returns at once; waits only if all slots are in use
    with slot:                              # waits until the bytes are there
        x = slot.tensor("bfloat16", (len(keys), 3, 224, 224))    # a view: good until the `with` ends

Views of a slot that was given back show what comes next: whoever keeps one, clones it first. To ask a
slot that was given back for one is an error; with PENSTOCK_DEBUG=1 it is overwritten with 0xDB, so that
views that were kept show it at once. A slot of a GPU is filled again when the work that the current stream had to do at
the end of its `with` is done. One ring is one thread's.
"""
import os

from .errors import PenstockError

POISON = 0xDB


def debugging():
    return os.environ.get("PENSTOCK_DEBUG", "") not in ("", "0")


class Slot:
    """A buffer of a ring, filled or on its way to be."""

    def __init__(self, ring, nbytes):
        self.ring, self.buffer = ring, ring.client.buffer(nbytes, ring.device)
        self._busy = False
        self._fill = self._filled = self._event = None

    def begin(self, bucket, items, prefix, on_error, deadline):
        if self._event is not None:
            self._event.synchronize()    # kernels that read the last batch
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
        """What lies where; waits until it is there."""
        if not self._busy:
            raise ValueError("the slot was given back: what it holds now is another batch's")
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
        """The ring may fill it anew. What was still on its way is waited for."""
        if not self._busy:
            return
        try:
            self.filled.stale = True
        except PenstockError:
            pass    # nobody wanted it
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
        self.free = list(self.slots)    # the one given back first is taken first

    def fill(self, bucket, items, prefix="", on_error="fail", deadline=None):
        if not self.free:
            raise RuntimeError(f"all {len(self.slots)} slots are in use: leave the `with` of one first")
        slot = self.free.pop(0)
        try:
            return slot.begin(bucket, items, prefix, on_error, deadline)
        except BaseException:
            self.free.append(slot)
            raise

    def close(self):
        for slot in self.slots:
            slot.buffer.close()
