"""throttle.py - a disk that hardly reads, for the processes that a story chooses. SPDX-License-Identifier: Apache-2.0"""
import os
import time

from harness import Skip


class Throttle:
    """A cgroup of version 1 or 2 whose reads of one disk are slow, if told."""

    def __init__(self, folder):
        device = os.stat(folder).st_dev
        self.disk = f"{os.major(device)}:{os.minor(device)}"
        for tree, self.file, self.form in (("/sys/fs/cgroup/blkio", "blkio.throttle.read_bps_device", "{} {}"),
                                           ("/sys/fs/cgroup", "io.max", "{} rbps={}")):
            self.folder = os.path.join(tree, f"penstock-story-{os.getpid()}")
            try:
                if self.file == "io.max":
                    self.write(os.path.join(tree, "cgroup.subtree_control"), "+io")
                os.mkdir(self.folder)
                self.slow(True)
                return
            except OSError as failure:
                why = failure
                self.end()
        raise Skip(f"no cgroup can make a disk slow here: {why}")

    @staticmethod
    def write(path, text):
        with open(path, "w") as f:
            f.write(text)

    def slow(self, on, rate=50_000):    # bytes a second
        none = "max" if self.file == "io.max" else 0
        self.write(os.path.join(self.folder, self.file), self.form.format(self.disk, rate if on else none))

    def enter(self, pid):
        self.write(os.path.join(self.folder, "cgroup.procs"), str(pid))

    def end(self):
        for _ in range(100 if os.path.isdir(self.folder) else 0):
            try:
                return os.rmdir(self.folder)
            except OSError:    # its last process is still ending
                time.sleep(0.05)
