"""forms.py - forms as browsers post them (PostObject). SPDX-License-Identifier: Apache-2.0"""
import base64

from harness import *

BOUNDARY = "a-boundary"


def form_of(fields, data, filename="photo.jpg"):
    parts = [f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in fields]
    parts.append(f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="{filename}"\r\nContent-Type: image/jpeg\r\n\r\n')
    return "".join(parts).encode() + data + f"\r\n--{BOUNDARY}--\r\n".encode()


def signed(bucket, key, pair, more=(), conditions=None, seconds=600, slash="/"):
    """The fields of a form; each is a condition of its policy unless they are given."""
    now = time.gmtime()
    day, date = time.strftime("%Y%m%d", now), time.strftime("%Y%m%dT%H%M%SZ", now)
    fields = [("key", key), ("x-amz-algorithm", "AWS4-HMAC-SHA256"),
              ("x-amz-credential", f"{pair[0]}/{day}/us-east-1/s3/aws4_request"), ("x-amz-date", date), *more]
    if conditions is None:
        conditions = [{name: value} for name, value in fields[1:]] + [["starts-with", "$key", ""], {"bucket": bucket}]
    until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))
    policy = json.dumps({"expiration": until, "conditions": conditions}).replace("/", slash)
    policy = base64.b64encode(policy.encode()).decode()
    sign = hmac.new(signing_key(pair[1], day, "us-east-1"), policy.encode(), hashlib.sha256).hexdigest()
    return [*fields, ("policy", policy), ("x-amz-signature", sign)]


def signed_v2(bucket, key, pair, more=(), seconds=600):
    """The same by version 2, which versitygw itself does not take."""
    fields = [("key", key), *more]
    until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))
    conditions = [{name: value} for name, value in more] + [["starts-with", "$key", ""], {"bucket": bucket}]
    policy = base64.b64encode(json.dumps({"expiration": until, "conditions": conditions}).encode())
    sign = base64.b64encode(hmac.new(pair[1].encode(), policy, hashlib.sha1).digest())
    return [*fields, ("AWSAccessKeyId", pair[0]), ("policy", policy.decode()), ("signature", sign.decode())]


FORM_TYPE = f"Content-Type: multipart/form-data; boundary={BOUNDARY}"


def post(port, bucket, fields, data=b"data", **how):
    return plain(port, "POST", f"/{bucket}", form_of(fields, data, **how), headers=[FORM_TYPE])
