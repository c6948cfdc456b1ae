"""pyarrow: Arrow's own S3 file system. SPDX-License-Identifier: Apache-2.0"""
import os
import shutil

from pyarrow import fs

from sequence import main


class Client:
    def __init__(self, told):
        scheme, _, host = told["url"].partition("://")
        ca = {"tls_ca_file_path": os.environ["SSL_CERT_FILE"]} if scheme == "https" else {}
        self.bucket = told["bucket"]
        self.fs = fs.S3FileSystem(endpoint_override=host, scheme=scheme, region="us-east-1",
                                  access_key=told["key"], secret_key=told["secret"],
                                  force_virtual_addressing=told["style"] == "host", **ca)

    def path(self, key):
        return f"{self.bucket}/{key}"

    def put(self, path, key):
        with open(path, "rb") as f, self.fs.open_output_stream(self.path(key)) as to:
            shutil.copyfileobj(f, to, 1 << 20)

    def get(self, key, path):
        with self.fs.open_input_stream(self.path(key)) as f, open(path, "wb") as to:
            shutil.copyfileobj(f, to, 1 << 20)

    def part(self, key, path, first, last):
        with self.fs.open_input_file(self.path(key)) as f, open(path, "wb") as to:
            to.write(f.read_at(last - first + 1, first))

    def size(self, key):
        return self.fs.get_file_info(self.path(key)).size

    def copy(self, key, to):
        self.fs.copy_file(self.path(key), self.path(to))

    def delete(self, key):
        self.fs.delete_file(self.path(key))

    def names(self, prefix):
        found = self.fs.get_file_info(fs.FileSelector(self.path(prefix.rstrip("/")),
                                                      recursive=True))
        return [info.path for info in found]


main(Client)
