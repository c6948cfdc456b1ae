"""penstock - reads of many objects, straight into memory. SPDX-License-Identifier: Apache-2.0

    import penstock
    client = penstock.connect()                      # finds credentials and endpoint as SDKs do
    buffer = client.buffer(64 << 20)                 # shared memory; with device="cuda:0": GPU memory
    filled = client.fill(buffer, "train", ["a.bin", ("b.tar", 5120, 4096)])
    filled.views[1], filled.tensors("uint8")         # a memoryview and tensors: views of the buffer

In reading order: errors.py, keys.py (credentials, SigV4), session.py (the fill socket), memory.py and
dlpack.py (buffers), items.py, client.py, http.py (batches over HTTP), follow.py, ring.py. The package imports cuda.py
only when a program asks for GPU memory. It never imports torch.py: programs import `penstock.torch`.
"""
from .client import Client, connect
from .errors import Disconnected, ItemError, PenstockError, TimedOut

__version__ = "0.2.0.dev0"
__all__ = ["Client", "Disconnected", "ItemError", "PenstockError", "TimedOut", "connect"]
