"""With torch: the loader's batches are those of a plain DataLoader over S3 GET, by each way that bytes
take to the host's memory; tensors are the buffer's own memory, and keep it. The loader tells its order."""
import subprocess

from harness import *

SMALL, COUNT, BATCH = 3000, 90, 8
ODD = [1 + i * 997 % 5000 for i in range(COUNT)]


def found():
    venvs = sorted(glob.glob(os.path.join(TOOLS, "torch-*", ".whole")), key=os.path.getmtime)
    if not venvs:
        raise Skip("torch is not installed: run scripts/tools torch")
    return os.path.join(os.path.dirname(venvs[-1]), "bin", "python3")


def main():
    with Story("x13 batches as tensors", 180) as story:
        python = found()
        origin = story.origin(f"objects=data/same/%03d {COUNT} {SMALL}",
                              *[f"object=data/odd/{i:03} {size}" for i, size in enumerate(ODD)],
                              *[f"objects=data/{name}/%03d {COUNT} {SMALL}" for name in ("told", "cut")],
                              "match=data/told/*", "first_byte_ms=20")
        path = story.path("fill.sock")
        server = story.penstock(origin=origin.url, fill_socket=path)
        env = {n: v for n, v in {**os.environ, **server.client_env()}.items() if n != "PENSTOCK_DEBUG"}
        env.update(PENSTOCK_FILL_SOCKET=path, ORIGIN_URL=origin.url, PYTHONDONTWRITEBYTECODE="1", PYTHONWARNINGS="ignore",
                   PYTHONPATH=os.path.join(ROOT, "src", "client", "python"))
        done = subprocess.run([python, __file__, "inside"], env=env, capture_output=True, text=True, timeout=150)
        lines = done.stdout.splitlines()
        for line in lines:
            verdict, _, text = line.partition(" ")
            if verdict in ("ok", "WRONG"):
                story.fact(text, verdict == "ok")
        story.fact("it went to its end", done.returncode == 0 and lines[-1:] == ["end"],
                   f"{done.returncode}: {done.stderr[-3000:]}")
        story.same("with its order told, a cold epoch has each object come once",
                   [origin.counts(f"data/told/{i:03}")["get"] for i in range(COUNT)], [1] * COUNT)


# ---- what follows runs where torch is ----

def say(text, holds):
    print("ok" if holds else "WRONG", text, flush=True)


def plain_batches(torch, keys, shape):
    """Of a DataLoader that GETs."""
    import boto3
    from torch.utils import data
    s3 = boto3.client("s3")

    class Objects(data.Dataset):
        def __len__(self):
            return len(keys)

        def __getitem__(self, i):
            body = bytearray(s3.get_object(Bucket="data", Key=keys[i])["Body"].read())
            return torch.frombuffer(body, dtype=torch.uint8).view(shape or (-1,))
    sampler = data.BatchSampler(data.SequentialSampler(Objects()), BATCH, False)
    batches = [[keys[i] for i in batch] for batch in sampler]
    collate = None if shape else list
    return batches, list(data.DataLoader(Objects(), batch_sampler=sampler, collate_fn=collate))


def equal(torch, got, want):
    return len(got) == len(want) and all(
        torch.equal(a, b) if torch.is_tensor(a) else len(a) == len(b) and all(map(torch.equal, a, b))
        for a, b in zip(got, want))


