"""s3torchconnector's client (AWS CRT), without its dataset classes, which need torch.
SPDX-License-Identifier: Apache-2.0"""
from s3torchconnectorclient._mountpoint_s3_client import MountpointS3Client

from sequence import main


class Client:
    def __init__(self, told):
        self.bucket = told["bucket"]
        self.s3 = MountpointS3Client(region="us-east-1", endpoint=told["url"],
                                     force_path_style=told["style"] == "path", max_attempts=2)

    def put(self, path, key):
        stream = self.s3.put_object(self.bucket, key)
        with open(path, "rb") as f:
            while piece := f.read(1 << 20):
                stream.write(piece)
        stream.close()

    def get(self, key, path):
        with open(path, "wb") as f:
            for piece in self.s3.get_object(self.bucket, key):
                f.write(piece)

    def part(self, key, path, first, last):
        with open(path, "wb") as f:
            for piece in self.s3.get_object(self.bucket, key, start=first, end=last + 1):
                f.write(piece)

    def size(self, key):
        return self.s3.head_object(self.bucket, key).size

    def copy(self, key, to):
        self.s3.copy_object(self.bucket, key, self.bucket, to)

    def delete(self, key):
        self.s3.delete_object(self.bucket, key)

    def names(self, prefix):
        return [info.key for page in self.s3.list_objects(self.bucket, prefix)
                for info in page.object_info]


main(Client)
