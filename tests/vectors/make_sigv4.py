#!/usr/bin/env python3
# make_sigv4.py - writes tests/vectors/sigv4.txt with botocore. SPDX-License-Identifier: Apache-2.0
#
# The shapes are those of the aws-c-auth signing suite, read as S3 reads them (paths are encoded
# once
# and never normalised), each signed in the header and as a presigned URL. A vector is a line
# "vector NAME EXPECT", then the request head with bare line feeds, up to an empty line.
# EXPECT: ok, signature (well-formed, but must not verify) or head (must not even be read).
#
#   python3 -m venv v && v/bin/pip install botocore && v/bin/python tests/vectors/make_sigv4.py
import datetime
import hashlib
import os
from unittest import mock

import botocore.auth
from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

KEY, SECRET = 'AKIDEXAMPLE', 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY'
TOKEN = 'AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/kMcGd'
NOW = datetime.datetime(2015, 8, 30, 12, 36, 0)
EMPTY = hashlib.sha256(b'').hexdigest()
FORM = b'Param1=value1'


class At(datetime.datetime):
    @classmethod
    def utcnow(cls):
        return NOW

    @classmethod
    def now(cls, tz=None):
        return NOW.replace(tzinfo=tz)


def sign(method, target, headers, body=b'', token=None, presigned=False, hash_header=None):
    """Returns the target and headers as they go out."""
    request = AWSRequest(method=method, url='http://example.amazonaws.com' + target,
                         data=b'' if presigned else body)
    for name, value in headers:
        request.headers.add_header(name, value)
    if not presigned:
        # over plain HTTP botocore hashes the body
        request.context['payload_signing_enabled'] = True
    credentials = Credentials(KEY, SECRET, token)
    auth = (S3SigV4QueryAuth(credentials, 's3', 'us-east-1', expires=3600) if presigned
            else S3SigV4Auth(credentials, 's3', 'us-east-1'))
    if hash_header:
        auth.payload = lambda request: hash_header
    patches = [mock.patch('botocore.auth.datetime.datetime', At)] if hasattr(botocore.auth,
                                                                             'datetime') \
        else []
    if hasattr(botocore.auth, 'get_current_datetime'):
        patches.append(mock.patch('botocore.auth.get_current_datetime', lambda *a, **k: NOW))
    for patch in patches:
        patch.start()
    try:
        auth.add_auth(request)
    finally:
        for patch in patches:
            patch.stop()
    out = request.url[len('http://example.amazonaws.com'):]
    return out, list(request.headers.items())


# name, method, target, headers, body, token
SHAPES = [
    ('get-vanilla', 'GET', '/', [], b'', None),
    ('get-vanilla-query', 'GET', '/?', [], b'', None),
    ('get-vanilla-empty-query-key', 'GET', '/?Param1=value1', [], b'', None),
    ('get-vanilla-query-order-key', 'GET', '/?Param2=value2&Param1=value1', [], b'', None),
    ('get-vanilla-query-order-key-case', 'GET', '/?Param2=value2&param1=value1', [], b'', None),
    ('get-vanilla-query-order-value', 'GET', '/?Param1=value2&Param1=value1', [], b'', None),
    ('get-vanilla-query-order-encoded', 'GET', '/?Param-3=Value3&Param=Value2&%E1%88%B4=Value1', [],
     b'', None),
    ('get-vanilla-query-unreserved', 'GET',
     '/?-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz='
     '-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz', [], b'', None),
    ('get-vanilla-utf8-query', 'GET', '/?%E1%88%B4=bar', [], b'', None),
    ('get-vanilla-with-session-token', 'GET', '/', [], b'', TOKEN),
    ('get-unreserved', 'GET', '/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz',
     [], b'', None),
    ('get-utf8', 'GET', '/%E1%88%B4', [], b'', None),
    ('get-space-unnormalized', 'GET', '/example%20space/', [], b'', None),
    ('get-relative-unnormalized', 'GET', '/example/..', [], b'', None),
    ('get-relative-relative-unnormalized', 'GET', '/example1/example2/../..', [], b'', None),
    ('get-slash-unnormalized', 'GET', '//', [], b'', None),
    ('get-slash-dot-slash-unnormalized', 'GET', '/./', [], b'', None),
    ('get-slash-pointless-dot-unnormalized', 'GET', '/./example', [], b'', None),
    ('get-slashes-unnormalized', 'GET', '//example//', [], b'', None),
    ('get-header-key-duplicate', 'GET', '/',
     [('My-Header1', 'value2'), ('My-Header1', 'value2'), ('My-Header1', 'value1')], b'', None),
    ('get-header-value-order', 'GET', '/',
     [('My-Header1', 'value4'), ('My-Header1', 'value1'), ('My-Header1', 'value3'),
      ('My-Header1', 'value2')], b'', None),
    ('get-header-value-trim', 'GET', '/',
     [('My-Header1', '  value1'), ('My-Header2', '  "a   b   c"  ')], b'', None),
    ('post-vanilla', 'POST', '/', [], b'', None),
    ('post-vanilla-query', 'POST', '/?Param1=value1', [], b'', None),
    ('post-vanilla-empty-query-value', 'POST', '/?Param1=', [], b'', None),
    ('post-header-key-case', 'POST', '/', [('MY-HEADER1', 'value1')], b'', None),
    ('post-header-key-sort', 'POST', '/', [('My-Header1', 'value1'), ('A-Header', 'b')], b'', None),
    ('post-header-value-case', 'POST', '/', [('My-Header1', 'VALUE1')], b'', None),
    ('post-sts-header-before', 'POST', '/', [], b'', TOKEN),
    ('post-x-www-form-urlencoded', 'POST', '/',
     [('Content-Type', 'application/x-www-form-urlencoded'), ('Content-Length', '13')], FORM, None),
    ('post-x-www-form-urlencoded-parameters', 'POST', '/',
     [('Content-Type', 'application/x-www-form-urlencoded; charset=utf-8'),
      ('Content-Length', '13')],
     FORM, None),
    # what S3 clients add to these
    ('valueless-sub-resource', 'GET', '/bucket?uploads', [], b'', None),
    ('valueless-among-others', 'GET', '/bucket?uploads&prefix=a%2Fb&delimiter=%2F', [], b'', None),
    ('key-of-reserved', 'GET', '/bucket/%21%40%24%26%27%28%29%2A%2B%2C%3B%3D%3A%5B%5D', [], b'',
     None),
    ('double-encoded-stays', 'GET', '/bucket/a%2520b', [], b'', None),
    ('ranged-get', 'GET', '/bucket/key', [('Range', 'bytes=0-9'),
                                          ('x-amz-checksum-mode', 'ENABLED')],
     b'', None),
    ('conditional-put', 'PUT', '/bucket/key',
     [('If-None-Match', '*'), ('Content-Length', '13'), ('x-amz-meta-a', 'caf\u00e9')], FORM, None),
]

