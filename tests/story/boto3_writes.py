"""boto3_writes.py - bodies of every size written with whatever boto3 the running Python has, by
put_object and by upload_file. Helper of a story: prints "ok ..." and "WRONG ..." lines.
SPDX-License-Identifier: Apache-2.0

    boto3_writes.py BUCKET PREFIX FILE ..."""
import os
import sys

import boto3
from botocore.config import Config

bucket, prefix, files = sys.argv[1], sys.argv[2], sys.argv[3:]
s3 = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"],
                  config=Config(signature_version="s3v4", retries={"max_attempts": 0},
                                read_timeout=20))
for path in files:
    name = os.path.basename(path)
    try:
        with open(path, "rb") as f:
            s3.put_object(Bucket=bucket, Key=f"{prefix}put/{name}", Body=f)
        s3.upload_file(path, bucket, f"{prefix}upload/{name}")
        print(f"ok   boto3 {boto3.__version__} writes {name}", flush=True)
    except Exception as failure:    # noqa: BLE001 (it is the finding)
        print(f"WRONG boto3 {boto3.__version__} writes {name}: {failure}", flush=True)
