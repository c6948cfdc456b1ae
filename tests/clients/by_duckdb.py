"""DuckDB's httpfs: tables in Parquet files, so what lies in the bucket is not the file but a table
of its pieces. SPDX-License-Identifier: Apache-2.0"""
import glob
import os

import duckdb
import duckdb_extension_httpfs    # the wheel that carries it

from sequence import main

EXTENSION, = glob.glob(os.path.join(os.path.dirname(duckdb_extension_httpfs.__file__),
                                    "extensions", "*", "httpfs.duckdb_extension"))
PIECE = 100_000


class Client:
    def __init__(self, told):
        scheme, _, host = told["url"].partition("://")
        self.bucket, self.db = told["bucket"], duckdb.connect()
        self.db.execute(f"LOAD '{EXTENSION}'")
        if scheme == "https":
            self.db.execute(f"SET ca_cert_file = '{os.environ['SSL_CERT_FILE']}'")
        style = {"path": "path", "host": "vhost"}[told["style"]]
        self.db.execute(f"CREATE SECRET (TYPE s3, KEY_ID '{told['key']}', SECRET "
                        f"'{told['secret']}', REGION 'us-east-1', ENDPOINT '{host}', "
                        f"URL_STYLE '{style}', USE_SSL {scheme == 'https'})")

    def path(self, key):
        return f"s3://{self.bucket}/{key}"

    def put(self, path, key):
        with open(path, "rb") as f:
            data = f.read()
        self.db.execute("CREATE OR REPLACE TABLE pieces (i INTEGER, piece BLOB)")
        self.db.executemany("INSERT INTO pieces VALUES (?, ?)",
                            [(i, data[at:at + PIECE])
                             for i, at in enumerate(range(0, len(data), PIECE))])
        self.db.execute(f"COPY pieces TO '{self.path(key)}' (FORMAT parquet, COMPRESSION "
                        "uncompressed, ROW_GROUP_SIZE 2048)")

    def pieces(self, key, path, which):
        rows = self.db.execute(f"SELECT piece FROM read_parquet('{self.path(key)}') WHERE {which} "
                               "ORDER BY i").fetchall()
        with open(path, "wb") as f:
            f.write(b"".join(row[0] for row in rows))

    def get(self, key, path):
        self.pieces(key, path, "true")

    def part(self, key, path, first, last):
        self.pieces(key, path, f"i BETWEEN {first // PIECE} AND {last // PIECE}")

    def names(self, prefix):
        return [row[0] for row in
                self.db.execute(f"SELECT file FROM glob('{self.path(prefix)}*')").fetchall()]


main(Client)