# Signed as the first target, sent as the second: the same request, or for others but S3 the same.
RESPELLED = [
    ('escape-of-an-unreserved', '/bucket/~a', '/bucket/%7ea', 'ok'),
    ('escapes-in-lower-case', '/bucket/%E1%88%B4?prefix=%2F', '/bucket/%e1%88%b4?prefix=%2f', 'ok'),
    ('reserved-sent-bare', '/bucket/a%2Cb%28c%29%2B?prefix=a%2Fb%3Ac',
     '/bucket/a,b(c)+?prefix=a/b:c', 'ok'),
    ('parameters-sent-in-another-order', '/?b=2&a=1', '/?a=1&b=2', 'ok'),
    ('get-relative-normalized', '/', '/example/..', 'signature'),
    ('get-relative-relative-normalized', '/', '/example1/example2/../..', 'signature'),
    ('get-slash-normalized', '/', '//', 'signature'),
    ('get-slash-dot-slash-normalized', '/', '/./', 'signature'),
    ('get-slash-pointless-dot-normalized', '/example', '/./example', 'signature'),
    ('get-slashes-normalized', '/example/', '//example//', 'signature'),
    ('get-space-normalized-twice', '/example%2520space/', '/example%20space/', 'signature'),
]


def write(out, name, expect, method, target, headers):
    out.write(f'vector {name} {expect}\n{method} {target} HTTP/1.1\n')
    if 'host' not in [n.lower() for n, _ in headers]:
        out.write('Host: example.amazonaws.com\n')
    for n, value in headers:
        out.write(f'{n}: {value}\n')
    out.write('\n')


def main():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'sigv4.txt')
    with open(path, 'w', encoding='utf-8', newline='\n') as out:
        out.write('# made by make_sigv4.py with botocore; key AKIDEXAMPLE, secret of the AWS examples,\n'
                  '# 2015-08-30T12:36:00Z, us-east-1, s3. SPDX-License-Identifier: Apache-2.0\n')
        for name, method, target, headers, body, token in SHAPES:
            for presigned in (False, True):
                sent, signed = sign(method, target, headers, body, token, presigned)
                write(out, ('query-' if presigned else 'header-') + name, 'ok', method, sent,
                      signed)
        for name, signed_as, sent_as, expect in RESPELLED:
            _, signed = sign('GET', signed_as, [])
            write(out, 'header-' + name, expect, 'GET', sent_as, signed)
            url, headers = sign('GET', signed_as, [], presigned=True)
            auth = url[url.index('X-Amz-Algorithm'):]
            url = sent_as + ('&' if '?' in sent_as else '?') + auth
            write(out, 'query-' + name, expect, 'GET', url, headers)
        for name, value in (('unsigned-payload', 'UNSIGNED-PAYLOAD'),
                            ('streaming', 'STREAMING-UNSIGNED-PAYLOAD-TRAILER')):
            sent, signed = sign('PUT', '/bucket/key', [('Content-Length', '0')], hash_header=value)
            write(out, 'header-' + name, 'ok', 'PUT', sent, signed)
        # added after signing: IoT takes it, S3 does not
        sent, signed = sign('POST', '/', [])
        write(out, 'header-post-sts-header-after', 'signature', 'POST', sent,
              signed + [('X-Amz-Security-Token', TOKEN)])
        sent, signed = sign('GET', '/', [('My-Header1', 'value1 value2 value3')])
        folded = [(n, v.replace(' ', '\n  ') if n == 'My-Header1' else v) for n, v in signed]
        write(out, 'header-get-header-value-multiline', 'head', 'GET', sent, folded)


main()
