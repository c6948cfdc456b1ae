"""NIXL's object plugin, by which inference engines move KV caches: aws-sdk-cpp's S3Client up to 1 MiB,
its S3CrtClient above. It knows no size but what it is told. SPDX-License-Identifier: Apache-2.0"""
import os
import time

import numpy
from nixl_cu12._api import nixl_agent, nixl_agent_config

from sequence import main

AGENT, OBJECT = "tests", 7    # what an object is called by while it is registered
SECONDS = 60


class Client:
    def __init__(self, told):
        scheme, _, host = told["url"].partition("://")
        self.sizes = {}
        self.agent = nixl_agent(AGENT, nixl_agent_config(backends=[]))
        self.agent.create_backend("OBJ", {
            "access_key": told["key"], "secret_key": told["secret"], "bucket": told["bucket"],
            "endpoint_override": host, "scheme": scheme, "region": "us-east-1",
            "use_virtual_addressing": str(told["style"] == "host").lower(),
            "crtMinLimit": str(1 << 20), **({"ca_bundle": told["ca"]} if told["ca"] else {})})

    def move(self, what, key, first, memory):
        agent, address = self.agent, memory.ctypes.data
        here = agent.get_reg_descs([(address, len(memory), 0, "")], "DRAM")
        there = agent.get_reg_descs([(0, first + len(memory), OBJECT, key)], "OBJ")
        for registered in (here, there):
            agent.register_memory(registered, backends=["OBJ"])
        handle = agent.initialize_xfer(
            what, agent.get_xfer_descs([(address, len(memory), 0)], "DRAM"),
            agent.get_xfer_descs([(first, len(memory), OBJECT)], "OBJ"), AGENT, backends=["OBJ"])
        end, state = time.monotonic() + SECONDS, agent.transfer(handle)
        while state == "PROC" and time.monotonic() < end:
            time.sleep(0.002)
            state = agent.check_xfer_state(handle)
        if state != "DONE":
            raise OSError(f"{what} of {key}: {state}")
        agent.release_xfer_handle(handle)
        for registered in (here, there):
            agent.deregister_memory(registered, backends=["OBJ"])

    def put(self, path, key):
        self.sizes[key] = os.path.getsize(path)
        self.move("WRITE", key, 0, numpy.fromfile(path, dtype=numpy.uint8))

    def part(self, key, path, first, last):
        memory = numpy.zeros(last + 1 - first, dtype=numpy.uint8)
        self.move("READ", key, first, memory)
        memory.tofile(path)

    def get(self, key, path):
        self.part(key, path, 0, self.sizes[key] - 1)


main(Client)