def loaders(torch, penstock):
    from penstock.torch import GpuBatchLoader
    same = plain_batches(torch, [f"same/{i:03}" for i in range(COUNT)], (3, 1000))
    odd = plain_batches(torch, [f"odd/{i:03}" for i in range(COUNT)], None)
    for name, client in (("the fill socket", penstock.connect()), ("HTTP", penstock.connect(""))):
        for (batches, want), shape in ((same, (3, 1000)), (odd, None)):
            what = "of one shape" if shape else "of any length"
            loader = GpuBatchLoader(client, "data", batches, shape=shape, device="cpu")
            say(f"batches {what} over {name} ({loader.way}) are a plain DataLoader's",
                equal(torch, list(loader), want) and equal(torch, list(loader), want))
    client = penstock.connect("")
    client._endpoint._way = "get"
    loader = GpuBatchLoader(client, "data", same[0], shape=(3, 1000), device="cpu")
    say(f"and by single objects ({loader.way}), from an endpoint that knows no batches", equal(torch, list(loader),
                                                                                              same[1]))
    client = penstock.connect()
    batches, want = same
    loader = GpuBatchLoader(client, "data", batches, shape=(3, 1000), device="cpu", clone=False, depth=2)
    kept, good = [], True
    for got, expected in zip(loader, want):
        good = good and torch.equal(got, expected)
        kept.append(got)
    say("without clones each is right as long as it is the latest", good)
    os.environ["PENSTOCK_DEBUG"] = "1"
    loader = GpuBatchLoader(client, "data", batches, shape=(3, 1000), device="cpu", clone=False)
    say("PENSTOCK_DEBUG=1 overwrites one that was kept", bool((list(loader)[-1] == 0xDB).all()))
    del os.environ["PENSTOCK_DEBUG"]
    bfloat = GpuBatchLoader(client, "data", batches, dtype="bfloat16", shape=(1500,), device="cpu")
    say("any dtype is a view of the bytes", all(torch.equal(a.view(torch.uint8), b.view(len(b), 3000))
                                                for a, b in zip(bfloat, want)))
    broken = [*batches[:2], ["same/000", "nope"], *batches[2:]]
    got = []
    try:
        for batch in GpuBatchLoader(client, "data", broken, shape=(3, 1000), device="cpu"):
            got.append(batch)
    except penstock.PenstockError as failure:
        say("a key that is missing ends the epoch, by name", failure.errors[0].key == "nope"
            and equal(torch, got, want[:2]))
    for shape, code in (((2999,), "too_large"), ((3001,), "wrong_length")):
        try:
            list(GpuBatchLoader(client, "data", batches, shape=shape, device="cpu"))
        except penstock.PenstockError as failure:
            say(f"an object that is not of the shape is {code}, never a part of it", failure.code == code)
    skipping = GpuBatchLoader(client, "data", broken, device="cpu", on_error="skip")
    lengths = [[len(item) for item in batch] for batch in skipping]
    say("or is an empty tensor, if told so", lengths[2] == [3000, 0] and len(lengths) == len(broken)
        and skipping.errors[0].code == "NoSuchKey")


def lists(torch, penstock):
    import json
    import logging

    from penstock.follow import log
    from penstock.torch import GpuBatchLoader
    warnings = []
    kept = logging.Handler()
    kept.emit = lambda record: warnings.append(record.getMessage())
    log.addHandler(kept)
    order = random.Random(1).sample(range(COUNT), COUNT)
    keys = [f"told/{i:03}" for i in order]
    batches = [keys[i:i + BATCH] for i in range(0, COUNT, BATCH)]
    client = penstock.connect()

    def report(id):
        return json.loads(client.request("GET", "/data", [("penstock-job", id)])[2])

    def loader_of(batches, client=client, **more):
        return GpuBatchLoader(client, "data", batches, shape=(3, 1000), device="cpu", **more)
    loader, want, told = loader_of(batches), [], []
    for epoch in range(1, 7):
        got, jobs = [], set()
        for batch in loader:
            got.append(batch)
            jobs.add(loader.follow and loader.follow.id)
            time.sleep(0.01)
        want = want or got
        say(f"epoch {epoch}: the batches are whole", equal(torch, got, want)
            and [len(batch) for batch in got] == [len(batch) for batch in batches])
        say(f"epoch {epoch} has one job or none, which is over with the epoch", len(jobs) == 1 and loader.follow is None)
        told.append(jobs.pop())
        end = told[-1] and report(told[-1])
        if end:
            say(f"epoch {epoch}: the job has the order, and sees reads: {end['read']} of {end['listed']}",
                end["listed"] == COUNT and end["state"] in ("done", "canceled") and end["read"] > 0)
    say(f"the first epoch has a job, and some of the warm ones have none: {told}", told[0] and 1 <= told.count(None) <= 4
        and any(told[1:]))
    loader = loader_of([[key.replace("told", "cut") for key in batch] for batch in batches], window=20 * SMALL)
    for batch in loader:
        id = loader.follow.id
        break
    del batch
    say("an epoch that is broken off has no job left", loader.follow is None and report(id)["state"] == "canceled")
    quiet = [loader_of(iter(batches)), loader_of(batches, follow=False)]
    for loader in quiet:
        say("no order is told", all(loader.follow is None for _ in loader))
    say("a Penstock that takes lists gets no warning", not warnings)
    foreign = penstock.connect(endpoint_url=os.environ["ORIGIN_URL"])
    nowhere = penstock.connect(endpoint_url="http://127.0.0.1:1")
    secret = [os.environ["AWS_SECRET_ACCESS_KEY"]]
    wrong = penstock.connect(credentials=lambda: (os.environ["AWS_ACCESS_KEY_ID"], *secret, None))
    secret[0] = "wrong"    # the fill socket has taken the right one
    for text, other in (("a server that has no jobs", foreign), ("no server", nowhere), ("wrong credentials", wrong)):
        warnings.clear()
        loader = loader_of(batches, other)
        right = [equal(torch, list(loader), want) for _ in range(2)]
        say(f"{text}: two epochs are right, with one warning: {'; '.join(warnings)[:160]}",
            all(right) and len(warnings) == 1)


