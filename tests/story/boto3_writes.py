"""boto3_writes.py - bodies of every size written with whatever boto3 the running Python has, by
put_object, with each checksum it can make, and by upload_file. Helper of a story: prints "ok ..." and "WRONG ..." lines.
SPDX-License-Identifier: Apache-2.0

    boto3_writes.py BUCKET PREFIX FILE ...

ORIGIN_IS_MUTE=1: it takes checksums, and says none in its answers (radosgw)."""
import base64
import hashlib
import importlib.util
import os
import sys
import zlib

import boto3
from botocore import httpchecksum
from botocore.config import Config

bucket, prefix, files = sys.argv[1], sys.argv[2], sys.argv[3:]
s3 = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"],
                  config=Config(signature_version="s3v4", retries={"max_attempts": 0},
                                read_timeout=60))
SUMS = {"CRC32": lambda data: zlib.crc32(data).to_bytes(4, "big"), "SHA1": lambda data: hashlib.sha1(data).digest(),
        "SHA256": lambda data: hashlib.sha256(data).digest()}
if importlib.util.find_spec("awscrt"):
    SUMS["CRC32C"] = None
    if hasattr(httpchecksum, "CrtCrc64NvmeChecksum"):
        SUMS["CRC64NVME"] = None


def put_with(algorithm, key, data):
    """The origin's echo is what the client would compute."""
    reply = s3.put_object(Bucket=bucket, Key=key, Body=data, ChecksumAlgorithm=algorithm)
    echo = reply.get(f"Checksum{algorithm}", "")
    if os.environ.get("ORIGIN_IS_MUTE") and not echo:
        return
    if not echo or SUMS[algorithm] and echo != base64.b64encode(SUMS[algorithm](data)).decode():
        raise ValueError(f"the answer says Checksum{algorithm} {echo!r}")


for path in files:
    name = os.path.basename(path)
    try:
        with open(path, "rb") as f:
            s3.put_object(Bucket=bucket, Key=f"{prefix}put/{name}", Body=f)
        for algorithm in SUMS:
            with open(path, "rb") as f:
                put_with(algorithm, f"{prefix}{algorithm}/{name}", f.read())
        s3.upload_file(path, bucket, f"{prefix}upload/{name}")
        print(f"ok   boto3 {boto3.__version__} writes {name}", flush=True)
    except Exception as failure:    # noqa: BLE001 (it is the finding)
        print(f"WRONG boto3 {boto3.__version__} writes {name}: {failure}", flush=True)
