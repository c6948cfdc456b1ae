"""rows.py - every client that is tried: how it is found, pointed at an endpoint, and told what to do.
SPDX-License-Identifier: Apache-2.0

A command-line client is a table of commands; a Python client is a script that runs under the Python
that has it. ROWS is the order of the list in penstock-s3(7)."""
import os
import re
import subprocess

from sequence import PART

HERE = os.path.dirname(os.path.abspath(__file__))
FIRST, LAST = PART
AWS_IMPORTS = "awscli.clidriver awscli.handlers awscli.customizations.s3.s3"
S3CMD_IMPORTS = "S3.S3 S3.CloudFront S3.FileLists S3.MultiPart"


class Failed(Exception):
    pass


class Commands:
    """Methods made of commands. Each is a function of the target and its arguments."""

    def __init__(self, row, told, run):
        self.told, self.run = told, run
        for verb, command in row.commands.items():
            setattr(self, verb, lambda *args, verb=verb, command=command:
                    self._do(verb, command, args))

    def fetch(self, url, path):
        """A presigned URL, where the names of hosts are known."""
        ca = ["--cacert", self.told["ca"]] if self.told["ca"] else []
        status, _, err = self.run(["curl", "-sS", "-f", *ca, "-o", path, url])
        if status != 0:
            raise Failed(err)

    def _do(self, verb, command, args):
        status, out, err = self.run(command(self.told, *args))
        if status != 0:
            raise Failed((err or out).strip()[-400:])
        read = {"names": names_in, "size": number_in, "presign": url_in}.get(verb)
        return read(out) if read else None


def names_in(out):
    return re.findall(r"[^\s\"/<>]+\.bin", out)


def number_in(out):
    return re.search(r"\b(\d{7,})\b", out).group(1)    # the only number that long is the size


def url_in(out):
    return re.search(r"https?://\S+", out).group(0)


class Row:
    """version: the command that prints it. imports: modules that a fork server imports, for a command
    that is a Python program. styles: how a bucket can be named. parts: it writes large objects in
    parts. writes: else what it reads is put there for it."""

    def __init__(self, name, env, version, commands=None, script=None, python=None, imports="",
                 styles="path host", pointed="", parts=True, writes=True):
        self.name, self.env, self.version, self.commands = name, env, version, commands
        self.program, self.imports = version[0], imports.split()
        self.script, self.python, self.styles = script, python, styles.split()
        self.pointed, self.parts, self.writes = pointed, parts, writes


def s3(t, key=""):
    return f"s3://{t['bucket']}/{key}"


# ---- commands ----

def aws(program):
    def base(t, *words):
        ca = ["--ca-bundle", t["ca"]] if t["ca"] else []
        return [program, "--endpoint-url", t["url"], *ca, *words]

    def cp(t, a, b):
        return base(t, "s3", "cp", "--only-show-errors", a, b)
    return {
        "put": lambda t, path, key: cp(t, path, s3(t, key)),
        "get": lambda t, key, path: cp(t, s3(t, key), path),
        "part": lambda t, key, path, first, last: base(
            t, "s3api", "get-object", "--bucket", t["bucket"], "--key", key, "--range",
            f"bytes={first}-{last}", path),
        "size": lambda t, key: base(t, "s3api", "head-object", "--bucket", t["bucket"], "--key", key,
                                    "--query", "ContentLength"),
        "copy": lambda t, key, to: cp(t, s3(t, key), s3(t, to)),
        "delete": lambda t, key: base(t, "s3", "rm", "--only-show-errors", s3(t, key)),
        "names": lambda t, prefix: base(t, "s3", "ls", "--recursive", s3(t, prefix)),
        "presign": lambda t, key: base(t, "s3", "presign", s3(t, key)),
    }


