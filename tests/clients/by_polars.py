"""polars, whose S3 is Rust's object_store: tables in Parquet files, as for DuckDB.
SPDX-License-Identifier: Apache-2.0"""
import polars

from sequence import main

PIECE = 100_000


class Client:
    def __init__(self, told):
        self.bucket = told["bucket"]
        url = told["url"]
        if told["style"] == "host":    # object_store wants the bucket in the name
            url = url.replace("://", f"://{self.bucket}.")
        self.options = {"aws_endpoint_url": url, "aws_region": "us-east-1",
                        "aws_access_key_id": told["key"], "aws_secret_access_key": told["secret"],
                        "aws_allow_http": "true",
                        "aws_virtual_hosted_style_request": str(told["style"] == "host").lower()}

    def path(self, key):
        return f"s3://{self.bucket}/{key}"

    def put(self, path, key):
        with open(path, "rb") as f:
            data = f.read()
        pieces = [data[at:at + PIECE] for at in range(0, len(data), PIECE)]
        polars.DataFrame({"i": range(len(pieces)), "piece": pieces}).write_parquet(
            self.path(key), compression="uncompressed", row_group_size=16,
            storage_options=self.options)

    def pieces(self, key, path, which=None):
        frame = polars.scan_parquet(self.path(key), storage_options=self.options)
        frame = frame.filter(which) if which is not None else frame
        with open(path, "wb") as f:
            f.write(b"".join(frame.collect().sort("i")["piece"]))

    def get(self, key, path):
        self.pieces(key, path)

    def part(self, key, path, first, last):
        self.pieces(key, path, polars.col("i").is_between(first // PIECE, last // PIECE))

    def names(self, prefix):
        frame = polars.scan_parquet(self.path(prefix) + "*", storage_options=self.options,
                                    include_file_paths="at")
        return frame.select("at").unique().collect()["at"].to_list()


main(Client)
