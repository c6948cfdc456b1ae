"""python_client.py - the Python client, as it lies in the tree. SPDX-License-Identifier: Apache-2.0"""
import os
import sys

from harness import ROOT

sys.path.insert(0, os.path.join(ROOT, "src", "client", "python"))
import penstock  # noqa: E402


def refused(what, kind=penstock.PenstockError):
    """How it failed; None: it did not."""
    try:
        what()
    except kind as failure:
        return failure
    return None
