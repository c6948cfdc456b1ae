"""PlannedSampler tells Penstock the order of each epoch: a data set that is read by boto3 comes ahead of its reads, each object
once, in the sampler's order. With torch: the same by the workers of a DataLoader, and with s3torchconnector's data set."""
import dataclasses

from harness import *

SIZE, COUNT = 32 * 1024, 240


def script():
    """Runs in another process, with boto3: argv has the folder of the package, the way, and the pace of a reader in seconds."""
    sys.path.insert(0, sys.argv[1])
    import logging

    import boto3
    from botocore.config import Config

    import penstock
    from penstock.follow import PlannedSampler
    logging.basicConfig(level=logging.WARNING)

    @dataclasses.dataclass
    class Pile:
        """A map-style data set, as programs have it: it knows nothing of Penstock."""
        pace: float

        def __post_init__(self):
            self.s3 = None

        def __len__(self):
            return COUNT

        def __getitem__(self, index):
            if not self.s3:    # one in each worker
                self.s3 = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"], config=Config(s3={"addressing_style": "path"}))
            answer = self.s3.get_object(Bucket="pile", Key=f"part/{index}")
            body = answer["Body"].read()
            time.sleep(self.pace)
            right = body == expect(f"pile/part/{index}", 1, 0, SIZE)
            return index, right, answer["ResponseMetadata"]["HTTPHeaders"].get("x-cache") == "HIT"

    class Shuffled:
        """A sampler with another order in each epoch."""
        epoch = 0

        def __len__(self):
            return COUNT

        def set_epoch(self, epoch):
            self.epoch = epoch

        def __iter__(self):
            return iter(random.Random(self.epoch).sample(range(COUNT), COUNT))

    def last_report(follow):
        """A read counts a moment after its last byte."""
        for _ in range(300):
            report = follow.report()
            if report["state"] != "running":
                break
            time.sleep(0.1)
        return report

    def connector_pile(pace):
        """s3torchconnector's data set of the same objects. It numbers them as a list of the bucket does."""
        from s3torchconnector import S3ClientConfig, S3MapDataset

        def row(reader):
            time.sleep(pace)
            right = reader.read() == expect(f"pile/{reader.key}", 1, 0, SIZE)
            return names.index(reader.key), right, None    # it does not show the heads of answers
        return S3MapDataset.from_prefix("s3://pile/part/", region="us-east-1", endpoint=os.environ["AWS_ENDPOINT_URL"], transform=row,
                                        s3client_config=S3ClientConfig(force_path_style=True))

    client, pace, names = penstock.connect(""), float(sys.argv[3]), [f"part/{index}" for index in range(COUNT)]
    pile = Pile(pace)
    if sys.argv[2] == "s3torchconnector":
        names, pile = sorted(names), connector_pile(pace)
    sampler = PlannedSampler(Shuffled(), client, "pile", lambda index: names[index], window=64 * SIZE)
    told = []
    for epoch in range(2):
        sampler.set_epoch(epoch)
        if sys.argv[2] == "plain":
            rows = [pile[index] for index in sampler]
        else:
            from torch.utils.data import DataLoader
            rows = [row for batch in DataLoader(pile, sampler=sampler, batch_size=8, num_workers=2, collate_fn=list) for row in batch]
        report = last_report(sampler.follow) if sampler.follow else None
        told.append({"order": [row[0] for row in rows] == list(Shuffled.__iter__(sampler.sampler)), "right": sum(row[1] for row in rows),
                     "hits": sum(bool(row[2]) for row in rows), "report": report})
    for index in sampler:    # an epoch that is broken off
        break
    del index
    time.sleep(0.1)
    print(json.dumps({"epochs": told, "left": sampler.follow is not None}))


def tell(server, python, way, env=None):
    status, out, err = run([python, __file__, "script", os.path.join(ROOT, "src", "client", "python"), way, "0.004"],
                           {**server.client_env(), "PYTHONPATH": "", "PYTHONWARNINGS": "ignore", **(env or {})}, seconds=100)
    if status:
        raise Wrong(f"{way}: {err[-2000:]}")
    return json.loads(out), err


def check_epochs(story, origin, server, python, way):
    told, err = tell(server, python, way)
    for number, epoch in enumerate(told["epochs"], 1):
        report = epoch["report"]
        story.same(f"{way}, epoch {number}: in the sampler's order, with the right bytes", (epoch["order"], epoch["right"]), (True, COUNT))
        story.same(f"{way}, epoch {number}: all items are brought, and read", (report["state"], report["objects"], report["read"], report["failed"]),
                   ("done", COUNT, COUNT, 0))
    first = told["epochs"][0]
    if way != "s3torchconnector":
        story.fact(f"{way}: reads of the first epoch find the objects in the cache", first["hits"] >= 0.7 * COUNT, first)
        story.same(f"{way}: the second epoch is all hits", told["epochs"][1]["hits"], COUNT)
    story.fact(f"{way}: the job brings almost all", first["report"]["fetched"] >= 0.7 * COUNT and
               first["report"]["fetched"] + first["report"]["hits"] + first["report"]["skipped"] == COUNT, first)
    story.same(f"{way}: the origin sends each object once", (origin.totals()["get"], origin.totals()["bytes"]), (COUNT, COUNT * SIZE))
    story.same(f"{way}: an epoch that is broken off has no job left", (told["left"], err), (False, ""))


if sys.argv[1:2] == ["script"]:
    del sys.argv[1]
    script()
    sys.exit()

with Story("j08 PlannedSampler", seconds=240) as story:
    origin = story.origin(f"objects=pile/part/%d {COUNT} {SIZE}")
    origin.tell("match=*", "first_byte_ms=30")
    server = story.penstock(origin=origin.url, freshness="immutable")
    check_epochs(story, origin, server, tool("python3"), "plain")

    def purge():
        story.same("(purged)", server.client.ask("POST", "pile", [("penstock-purge", ""), ("prefix", "")]).status, 200)
        origin.reset()
        origin.tell("match=*", "first_byte_ms=30")

    origin.tell("reset=rules")
    told, err = tell(server, tool("python3"), "plain", {"AWS_ENDPOINT_URL": origin.url})
    story.fact("without a Penstock the epochs go on, and a warning says why", [epoch["right"] for epoch in told["epochs"]] == [COUNT, COUNT] and
               "Penstock does not bring" in err, (told, err[-500:]))
    torch = [path for path in glob.glob(os.path.join(TOOLS, "torch-*", ".whole"))
             if run([os.path.join(os.path.dirname(path), "bin", "python3"), "-c", "import boto3"])[0] == 0]
    if torch:
        for way in ("DataLoader", "s3torchconnector"):
            purge()
            check_epochs(story, origin, server, os.path.join(os.path.dirname(torch[0]), "bin", "python3"), way)
    else:
        story.note("skipped: torch with boto3 (scripts/tools torch installs it)")
