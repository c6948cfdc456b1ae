"""boto3, of any age. SPDX-License-Identifier: Apache-2.0"""
import boto3
from botocore.config import Config

from sequence import main


class Client:
    def __init__(self, told):
        style = {"path": "path", "host": "virtual"}[told["style"]]
        self.bucket = told["bucket"]
        self.s3 = boto3.client("s3", endpoint_url=told["url"],
                               config=Config(s3={"addressing_style": style},
                                             signature_version="s3v4",
                                             retries={"max_attempts": 1}))

    def put(self, path, key):
        if "small" in key:
            with open(path, "rb") as f:
                self.s3.put_object(Bucket=self.bucket, Key=key, Body=f)
        else:
            self.s3.upload_file(path, self.bucket, key)

    def get(self, key, path):
        self.s3.download_file(self.bucket, key, path)

    def part(self, key, path, first, last):
        with open(path, "wb") as f:
            f.write(self.s3.get_object(Bucket=self.bucket, Key=key,
                                       Range=f"bytes={first}-{last}")["Body"].read())

    def size(self, key):
        return self.s3.head_object(Bucket=self.bucket, Key=key)["ContentLength"]

    def copy(self, key, to):
        self.s3.copy_object(Bucket=self.bucket, Key=to,
                            CopySource={"Bucket": self.bucket, "Key": key})

    def delete(self, key):
        self.s3.delete_objects(Bucket=self.bucket, Delete={"Objects": [{"Key": key}]})

    def names(self, prefix):
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=self.bucket,
                                                                  Prefix=prefix)
        return [o["Key"] for page in pages for o in page.get("Contents", [])]

    def presign(self, key):
        return self.s3.generate_presigned_url("get_object",
                                              Params={"Bucket": self.bucket, "Key": key})


main(Client)
