"""jobs.py - requests for jobs. SPDX-License-Identifier: Apache-2.0"""
from harness import *


class Jobs:
    """The jobs of one bucket, as one client asks for them."""

    def __init__(self, client, bucket="pile"):
        self.client, self.bucket = client, bucket

    def ask(self, method, id="", body=b""):
        return self.client.ask(method, self.bucket, query=[("penstock-job", id)], body=body)

    def start(self, **job):
        """Returns the id of a job that was started."""
        lines = job.pop("lines", ())
        body = "\n".join([json.dumps(job), *map(json.dumps, lines)]).encode()
        reply = self.known("POST", body=body)
        if reply.status != 202:
            raise Wrong(f"a job is refused: {reply} {reply.body.decode()}")
        return json.loads(reply.body)["id"]

    def refused(self, body):
        reply = self.ask("POST", body=body if isinstance(body, bytes) else json.dumps(body).encode())
        return reply.status, re.search(rb"<Code>(\w+)", reply.body).group(1).decode(), reply.body.decode()

    def known(self, method, id="", body=b""):
        """An answer. It is 503 SlowDown after the daemon's start, until the states of jobs were read."""
        def answered():
            reply = self.ask(method, id, body)
            return reply.status != 503 and reply
        return wait_for("the states of jobs were read", answered)

    def read(self, id=""):
        """A report, or the list."""
        return self.known("GET", id)

    def report(self, id):
        reply = self.read(id)
        if reply.status != 200:
            raise Wrong(f"no report: {reply} {reply.body.decode()}")
        return json.loads(reply.body)

    def list(self):
        return [json.loads(line) for line in self.read().body.splitlines()]

    def ended(self, id, seconds=PATIENCE):
        """The report of a job, when it has ended."""
        return wait_for(f"job {id} ends", lambda: (r := self.report(id))["state"] != "running" and r, seconds)

    def run(self, **job):
        return self.ended(self.start(**job))


def read_objects(client, numbers, size, pace):
    """Reads these objects of the bucket pile as a program does that computes something between two reads, for `pace` seconds.
    Returns how many were hits."""
    hits = 0
    for n in numbers:
        reply = client.ask("GET", f"pile/{n}")
        if reply.status != 200 or reply.body != expect(f"pile/{n}", 1, 0, size):
            raise Wrong(f"{n}: {reply}")
        hits += reply.cache == "hit"
        time.sleep(pace)
    return hits


def rests(origin):
    """The bytes that the origin has sent, once it sends no more."""
    def same():
        before = origin.totals()["bytes"]
        time.sleep(0.5)
        return origin.totals()["bytes"] == before and before + 1
    return wait_for("the origin has nothing to send", same) - 1


def sums(report):
    """objects, hits, fetched, failed, not_kept"""
    return tuple(report[name] for name in ("objects", "hits", "fetched", "failed", "not_kept"))
