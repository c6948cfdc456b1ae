"""follow.py - the order in which a program will read. SPDX-License-Identifier: Apache-2.0

    with client.follow("train", items):    # in this order
        for item in items:
            ...                             # reads by any client with the same access key: boto3, fills ...

Penstock then brings the items into its cache ahead of the reads (a job with "mode": "follow"; penstock-s3(7)).
A wrong order costs bandwidth, and nothing else.
"""
import json
import logging

from . import items as layout
from .errors import PenstockError
from .http import refusal

log = logging.getLogger("penstock")


class Follow:
    """A list that Penstock follows. `id`: the job's id."""

    def __init__(self, client, bucket, items, prefix="", window=None):
        head = {"mode": "follow", "keys": []}
        if window is not None:
            head["window"] = int(window)
        lines = (line_of(item, prefix) for item in layout.listed(items))
        body = "\n".join(json.dumps(line, separators=(",", ":")) for line in (head, *lines)).encode()
        self._client, self._bucket, self._open = client, bucket, True
        self.id = self._ask("POST", "", 202, body)["id"]

    def _ask(self, method, id, expected, body=b""):
        status, _, answer = self._client.request(method, f"/{self._bucket}", [("penstock-job", id)], (), body)
        if status != expected:
            raise refusal(status, answer)
        return json.loads(answer) if answer else {}

    def report(self):
        """Returns the report of the job, as a dict."""
        return self._ask("GET", self.id, 200)

    def close(self):
        """Ends the job, if it has not ended. May be called again."""
        if self._open:
            self._open = False
            self._ask("DELETE", self.id, 204)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Planned:
    """Tells Penstock the order of each epoch: the base of PlannedSampler and of torch.py's GpuBatchLoader. These have
    the attributes client, bucket, prefix and window. `follow`: the Follow of this epoch, or None."""
    follow = None

    def _tell(self, items):
        self.close()
        try:
            self.follow = self.client.follow(self.bucket, items, self.prefix, self.window) if items else None
        except PenstockError as failure:
            log.warning("Penstock does not bring the objects of this epoch ahead of the reads: %s", failure)

    def close(self):
        """Ends the job of the latest epoch, if it has not ended. The next epoch does this, too."""
        follow, self.follow = self.follow, None
        try:
            if follow:
                follow.close()
        except PenstockError as failure:
            log.warning("Penstock may go on to bring objects of an epoch that is over: %s", failure)


class PlannedSampler(Planned):
    """A sampler that tells Penstock the order of each epoch. It is for a map-style data set that reads through
    Penstock by any client, and needs no torch itself:

        sampler = PlannedSampler(RandomSampler(dataset), client, "train", lambda i: dataset.keys[i])
        for batch in DataLoader(dataset, sampler=sampler, batch_size=32, num_workers=4): ...

    sampler: a sampler, or a batch sampler (then an argument `batch_sampler` of the DataLoader).
    key_of(index): the item that dataset[index] reads (items.py).

    The order is drawn from `sampler` once an epoch, and is not changed. If Penstock can't take the list (it is
    of an older version, or has too many jobs), a warning is logged, and the epoch goes on without it."""

    def __init__(self, sampler, client, bucket, key_of, *, prefix="", window=None):
        self.sampler, self.client, self.bucket, self.key_of = sampler, client, bucket, key_of
        self.prefix, self.window = prefix, window

    def __len__(self):
        return len(self.sampler)

    def __iter__(self):
        order = list(self.sampler)
        indices = (index for drawn in order for index in (drawn if isinstance(drawn, (list, tuple)) else [drawn]))
        self._tell([self.key_of(index) for index in indices])
        try:
            yield from order    # the readers may be behind at the end: the job ends when they are there
        except GeneratorExit:   # the epoch was broken off
            self.close()
            raise

    def set_epoch(self, epoch):
        self.sampler.set_epoch(epoch)


def line_of(item, prefix):
    key, offset, length, _, _ = layout.read(item)
    return layout.word(prefix + key, offset, length, None, None)
