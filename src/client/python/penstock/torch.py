"""torch.py - batches as tensors, and a data set. SPDX-License-Identifier: Apache-2.0

    loader = GpuBatchLoader(client, "train", batches, shape=(150528,), device="cuda:0")
    for x in loader:            # uint8, (len(batch), 150528), on the GPU

`batches` is an iterable of lists of items (see items.py), such as a BatchSampler. While one batch is
used, the next `depth` are read, without a worker process. The way of the bytes is chosen once
(`loader.way`) and logged once. They go straight into GPU memory (cuda-vmm, cuda-ipc), into shared
memory (memfd) or, without a fill socket, by batches or single GETs over HTTP (batch, get). On the last
three ways they are then copied from host memory to the device; on the first two, no byte passes this
process's CPU.

By default a batch is a copy of its slot (on a GPU, a copy inside the GPU). clone=False saves the copy:
a batch is then valid only until the next one is taken.
"""
import collections
import os

import torch
from torch.utils import data

from . import items as layout
from .errors import PenstockError
from .ring import Ring

SLOT_BYTES = 64 << 20


def choose_device(device):
    if device == "auto":
        return "cuda:0" if torch.cuda.is_available() else "cpu"
    device = str(torch.device(device))
    return "cuda:0" if device == "cuda" else device


def check_worker(device):
    if device != "cpu" and data.get_worker_info() is not None:
        raise RuntimeError(f"device={device!r} inside a DataLoader worker: CUDA does not survive a fork, and "
                           "the GPU's memory is this process's. Use num_workers=0 (the loader reads ahead by "
                           "itself), or device=\"cpu\" in workers")


class GpuBatchLoader:
    """shape: the shape of every item; a batch is then one tensor. None: a batch is a list of
    one-dimensional tensors, as long as their objects. slot_bytes: the room for one batch. Its default is
    the size of the first batch, or 64 MiB if the lengths of the items are not known. on_error "skip"
    (only without shape): items that failed are empty, and `errors` lists them."""

    def __init__(self, client, bucket, batches, *, dtype=torch.uint8, shape=None, device="auto", depth=3,
                 clone=True, prefix="", slot_bytes=None, on_error="fail", deadline=None):
        if shape is not None and on_error != "fail":
            raise ValueError("on_error=\"skip\" leaves holes in a tensor: it goes with shape=None")
        self.client, self.bucket, self.batches, self.prefix = client, bucket, batches, prefix
        self.dtype = getattr(torch, dtype) if isinstance(dtype, str) else dtype
        self.shape = None if shape is None else tuple(shape)
        self.device, self.depth, self.clone = choose_device(device), depth, clone
        check_worker(self.device)
        self.on_error, self.deadline = on_error, deadline
        self.way = client.way(self.device)
        self.errors = []
        self._host = self.device != "cpu" and not self.way.startswith("cuda")
        self._slot_bytes, self._ring, self._pid = slot_bytes, None, os.getpid()
        self._item_bytes = self.dtype.itemsize
        for n in self.shape or (0,):
            self._item_bytes *= n

    def __len__(self):
        return len(self.batches)

    def __iter__(self):
        check_worker(self.device)
        if self._pid != os.getpid():
            self._ring, self._pid = None, os.getpid()
        waiting = collections.deque()
        self.errors = []
        try:
            for batch in self.batches:
                self._begin(waiting, batch)
                if len(waiting) > self.depth:
                    yield from self._take(waiting)
            while waiting:
                yield from self._take(waiting)
        finally:
            for slot, _ in waiting:    # the caller left the epoch early
                slot.release()

    # ---- one batch ----

    def _sized(self, batch):
        """The items of a batch; with a shape, each has just the bytes of the shape."""
        batch = list(batch)
        if self.shape is None:
            return batch
        return [self._checked(item) for item in batch]

    def _checked(self, item):
        """Refuses a range of another length. A whole object gets a `max`, so that a longer one fails."""
        key, offset, length, to, more = layout.read(item)
        if to is not None or length not in (None, self._item_bytes):
            raise ValueError(f"{item!r} is not one of shape {self.shape}, which takes {self._item_bytes} bytes")
        if length is None:
            return {**(item if isinstance(item, dict) else {"key": key}), "max": self._item_bytes}
        return item

    def _need(self, batch):
        """(bytes of a batch, as far as lengths are known; whether some are not)."""
        if self.shape is not None:
            return self._item_bytes * len(batch), False
        lengths = [layout.read(item)[2] for item in batch]
        return sum(n for n in lengths if n is not None), None in lengths

    def _begin(self, waiting, batch):
        batch = self._sized(batch)
        need, unknown = self._need(batch)
        if self._ring is None:
            self._slot_bytes = max(self._slot_bytes or (SLOT_BYTES if unknown else 0), need, 1)
            self._ring = Ring(self.client, "cpu" if self._host else self.device, self.depth + 1,
                              self._slot_bytes)
        if need > self._slot_bytes:
            raise ValueError(f"a batch of {need} bytes is larger than the first, and than slot_bytes, "
                             f"{self._slot_bytes}: say slot_bytes")
        waiting.append((self._ring.fill(self.bucket, batch, self.prefix, self.on_error, self.deadline), batch))

    def _take(self, waiting):
        slot, batch = waiting.popleft()
        with slot:
            self.errors += slot.filled.errors
            self._measure(slot.filled)
            made = self._batch_of(slot, batch)
            if not self.clone and not self._host:
                yield made
                return
        yield made

    def _measure(self, filled):
        for i, length in enumerate(filled.lengths if self.shape is not None else ()):
            if length != self._item_bytes:
                key = layout.key_of(filled.items[i])
                raise PenstockError("wrong_length", 422, f"{key!r} has {length} bytes, and shape {self.shape} "
                                    f"takes {self._item_bytes}")

    def _batch_of(self, slot, batch):
        if self.shape is not None:
            return self._own(slot.tensor(self.dtype, (len(batch), *self.shape)))
        return [self._own(tensor) for tensor in slot.tensors(self.dtype)]

    def _own(self, tensor):
        if self._host:
            return tensor.to(self.device)    # waits for the copy, as the slot is not pinned
        return tensor.clone() if self.clone else tensor


class Dataset(data.Dataset):
    """A map-style data set: dataset[i] is the bytes of items[i] as a tensor. A DataLoader that fetches
    lists gets a whole batch with one fill. On the host it may be used in workers: each has a connection
    of its own. transform: a function for each tensor."""

    def __init__(self, client, bucket, items, *, dtype=torch.uint8, shape=None, prefix="", transform=None,
                 device="cpu", slot_bytes=SLOT_BYTES):
        self.client, self.bucket, self.items, self.prefix = client, bucket, items, prefix
        self.dtype = getattr(torch, dtype) if isinstance(dtype, str) else dtype
        self.shape, self.transform, self.slot_bytes = shape, transform, slot_bytes
        self.device = choose_device(device)
        self._ring, self._pid = None, None

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.__getitems__([index])[0]

    def __getitems__(self, indices):
        check_worker(self.device)
        if self._pid != os.getpid():
            self._ring, self._pid = Ring(self.client, self.device, 1, self.slot_bytes), os.getpid()
        with self._ring.fill(self.bucket, [self.items[i] for i in indices], self.prefix) as slot:
            samples = [tensor.clone() for tensor in slot.tensors(self.dtype)]
        if self.shape is not None:
            samples = [sample.view(self.shape) for sample in samples]
        return [self.transform(sample) for sample in samples] if self.transform else samples
