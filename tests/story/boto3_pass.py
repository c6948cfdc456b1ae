"""One pass of boto3 over known objects, for stories. SPDX-License-Identifier: Apache-2.0

Arguments: bucket, a JSON file {key: sha256}, threads, folder of the originals, and ranges a large
object. Each object is read whole and summed; of those of 5 MiB or more, random ranges are compared
with the original. Asks for no list. Prints a JSON line: objects, bytes, ranges, wrong keys."""
import hashlib
import json
import os
import random
import sys
from concurrent.futures import ThreadPoolExecutor

import boto3
from botocore.config import Config

bucket, sums, threads, originals, ranges = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4], int(sys.argv[5])
with open(sums) as f:
    sums = json.load(f)
s3 = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"],
                  config=Config(s3={"addressing_style": "path"}, max_pool_connections=threads,
                                retries={"max_attempts": 1}))


def read(key):
    digest, count = hashlib.sha256(), 0
    for piece in s3.get_object(Bucket=bucket, Key=key)["Body"].iter_chunks(1 << 20):
        digest.update(piece)
        count += len(piece)
    return count, digest.hexdigest() == sums[key]


def read_ranges(key):
    path = os.path.join(originals, key)
    size, right = os.path.getsize(path), True
    with open(path, "rb") as f:
        for _ in range(ranges):
            first = random.randrange(size)
            last = min(size - 1, first + random.randrange(4 << 20))
            got = s3.get_object(Bucket=bucket, Key=key,
                                Range=f"bytes={first}-{last}")["Body"].read()
            f.seek(first)
            right = right and got == f.read(last - first + 1)
    return right


def one(key):
    try:
        large = os.path.getsize(os.path.join(originals, key)) >= 5 << 20
        right = not large or not ranges or read_ranges(key)
        count, same = read(key)
        return count, right and same, ranges if large else 0, ""
    except Exception as failure:    # noqa: BLE001 (reported)
        return 0, False, 0, f"{type(failure).__name__}: {failure}"


with ThreadPoolExecutor(threads) as pool:
    keys = sorted(sums, key=lambda k: random.random())
    results = dict(zip(keys, pool.map(one, keys)))
print(json.dumps({"objects": len(results), "bytes": sum(r[0] for r in results.values()),
                  "ranges": sum(r[2] for r in results.values()),
                  "wrong": [f"{k} {r[3]}" for k, r in results.items() if not r[1]]}))