def datasets(torch, penstock):
    from penstock.torch import Dataset, GpuBatchLoader
    from torch.utils import data
    keys = [f"same/{i:03}" for i in range(COUNT)]
    batches, want = plain_batches(torch, keys, (3, 1000))
    dataset = Dataset(penstock.connect(), "data", keys, shape=(3, 1000), slot_bytes=1 << 20)
    say("a data set has one sample", torch.equal(dataset[5], want[0][5]))
    for workers in (0, 2):
        loader = data.DataLoader(dataset, batch_size=BATCH, num_workers=workers)
        say(f"and is a DataLoader's with {workers} workers", equal(torch, list(loader), want))

    class Wrong(data.Dataset):
        def __len__(self):
            return 1

        def __getitem__(self, i):
            try:
                GpuBatchLoader(None, "data", [], device="cuda:0")
            except RuntimeError as failure:
                return int("num_workers=0" in str(failure))
            return 0
    say("a GPU in a worker is refused with a hint", next(iter(data.DataLoader(Wrong(), num_workers=1))).item() == 1)


def lifetimes(torch, penstock):
    import gc
    client = penstock.connect()
    buffer = client.buffer(1 << 20)
    filled = client.fill(buffer, "data", [("same/000", 0, 3000, 0), ("same/001", 0, 3000, 4096)])
    tensor = buffer.tensor("uint8", (3, 1000), 4096)
    say("a tensor is the buffer's memory", tensor.data_ptr() == buffer.span(4096).address)
    buffer.memory[4096] = 77
    tensor[0, 1] = 78
    say("what is written here is seen there", (tensor[0, 0].item(), buffer.memory[4097]) == (77, 78))
    wide = torch.from_dlpack(buffer)
    say("a whole buffer goes by DLPack, too", wide.numel() == 1 << 20 and wide.dtype == torch.uint8)
    capsule = buffer.__dlpack__(max_version=(1, 0)), buffer.__dlpack__()
    from penstock import dlpack
    count = len(dlpack.held)
    del capsule
    say("a capsule that nobody took lets go", len(dlpack.held) == count - 2)
    del wide
    want = tensor.clone()
    buffer.close()
    client.close()
    del buffer, filled, client
    gc.collect()
    say("memory lives until its last tensor dies", torch.equal(tensor, want) and len(dlpack.held) == 1)
    del tensor
    say("and no longer", not dlpack.held)
    global left
    left = penstock.connect().buffer(4096).tensor()    # alive as the interpreter ends


def inside():
    import torch
    import penstock
    loaders(torch, penstock)
    lists(torch, penstock)
    datasets(torch, penstock)
    lifetimes(torch, penstock)
    print("end", flush=True)


if __name__ == "__main__":
    inside() if sys.argv[1:] == ["inside"] else main()