def s5cmd(program):
    def base(t, *words):
        return [program, "--endpoint-url", t["url"], *words]
    return {
        "put": lambda t, path, key: base(t, "cp", "-p", "5", path, s3(t, key)),
        "get": lambda t, key, path: base(t, "cp", "-p", "5", s3(t, key), path),
        "size": lambda t, key: base(t, "ls", s3(t, key)),
        "copy": lambda t, key, to: base(t, "cp", s3(t, key), s3(t, to)),
        "delete": lambda t, key: base(t, "rm", s3(t, key)),
        "names": lambda t, prefix: base(t, "ls", s3(t, prefix + "*")),
        "presign": lambda t, key: base(t, "presign", s3(t, key)),
    }


def rclone(program):
    def base(t, *words):
        return [program, "--config", "/dev/null", "--retries", "1", *words]

    def at(t, key):
        return f"x:{t['bucket']}/{key}"
    return {
        "put": lambda t, path, key: base(t, "copyto", path, at(t, key)),
        "get": lambda t, key, path: base(t, "copyto", at(t, key), path),
        "part": lambda t, key, path, first, last: [
            "sh", "-c", f"{program} --config /dev/null cat --offset {first} --count "
            f"{last - first + 1} '{at(t, key)}' >'{path}'"],
        "size": lambda t, key: base(t, "size", "--json", at(t, key)),
        "copy": lambda t, key, to: base(t, "copyto", at(t, key), at(t, to)),
        "delete": lambda t, key: base(t, "deletefile", at(t, key)),
        "names": lambda t, prefix: base(t, "lsf", "-R", at(t, prefix)),
        "presign": lambda t, key: base(t, "link", "--expire", "300s", at(t, key)),
    }


def rclone_env(t):
    return {"RCLONE_CONFIG_X_TYPE": "s3", "RCLONE_CONFIG_X_PROVIDER": "Other",
            "RCLONE_CONFIG_X_ENDPOINT": t["url"], "RCLONE_CONFIG_X_ACCESS_KEY_ID": t["key"],
            "RCLONE_CONFIG_X_SECRET_ACCESS_KEY": t["secret"],
            "RCLONE_CONFIG_X_REGION": "us-east-1",
            "RCLONE_CONFIG_X_FORCE_PATH_STYLE": str(t["style"] == "path").lower(),
            "RCLONE_S3_NO_CHECK_BUCKET": "true", "RCLONE_S3_UPLOAD_CUTOFF": "5M",
            "RCLONE_S3_CHUNK_SIZE": "5M", "AWS_CA_BUNDLE": None,
            **({"RCLONE_CA_CERT": t["ca"]} if t["ca"] else {})}


def s3cmd_commands():
    def base(t, *words):
        host = t["url"].partition("://")[2]
        bucket_host = host if t["style"] == "path" else f"%(bucket)s.{host}"
        secure = ["--ssl", f"--ca-certs={t['ca']}"] if t["ca"] else ["--no-ssl"]
        return ["/usr/bin/s3cmd", "-c", "/dev/null", "--no-progress", "--force", "--host", host,
                "--host-bucket", bucket_host, "--access_key", t["key"], "--secret_key", t["secret"],
                "--multipart-chunk-size-mb=5", *secure, *words]
    return {
        "put": lambda t, path, key: base(t, "put", path, s3(t, key)),
        "get": lambda t, key, path: base(t, "get", s3(t, key), path),
        "size": lambda t, key: base(t, "ls", s3(t, key)),
        "copy": lambda t, key, to: base(t, "cp", s3(t, key), s3(t, to)),
        "delete": lambda t, key: base(t, "del", s3(t, key)),
        "names": lambda t, prefix: base(t, "ls", "--recursive", s3(t, prefix)),
    }


