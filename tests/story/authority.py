"""authority.py - certificates of a story's own. SPDX-License-Identifier: Apache-2.0"""
import ssl

from harness import *


class Authority:
    """A certificate authority of the story's own, and what it signs."""

    def __init__(self, story, name):
        self.story, self.name, self.file = story, name, story.path(f"{name}.pem")
        self.key = story.path(f"{name}.key")
        self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                     "-nodes", "-days", "2", "-subj", f"/CN={name}", "-keyout", self.key,
                     "-out", self.file)

    def openssl(self, *args):
        done = subprocess.run(["openssl", *args], capture_output=True, text=True,
                              cwd=self.story.folder)
        check(done.returncode == 0, f"openssl {args[0]}: {done.stderr}")

    def sign(self, name, host="IP:127.0.0.1", ends="20990101000000Z"):
        """(certificate, key) of a server."""
        base = self.story.path(name)
        with open(base + ".cnf", "w") as f:
            f.write(f"[ca]\ndefault_ca = c\n[c]\ndatabase = {base}.db\nserial = {base}.srl\n"
                    f"new_certs_dir = {self.story.folder}\ndefault_md = sha256\npolicy = p\n"
                    f"x509_extensions = x\n[p]\ncommonName = supplied\n"
                    f"[x]\nsubjectAltName = {host}\n")
        open(base + ".db", "w").close()
        self.openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                     "-nodes", "-subj", f"/CN={name}", "-keyout", base + ".key",
                     "-out", base + ".csr")
        self.openssl("ca", "-batch", "-notext", "-rand_serial", "-config", base + ".cnf", "-cert",
                     self.file, "-keyfile", self.key, "-in", base + ".csr", "-out", base + ".crt",
                     "-startdate", "20200101000000Z", "-enddate", ends)
        return base + ".crt", base + ".key"

    def client(self, **limits):
        """What a client that trusts this authority alone speaks TLS with."""
        context = ssl.create_default_context(cafile=self.file)
        for name, value in limits.items():
            setattr(context, name, value)
        return context
