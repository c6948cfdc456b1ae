"""keys.py - finds credentials as the SDKs do, and signs requests.
SPDX-License-Identifier: Apache-2.0

The sources in their order: arguments, environment, the profile in ~/.aws, the endpoint of a container (such
as the one that Penstock's setting `lend` offers). For other credentials (SSO, roles, instances), the caller
gives `credentials=`: a boto3 Credentials object, or a function that returns (access key, secret key, session
token or None). This file makes signatures of version 4 with the standard library alone:
https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-authenticating-requests.html
"""
import configparser
import hashlib
import hmac
import json
import os
import time
import urllib.request
from typing import NamedTuple, Optional
from urllib.parse import quote

UNSIGNED = "UNSIGNED-PAYLOAD"
RENEW_BEFORE_S = 300


class Keys(NamedTuple):
    access: str
    secret: str
    token: Optional[str] = None


# ---- the sources of keys ----

def read_profile(name=None):
    """Returns a profile from both files of ~/.aws, as a dict. If both set a key, the file `credentials` wins."""
    name = name or os.environ.get("AWS_PROFILE") or "default"
    found = {}
    for variable, path, section in (
            ("AWS_CONFIG_FILE", "~/.aws/config", name if name == "default" else f"profile {name}"),
            ("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials", name)):
        parser = configparser.RawConfigParser()
        try:
            parser.read(os.path.expanduser(os.environ.get(variable) or path))
        except configparser.Error as failure:
            raise ValueError(f"correct the file that {variable} names (default {path}): {failure}") from None
        if parser.has_section(section):
            found.update(parser[section])
    return found


class Container:
    """Temporary keys from the endpoint of a container. A call returns Keys that are not about to expire."""

    def __init__(self, url, token=None):
        self.url, self.token, self.keys, self.until = url, token, None, 0.0

    def __call__(self):
        if time.time() < self.until - RENEW_BEFORE_S:
            return self.keys
        headers = {"Authorization": self.token} if self.token else {}
        with urllib.request.urlopen(urllib.request.Request(self.url, headers=headers),
                                    timeout=10) as reply:
            document = json.load(reply)
        self.keys = Keys(document["AccessKeyId"], document["SecretAccessKey"], document.get("Token"))
        expires = document.get("Expiration")
        self.until = read_time(expires) if expires else time.time() + 3600
        return self.keys


def read_time(text):
    """Returns the seconds since 1970 for a text like "2026-01-31T12:00:00Z"."""
    import calendar
    return calendar.timegm(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S"))


def source(access_key=None, secret_key=None, session_token=None, profile=None, credentials=None):
    """Returns a function. The function returns Keys, or None if requests are to be unsigned."""
    if credentials is not None:
        return lambda: frozen(credentials)
    if access_key:
        keys = Keys(access_key, secret_key or "", session_token)
        return lambda: keys
    env = os.environ
    if not profile and env.get("AWS_ACCESS_KEY_ID"):
        keys = Keys(env["AWS_ACCESS_KEY_ID"], env.get("AWS_SECRET_ACCESS_KEY", ""),
                    env.get("AWS_SESSION_TOKEN"))
        return lambda: keys
    rows = read_profile(profile)
    if rows.get("aws_access_key_id"):
        keys = Keys(rows["aws_access_key_id"], rows.get("aws_secret_access_key", ""),
                    rows.get("aws_session_token"))
        return lambda: keys
    if env.get("AWS_CONTAINER_CREDENTIALS_FULL_URI"):
        return Container(env["AWS_CONTAINER_CREDENTIALS_FULL_URI"],
                         env.get("AWS_CONTAINER_AUTHORIZATION_TOKEN"))
    return lambda: None


def frozen(credentials):
    if callable(credentials):
        return Keys(*credentials())
    if hasattr(credentials, "get_frozen_credentials"):    # of boto3: renews them if necessary
        credentials = credentials.get_frozen_credentials()
    return Keys(credentials.access_key, credentials.secret_key, credentials.token)


def find_endpoint(endpoint_url=None, profile=None):
    return (endpoint_url or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
            or read_profile(profile).get("endpoint_url") or "http://127.0.0.1:9000").rstrip("/")


def find_region(region=None, profile=None):
    return (region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
            or read_profile(profile).get("region") or "us-east-1")


# ---- signatures ----

def encode(text, safe="-._~"):
    return quote(text, safe=safe)


def join_query(query):
    return "&".join(f"{encode(name)}={encode(value)}" for name, value in sorted(query))


def signature(keys, region, stamp, canonical):
    day = stamp[:8]
    scope = f"{day}/{region}/s3/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", stamp, scope,
                      hashlib.sha256(canonical.encode()).hexdigest()])
    key = ("AWS4" + keys.secret).encode()
    for part in (day, region, "s3", "aws4_request", text):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key.hex()


def now():
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())


def sign(keys, region, method, host, path, query=(), headers=(), body=b""):
    """Returns the headers of a signed request: the given headers, and host, date, checksum, session token and
    signature. If keys is None, adds only host. path: percent-encoded, as in the request line."""
    headers = {"host": host, **{name.lower(): value for name, value in dict(headers).items()}}
    if keys is None:
        return headers
    stamp = now()
    headers["x-amz-date"] = stamp
    headers["x-amz-content-sha256"] = hashlib.sha256(body).hexdigest()
    if keys.token:
        headers["x-amz-security-token"] = keys.token
    names = ";".join(sorted(headers))
    lines = "".join(f"{name}:{headers[name].strip()}\n" for name in sorted(headers))
    canonical = "\n".join([method, path, join_query(query), lines, names,
                           headers["x-amz-content-sha256"]])
    scope = f"{stamp[:8]}/{region}/s3/aws4_request"
    headers["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={keys.access}/{scope}, SignedHeaders={names}, "
        f"Signature={signature(keys, region, stamp, canonical)}")
    return headers


def presign(keys, region, method, host, path, expires_s=300):
    """Returns the URL of a request, with the signature in the query."""
    stamp = now()
    query = [("X-Amz-Algorithm", "AWS4-HMAC-SHA256"),
             ("X-Amz-Credential", f"{keys.access}/{stamp[:8]}/{region}/s3/aws4_request"),
             ("X-Amz-Date", stamp), ("X-Amz-Expires", str(expires_s)),
             ("X-Amz-SignedHeaders", "host")]
    if keys.token:
        query.append(("X-Amz-Security-Token", keys.token))
    canonical = "\n".join([method, path, join_query(query), f"host:{host}\n", "host", UNSIGNED])
    return (f"http://{host}{path}?{join_query(query)}"
            f"&X-Amz-Signature={signature(keys, region, stamp, canonical)}")
