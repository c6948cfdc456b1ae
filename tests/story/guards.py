"""guards.py - the tests' daemon without its safety guards, and what is seen when they are off.
SPDX-License-Identifier: Apache-2.0"""
import os

import harness
from harness import Skip, use_tests_daemon


def use_fake_gpu():
    """From here on daemons are the tests' own. Returns the GPU module on a runtime that is not one."""
    use_tests_daemon()
    build = harness.PENSTOCK.removesuffix(harness.TESTS_DAEMON)
    module = os.path.join(build, "tests/local/penstock-cuda-fake.so")
    if not os.path.exists(module):
        raise Skip("there is no build with CUDA's headers (scripts/cuda-sdk)")
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
