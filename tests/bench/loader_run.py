"""loader_run.py - an epoch of batches as torch tensors, beside DataLoaders that GET.
SPDX-License-Identifier: Apache-2.0

Warm; batches of 64 in a random order, each an own tensor, and nothing done with them. DataLoaders: over
boto3's get_object, and over s3torchconnector's map-style data set, without workers and with as many as
there are processors. Needs the environment that scripts/tools torch makes. """

import glob
import os

import fill_run
import harness
from harness import KIB
from stage import Failed, MIB, Stage, note

CASES = (("16k", 16 * KIB, 2048, 64), ("128k", 128 * KIB, 1024, 64), ("1m", MIB, 512, 64))
WAYS = ("set-boto3", "set-boto3-workers", "set-s3torch", "set-s3torch-workers")


def run(figures, quick, subject):
    found = glob.glob(os.path.join(harness.TOOLS, "torch-*", "bin", "python3"))
    if subject != "penstock" or not found:
        note("loader: left out: " + ("there is nothing like it in nginx" if found else
                                     "torch is not installed (scripts/tools torch)"))
        return
    for case in CASES[1:2] if quick else CASES:
        with Stage(quick, subject) as stage:
            ground = fill_run.Ground(stage, [case])
            ground.warm(case)
            ground.pythons = dict.fromkeys(("loader", *WAYS), found[-1])
            rates = {}
            before = ground.origin.totals()["bytes"]
            for kind in ("loader", *WAYS):
                client = ground.client(kind, case)
                client.run(0)    # workers start, and torch does what it does first
                rates[kind] = [client.rate(0) for _ in range(3 if quick else 5)]
                client.stop()
            if ground.origin.totals()["bytes"] != before:
                raise Failed(f"{case[0]}: the origin was asked while hits were measured")
            for kind in WAYS:
                figures.put("loader", f"{case[0]} x {case[3]}", "rate", "objects/s", rates["loader"],
                            kind[4:], rates[kind])
