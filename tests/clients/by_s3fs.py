"""fsspec's s3fs, which pandas, dask and datasets use. SPDX-License-Identifier: Apache-2.0"""
import s3fs

from sequence import main


class Client:
    def __init__(self, told):
        style = {"path": "path", "host": "virtual"}[told["style"]]
        self.bucket = told["bucket"]
        self.fs = s3fs.S3FileSystem(endpoint_url=told["url"], key=told["key"],
                                    secret=told["secret"], use_listings_cache=False,
                                    config_kwargs={"s3": {"addressing_style": style},
                                                   "signature_version": "s3v4"})

    def path(self, key):
        return f"{self.bucket}/{key}"

    def put(self, path, key):
        self.fs.put_file(path, self.path(key), chunksize=5 << 20)

    def get(self, key, path):
        self.fs.get_file(self.path(key), path)

    def part(self, key, path, first, last):
        with open(path, "wb") as f:
            f.write(self.fs.cat_file(self.path(key), start=first, end=last + 1))

    def size(self, key):
        return self.fs.info(self.path(key), refresh=True)["size"]

    def copy(self, key, to):
        self.fs.copy(self.path(key), self.path(to))

    def delete(self, key):
        self.fs.rm_file(self.path(key))

    def names(self, prefix):
        return self.fs.find(self.path(prefix))

    def presign(self, key):
        return self.fs.sign(self.path(key))


main(Client)
