"""epochs.py - a training loop's epochs: each object of a data set is read once, in random order.
SPDX-License-Identifier: Apache-2.0"""
import random

from harness import check, expect, wait_for


class Epochs:
    """Epochs over sets of equal objects bucket/SET/NUMBER."""

    def __init__(self, origin, objects, size):
        self.origin, self.objects, self.size = origin, objects, size
        self.order = random.Random(7)

    @staticmethod
    def appended(server):
        """What is written at the end: no more comes for longer than a commit stays open."""
        looks = [None]

        def look():
            looks.append(server.metrics()["penstock_store_appended_bytes_total"])
            return looks[-1] == looks[-2] and looks[-1:]
        return wait_for("all is appended", look, every=0.5)[0]

    def read(self, server, name):
        """Reads each object of a set once. Returns the share of hits, and the share that was written."""
        numbers = list(range(self.objects))
        self.order.shuffle(numbers)
        self.origin.reset()
        before = server.metrics()["penstock_store_appended_bytes_total"]
        for number in numbers:
            key = f"bucket/{name}/{number}"
            check(server.get(key).body == expect(key, 1, 0, self.size), f"{key} has wrong bytes")
        written = self.appended(server) - before
        return 1 - self.origin.counts()["get"] / self.objects, written / (self.objects * self.size)


def told(epochs):
    return ", ".join(f"{hits:.3f} ({written:.3f} written)" for hits, written in epochs)
