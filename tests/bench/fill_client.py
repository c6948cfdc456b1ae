"""fill_client.py - one client, reading what it is told for as long as it is told. SPDX-License-Identifier:
Apache-2.0

    fill_client.py KIND '{"url": ..., "keys": [...], "bytes": N, "batch": N, "threads": N, "socket": ...}'

A line "SECONDS" on stdin is a run; its answer is a line of JSON. KIND: penstock, boto3, crt (what
s3torchconnector reads with). Each in an environment of its own; all end up with the bytes in memory.
"""
import concurrent.futures
import json
import sys
import time


def in_turn(keys):
    """Shuffled once; for ever."""
    import random
    random.Random(1).shuffle(keys)
    while True:
        yield from keys


def by_penstock(told):
    """Two buffers in turn: one is filled while the other is used."""
    import collections
    import penstock
    client = penstock.connect(told["socket"])
    size, batch = told["bytes"], told["batch"]
    ring = client.ring("cpu", 2, size * batch)
    keys = in_turn(told["keys"])
    waiting = collections.deque()

    def begin():
        waiting.append(ring.fill("bench", [(next(keys), 0, size) for _ in range(batch)]))

    def run(until):
        count = 0
        begin()
        while time.monotonic() < until:
            begin()
            with waiting.popleft() as slot:
                count += len(slot.lengths)
        with waiting.popleft() as slot:
            return count + len(slot.lengths)
    return run


def by_boto3(told):
    import boto3
    s3 = boto3.client("s3")
    keys = in_turn(told["keys"])

    def run(until):
        count = 0
        while time.monotonic() < until:
            s3.get_object(Bucket="bench", Key=next(keys))["Body"].read()
            count += 1
        return count
    return run


def by_crt(told):
    from s3torchconnectorclient._mountpoint_s3_client import MountpointS3Client
    s3 = MountpointS3Client(region="us-east-1", endpoint=told["url"], force_path_style=True)
    keys, pool = in_turn(told["keys"]), concurrent.futures.ThreadPoolExecutor(told["threads"])

    def get(key):
        assert sum(map(len, s3.get_object("bench", key, start=0, end=told["bytes"]))) == told["bytes"]

    def some(until, mine):
        count = 0
        while time.monotonic() < until:
            get(mine[count % len(mine)])
            count += 1
        return count

    def run(until):
        shares = [told["keys"][i::told["threads"]] for i in range(told["threads"])]
        return sum(pool.map(lambda mine: some(until, mine or told["keys"]), shares))
    next(keys)
    return run


def latency(told):
    """One item at a time; microseconds of each."""
    import penstock
    client = penstock.connect(told["socket"])
    buffer = client.buffer(told["bytes"])
    keys = in_turn(told["keys"])

    def run(until):
        took = []
        while time.monotonic() < until:
            items = [(next(keys), 0, told["bytes"], 0)]
            began = time.perf_counter()
            client.fill(buffer, "bench", items)
            took.append((time.perf_counter() - began) * 1e6)
        return sorted(took)
    return run


# ---- epochs of torch batches: a run is one, however long ----

def batches_of(told):
    import random
    keys = list(told["keys"])
    random.shuffle(keys)
    return [keys[i:i + told["batch"]] for i in range(0, len(keys), told["batch"])]


def count_of(batches, told):
    count = 0
    for batch in batches:
        count += len(batch)
    assert batch.shape[1] == told["bytes"]
    return count


def by_loader(told):
    import penstock
    from penstock.torch import GpuBatchLoader
    client = penstock.connect(told["socket"])
    loader = GpuBatchLoader(client, "bench", [], shape=(told["bytes"],), device="cpu")

    def run(_):
        loader.batches = batches_of(told)
        return count_of(loader, told)
    return run


def by_dataset(dataset, workers, told):
    import os
    import torch
    from torch.utils import data
    how = {"num_workers": len(os.sched_getaffinity(0)), "persistent_workers": True,
           "multiprocessing_context": "fork"} if workers else {}
    loader = data.DataLoader(dataset, batch_size=told["batch"], shuffle=True,
                             collate_fn=lambda bodies: torch.stack(bodies), **how)
    return lambda _: count_of(loader, told)


def dataset_of_boto3(told):
    import boto3
    import torch

    class Objects(torch.utils.data.Dataset):
        s3 = None

        def __len__(self):
            return len(told["keys"])

        def __getitem__(self, i):
            self.s3 = self.s3 or boto3.client("s3")
            body = self.s3.get_object(Bucket="bench", Key=told["keys"][i])["Body"].read()
            return torch.frombuffer(bytearray(body), dtype=torch.uint8)
    return Objects()


def dataset_of_s3torch(told):
    import torch
    from s3torchconnector import S3ClientConfig, S3MapDataset
    return S3MapDataset.from_objects(
        [f"s3://bench/{key}" for key in told["keys"]], region="us-east-1", endpoint=told["url"],
        s3client_config=S3ClientConfig(force_path_style=True),
        transform=lambda one: torch.frombuffer(bytearray(one.read()), dtype=torch.uint8))


def main():
    kinds = {"penstock": by_penstock, "boto3": by_boto3, "crt": by_crt, "latency": latency, "loader": by_loader}
    for name, dataset in (("set-boto3", dataset_of_boto3), ("set-s3torch", dataset_of_s3torch)):
        for workers in (False, True):
            kinds[name + "-workers" * workers] = (
                lambda told, d=dataset, w=workers: by_dataset(d(told), w, told))
    run = kinds[sys.argv[1]](json.loads(sys.argv[2]))
    print("ready", flush=True)
    for line in sys.stdin:
        began = time.monotonic()
        got = run(began + float(line))
        print(json.dumps({"got": got, "seconds": time.monotonic() - began}), flush=True)


if __name__ == "__main__":
    main()
