"""guards.py - a daemon that can leave out its safety guards, and what is seen when it does.
SPDX-License-Identifier: Apache-2.0"""
import os

import harness
from harness import Skip, find_binary


def use_guards():
    """From here on daemons are a build with --enable-guards-off: PENSTOCK_GUARDS names it."""
    binary = find_binary("PENSTOCK_GUARDS", "build-guards*/penstock")
    if not binary or not os.access(binary, os.X_OK):
        raise Skip("there is no build with --enable-guards-off")
    harness.PENSTOCK = binary


def use_fake_gpu():
    """The same, of a build with the CUDA headers. Returns the GPU module on a runtime that is not one."""
    use_guards()
    module = os.path.join(os.path.dirname(os.path.abspath(harness.PENSTOCK)), "tests/local/penstock-cuda-fake.so")
    if not os.path.exists(module):
        raise Skip("no build with --enable-guards-off and CUDA's headers (PENSTOCK_GUARDS)")
    return module


def guarded(off):
    """The environment of a daemon without these guards; "": with all."""
    return {"PENSTOCK_GUARD_OFF": off} if off else {}


def on_and_off(story, rows, good, bad):
    """Each (text, scenario, guard): the scenario, told what is off, finds nothing wrong with it on, and
    something with it off."""
    for text, scenario, guard in rows:
        wrong = scenario("")
        story.fact(f"{text}, {guard} on: {good}", wrong is None, wrong)
        wrong = scenario(guard)
        story.fact(f"{text}, {guard} OFF: {bad}", wrong is not None)
        story.note(f"seen: {wrong}")
