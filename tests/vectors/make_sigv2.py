#!/usr/bin/env python3
# make_sigv2.py - writes tests/vectors/sigv2.txt with botocore. SPDX-License-Identifier: Apache-2.0
#
# Requests of S3, each signed by version 2 in the header and as a presigned URL, at 2015-08-30
# 12:36:00. A vector is a line "vector NAME", then the request head with bare line feeds, up to an
# empty line. Host and User-Agent are not signed: they are left out of what the test changes.
#
#   python3 -m venv v && v/bin/pip install botocore && v/bin/python tests/vectors/make_sigv2.py
import datetime
import os
from unittest import mock

import botocore.auth
from botocore.auth import HmacV1Auth, HmacV1QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

KEY, SECRET = 'AKIDEXAMPLE', 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY'
NOW = datetime.datetime(2015, 8, 30, 12, 36, 0, tzinfo=datetime.timezone.utc).timestamp()
DATE = 'Sun, 30 Aug 2015 12:36:00 GMT'
SHAPES = [
    ('get', 'GET', '/bucket/key', {}),
    ('get-escaped', 'GET', '/bucket/a%20b/%C3%BC%2B//../c', {}),
    ('list-service', 'GET', '/', {}),
    ('list-bucket', 'GET', '/bucket?prefix=a&delimiter=%2F&list-type=2', {}),
    ('location', 'GET', '/bucket?location', {}),
    ('acl-of-version', 'GET', '/bucket/key?versionId=a%2Bb&acl', {}),
    ('overrides', 'GET', '/bucket/key?response-content-type=text%2Fplain&response-expires=x', {}),
    ('part', 'PUT', '/bucket/key?uploadId=u&partNumber=3', {'Content-MD5': 'bW1tbW1tbW1tbW1tbW1tbQ=='}),
    ('put', 'PUT', '/bucket/key', {'Content-Type': 'text/plain', 'x-amz-meta-b': ' two ',
                                   'X-Amz-Meta-A': 'one'}),
    ('delete-many', 'POST', '/bucket?delete', {'Content-MD5': 'bW1tbW1tbW1tbW1tbW1tbQ=='}),
    ('head', 'HEAD', '/bucket/key', {}),
]


def vector(name, method, target, headers, token, presigned):
    request = AWSRequest(method=method, url='http://example.amazonaws.com' + target,
                         headers=dict(headers))
    credentials = Credentials(KEY, SECRET, token)
    auth = HmacV1QueryAuth(credentials, 60) if presigned else HmacV1Auth(credentials)
    with mock.patch.object(botocore.auth, 'formatdate', lambda usegmt: DATE), \
            mock.patch('time.time', lambda: NOW):
        auth.add_auth(request)
    target = request.url[len('http://example.amazonaws.com'):]
    lines = [f'{n}: {v}' for n, v in request.headers.items()] if not presigned else []
    return '\n'.join([f'vector {name}', f'{method} {target} HTTP/1.1',
                      'Host: example.amazonaws.com', *lines, '', ''])


with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'sigv2.txt'), 'w') as f:
    for shape in SHAPES:
        for presigned in (False, True):
            for token in (None, 'FQoDYXdzEPT//wEXAMPLE=='):
                name = shape[0] + ('-presigned' if presigned else '') + ('-token' if token else '')
                f.write(vector(name, *shape[1:], token, presigned))
