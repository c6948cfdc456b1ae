"""What a boto3 user does, for stories that run it under one Python or another.
SPDX-License-Identifier: Apache-2.0

Arguments: bucket, prefix, then "name:sha256" of every object there. Prints "ok ..." lines; exits 1
at the first that is wrong. Endpoint and keys come from the environment, as a user would have
them."""
import hashlib
import os
import sys

import boto3
import botocore
from botocore.config import Config
from botocore.exceptions import ClientError

bucket, prefix, *wanted = sys.argv[1:]
wanted = dict(item.rsplit(":", 1) for item in wanted)


def sure(text, holds, detail=""):
    print("ok" if holds else "WRONG", text, "" if holds else detail)
    if not holds:
        sys.exit(1)


# Releases before 1.28 do not read AWS_ENDPOINT_URL.
s3 = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"],
                  config=Config(s3={"addressing_style": "path"}))
print("ok this is boto3", boto3.__version__, "on botocore", botocore.__version__)
keys = [o["Key"] for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket,
                                                                          Prefix=prefix)
        for o in page.get("Contents", [])]
sure("a paginated listing shows every key", sorted(keys) == sorted(wanted), f"{len(keys)} keys")
for turn in ("first", "second"):
    bad = [k for k in keys
           if hashlib.sha256(s3.get_object(Bucket=bucket,
                                           Key=k)["Body"].read()).hexdigest() != wanted[k]]
    sure(f"{turn} pass: every SHA-256 is right", not bad, bad[:5])
key = max(keys, key=lambda k: s3.head_object(Bucket=bucket, Key=k)["ContentLength"])
whole = s3.get_object(Bucket=bucket, Key=key)["Body"].read()
part = s3.get_object(Bucket=bucket, Key=key, Range="bytes=100-299")
sure("a range", part["Body"].read() == whole[100:300]
     and part["ContentRange"] == f"bytes 100-299/{len(whole)}")
s3.download_file(bucket, key, os.path.join(os.environ["STORY_FOLDER"], "download"))
with open(os.path.join(os.environ["STORY_FOLDER"], "download"), "rb") as f:
    sure("download_file", f.read() == whole)
url = s3.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": key}, ExpiresIn=60)
print("ok presigned URL has", "SigV4" if "X-Amz-Signature" in url else "SigV2")
try:
    s3.get_object(Bucket=bucket, Key="there/is/none")
    sure("a missing key raises", False)
except s3.exceptions.NoSuchKey as failure:
    sure("a missing key raises NoSuchKey with a RequestId",
         failure.response["ResponseMetadata"].get("RequestId"),
         failure.response)
try:
    s3.get_object(Bucket=bucket, Key=key, IfMatch='"0"')
    sure("IfMatch that fails raises", False)
except ClientError as failure:
    sure("IfMatch that fails is 412", failure.response["ResponseMetadata"]["HTTPStatusCode"] == 412,
         failure.response)
