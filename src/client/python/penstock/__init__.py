"""penstock - reads of many objects, straight into memory. SPDX-License-Identifier: Apache-2.0

    import penstock
    client = penstock.connect()                      # credentials and endpoint as SDKs find them
    buffer = client.buffer(64 << 20)                 # shared memory; of a GPU with device="cuda:0"
    filled = client.fill(buffer, "train", ["a.bin", ("b.tar", 5120, 4096)])
    bytes(filled.views[1]), filled.tensors("uint8")  # views of the buffer: no byte was copied

In reading order: errors.py, keys.py (credentials, SigV4), session.py (the fill socket), memory.py and
dlpack.py (buffers), items.py, client.py, http.py (batches over HTTP), ring.py. cuda.py and torch.py
are imported when they are needed.
"""
from .client import Client, connect
from .errors import Disconnected, ItemError, PenstockError, TimedOut

__version__ = "0.1.0"
__all__ = ["Client", "Disconnected", "ItemError", "PenstockError", "TimedOut", "connect"]
