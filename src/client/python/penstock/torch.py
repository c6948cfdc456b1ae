"""torch.py - batches as tensors, and a data set. SPDX-License-Identifier: Apache-2.0

    loader = GpuBatchLoader(client, "train", batches, shape=(150528,), device="cuda:0")
    for x in loader:            # uint8, (len(batch), 150528), on the GPU

`batches` is an iterable of lists of items (see items.py), such as a BatchSampler. While one batch is in use,
the loader reads the next `depth` batches, without a worker process. The loader chooses once how bytes get to
the device (`loader.way`), and the client logs this way. With the ways "cuda-vmm" and "cuda-ipc", the bytes
go straight into GPU memory, and this process copies none of them. With "memfd", the bytes go into shared
memory. Without a fill socket, the bytes come over HTTP, by batches ("batch") or single GETs ("get"). With
"memfd", "batch" and "get", torch then copies the bytes from host memory to the device, if the device is a
GPU.

If the batches have a length (a list or a BatchSampler has one), the loader draws all of them as an epoch begins, and
tells Penstock their order (follow.py): Penstock then brings what is not cached ahead of the loader. It reads other
batches, such as those of a generator, one after another, and tells nothing. If everything was cached in an epoch
whose order was told, the next epochs do without: a list costs the daemon CPU for each item.

Each batch is read into a slot, which is one of the loader's buffers (ring.py). By default the program gets a
copy of the slot. With clone=False there is no copy, and a batch is valid only until the program takes the
next batch. Exception: if the device is a GPU and the slot is in host memory, the copy to the GPU is always
made.
"""
import collections
import os

import torch
from torch.utils import data

from . import items as layout
from .errors import PenstockError
from .follow import Planned, PlannedSampler    # noqa: F401 (programs import PlannedSampler from here)
from .ring import Ring

SLOT_BYTES = 64 << 20
UNTOLD_MAX = 16    # epochs in a row whose order is not told


def choose_device(device):
    if device == "auto":
        return "cuda:0" if torch.cuda.is_available() else "cpu"
    device = str(torch.device(device))
    return "cuda:0" if device == "cuda" else device


def check_worker(device):
    if device != "cpu" and data.get_worker_info() is not None:
        raise RuntimeError(f"device={device!r} can't be used in a DataLoader worker, because CUDA does not "
                           "work after a fork: use num_workers=0 (the loader reads ahead without workers), or "
                           "device=\"cpu\" in workers")


class GpuBatchLoader(Planned):
    """Yields batches as tensors. shape: the shape of every item; a batch is then one tensor. Without a shape,
    a batch is a list of one-dimensional tensors, each as long as its item. slot_bytes: the room for one
    batch, in bytes. The default is the size of the first batch. Without a shape, if an item of this batch
    has no length, the default is at least 64 MiB. With on_error "skip" (only without a shape), items that
    failed are empty, and `errors` lists them. follow: False if the loader is not to tell Penstock its order.
    window: how many bytes Penstock may bring ahead. If Penstock does not take the order of an epoch, the loader
    logs one warning, and tells no further orders."""

    def __init__(self, client, bucket, batches, *, dtype=torch.uint8, shape=None, device="auto", depth=3,
                 clone=True, prefix="", slot_bytes=None, on_error="fail", deadline=None, follow=True, window=None):
        if shape is not None and on_error != "fail":
            raise ValueError("with shape, on_error=\"skip\" would leave holes in the tensor of a batch: leave "
                             "out shape, or use on_error=\"fail\"")
        self.client, self.bucket, self.batches, self.prefix = client, bucket, batches, prefix
        self.dtype = getattr(torch, dtype) if isinstance(dtype, str) else dtype
        self.shape = None if shape is None else tuple(shape)
        self.device, self.depth, self.clone = choose_device(device), depth, clone
        check_worker(self.device)
        self.on_error, self.deadline = on_error, deadline
        self.window, self._tells = window, follow
        self._untold, self._untold_next = 0, 1    # epochs that are left, and those after the next list
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
        if self._pid != os.getpid():    # the ring and the job are the parent's
            self._ring, self.follow, self._pid = None, None, os.getpid()
        waiting = collections.deque()
        self.errors = []
        try:
            for batch in self._planned():
                self._begin(waiting, batch)
                if len(waiting) > self.depth:
                    yield from self._take(waiting)
            while waiting:
                yield from self._take(waiting)
            self._learn()
        finally:
            for slot, _ in waiting:    # the caller left the loop before its end
                slot.release()
            self.close()

    def _planned(self):
        """Returns the batches, after their order was told."""
        if not self._tells or not hasattr(self.batches, "__len__"):
            return self.batches
        if self._untold:
            self._untold -= 1
            return self.batches
        batches = [list(batch) for batch in self.batches]
        items = [item for batch in batches for item in batch]
        self._tell(items)
        self._tells = self.follow is not None or not items
        return batches

    def _learn(self):
        """At the end of an epoch: if its job had nothing to fetch, and not just because the loader was faster, the
        next epochs have no job: first one of them, then twice as many each time."""
        try:
            report = self.follow.report() if self.follow else {}
            if report and report["fetched"] == 0 and 2 * report["hits"] > report["listed"]:
                self._untold, self._untold_next = self._untold_next, min(2 * self._untold_next, UNTOLD_MAX)
            elif self.follow:
                self._untold_next = 1
        except PenstockError:
            pass    # the next epoch is told

    # ---- one batch ----

    def _sized(self, batch):
        """Returns the items of a batch. With a shape, no item is longer than the shape (see _checked)."""
        batch = list(batch)
        if self.shape is None:
            return batch
        return [self._checked(item) for item in batch]

    def _checked(self, item):
        """Refuses an item with a length that does not fit the shape. Gives an item without a length a `max`,
        so that a longer object fails."""
        key, offset, length, to, more = layout.read(item)
        if to is not None or length not in (None, self._item_bytes):
            raise ValueError(f"{item!r} does not fit the shape {self.shape}: an item must ask for "
                             f"{self._item_bytes} bytes, and must not give its place (\"to\")")
        if length is None:
            return {**(item if isinstance(item, dict) else {"key": key}), "max": self._item_bytes}
        return item

    def _need(self, batch):
        """Returns (sum of the lengths that are known, True if a length is not known)."""
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
            raise ValueError(f"a batch needs {need} bytes, and a slot has {self._slot_bytes}: set slot_bytes "
                             "to the size of the largest batch")
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
                                    f"needs {self._item_bytes}: leave out this item, or leave out shape")

    def _batch_of(self, slot, batch):
        if self.shape is not None:
            return self._own(slot.tensor(self.dtype, (len(batch), *self.shape)))
        return [self._own(tensor) for tensor in slot.tensors(self.dtype)]

    def _own(self, tensor):
        if self._host:
            return tensor.to(self.device)    # waits for the copy, because the slot's memory is not pinned
        return tensor.clone() if self.clone else tensor


class Dataset(data.Dataset):
    """A map-style data set: dataset[i] is a tensor with the bytes of items[i]. If a DataLoader asks for a list
    of items, one fill reads all of them. With device "cpu" the data set may be used in workers; each worker
    has a connection of its own. transform: a function that is applied to each tensor."""

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