def curl():
    def base(t, key, *words, query=""):
        scheme, _, host = t["url"].partition("://")
        url = f"{scheme}://{host}/{t['bucket']}/{key}" if t["style"] == "path" \
            else f"{scheme}://{t['bucket']}.{host}/{key}"
        return ["curl", "-sS", "-f", "--max-time", "30", *(["--cacert", t["ca"]] if t["ca"] else []),
                "--aws-sigv4", "aws:amz:us-east-1:s3", "--user", f"{t['key']}:{t['secret']}",
                "-H", "x-amz-content-sha256: UNSIGNED-PAYLOAD", *words, url + query]
    return {
        "put": lambda t, path, key: base(t, key, "-T", path),
        "get": lambda t, key, path: base(t, key, "-o", path),
        "part": lambda t, key, path, first, last: base(t, key, "-r", f"{first}-{last}", "-o", path),
        "size": lambda t, key: base(t, key, "-I"),
        "copy": lambda t, key, to: base(t, to, "-X", "PUT", "-H",
                                        f"x-amz-copy-source: /{t['bucket']}/{key}"),
        "delete": lambda t, key: base(t, key, "-X", "DELETE"),
        "names": lambda t, prefix: base(t, "", query=f"?list-type=2&prefix={prefix.replace('/', '%2F')}"),
    }


def runai_env(t):
    return {"RUNAI_STREAMER_S3_USE_VIRTUAL_ADDRESSING": str(int(t["style"] == "host"))}


# ---- rows ----

def no_more(t):
    return {}


def rows(tool):
    """tool(name, folder): where scripts/tools put it."""
    new, readers, fsspec = tool("python3"), tool("python3", "readers"), tool("python3", "s3fs")
    runai, nixl = tool("python3", "runai"), tool("python3", "nixl")

    def imported(python, module):
        return [python, "-c", f"import importlib.metadata as m; print(m.version('{module}'))"]
    rclone_new = tool("rclone", "s3fs")
    return [
        Row("boto3 (Debian)", no_more, imported("/usr/bin/python3", "boto3"), script="by_boto3.py",
            python="/usr/bin/python3", pointed="`endpoint_url=`"),
        Row("boto3", no_more, imported(new, "boto3"), script="by_boto3.py", python=new,
            pointed="`AWS_ENDPOINT_URL`"),
        Row("aws cli (Debian)", no_more, ["/usr/bin/aws", "--version"], aws("/usr/bin/aws"),
            imports=AWS_IMPORTS, pointed="`--endpoint-url`"),
        Row("aws cli", no_more, [tool("aws"), "--version"], aws(tool("aws")),
            imports=AWS_IMPORTS, pointed="`AWS_ENDPOINT_URL`"),
        Row("s5cmd", no_more, [tool("s5cmd"), "version"], s5cmd(tool("s5cmd")), styles="path",
            pointed="`--endpoint-url`"),
        Row("rclone (Debian)", rclone_env, ["/usr/bin/rclone", "version"], rclone("/usr/bin/rclone"),
            pointed="`--s3-endpoint`"),
        Row("rclone", rclone_env, [rclone_new, "version"], rclone(rclone_new),
            pointed="`--s3-endpoint`"),
        Row("s3cmd", no_more, ["/usr/bin/s3cmd", "--version"], s3cmd_commands(),
            imports=S3CMD_IMPORTS, pointed="`--host --host-bucket`"),
        Row("pyarrow", no_more, imported(readers, "pyarrow"), script="by_pyarrow.py", python=readers,
            pointed="`endpoint_override=`"),
        Row("DuckDB", no_more, imported(readers, "duckdb"), script="by_duckdb.py", python=readers,
            pointed="`CREATE SECRET (... ENDPOINT)`"),
        Row("fsspec s3fs", no_more, imported(fsspec, "s3fs"), script="by_s3fs.py", python=fsspec,
            pointed="`endpoint_url=`"),
        Row("polars (object_store)", no_more, imported(readers, "polars"), script="by_polars.py",
            python=readers, pointed="`aws_endpoint_url`"),
        Row("s3torchconnector", no_more, imported(readers, "s3torchconnectorclient"),
            script="by_s3torch.py", python=readers, pointed="`endpoint=`"),
        Row("Run:ai Model Streamer", runai_env, imported(runai, "runai-model-streamer"),
            script="by_runai.py", python=runai, pointed="`AWS_ENDPOINT_URL`", writes=False),
        Row("NIXL (OBJ)", no_more, imported(nixl, "nixl-cu12"), script="by_nixl.py", python=nixl,
            pointed="`endpoint_override`"),
        Row("curl", no_more, ["curl", "--version"], curl(), pointed="the URL", parts=False),
    ]
