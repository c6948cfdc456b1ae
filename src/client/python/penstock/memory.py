"""memory.py - buffers: memory that fills write to. SPDX-License-Identifier: Apache-2.0

On the host a buffer is a memfd. The client sends its descriptor to the daemon. The memfd is sealed, so
that neither side can shrink it, and all its pages are allocated. Both sides map the memfd, so a fill
needs no copy. Views and tensors of a buffer hold a reference to the mapping, so they stay valid after the
buffer object is gone. Without a fill socket, a buffer is plain memory.

If the connection is lost during a fill, the daemon may still write to the memfd for a moment. After a fork,
the daemon writes to the memfd for the parent. In both cases the client copies the bytes to a new memfd, and
maps it at the same address, before it registers the buffer again. So no other write reaches the buffer.
"""
import ctypes
import fcntl
import mmap
import os
import threading

from . import dlpack
from .errors import Disconnected, PenstockError

ADD_SEALS, SEAL_SHRINK, SEAL_GROW = 1033, 0x2, 0x4    # some fcntl modules lack these constants
MAP_FIXED = 0x10
CHUNK = 64 << 20


def sealed_file(nbytes):
    fd = os.memfd_create("penstock-buffer", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.posix_fallocate(fd, 0, nbytes)    # charges the pages to this process, not to the daemon
        fcntl.fcntl(fd, ADD_SEALS, SEAL_SHRINK | SEAL_GROW)
    except BaseException:
        os.close(fd)
        raise
    return fd


def map_over(address, nbytes, fd):
    """Maps the file at the address, in place of the mapping that is there."""
    call = ctypes.CDLL(None, use_errno=True).mmap
    call.restype = ctypes.c_void_p
    call.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int,
                     ctypes.c_long]
    got = call(address, nbytes, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED | MAP_FIXED, fd, 0)
    if got != address:
        raise OSError(ctypes.get_errno(), "the memory of a buffer could not be mapped again: make a new buffer "
                      "with Client.buffer()")


class Memory:
    """Mapped pages. They are unmapped when no reference to this object is left."""

    def __init__(self, nbytes, shared):
        self.fd = sealed_file(nbytes) if shared else -1
        self.map = mmap.mmap(self.fd, nbytes) if shared else mmap.mmap(-1, nbytes)
        self.view = memoryview(self.map)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.map))

    def renew(self):
        """Copies the bytes to a new memfd that only this process has, and maps it at the same address."""
        nbytes, fd = len(self.view), sealed_file(len(self.view))
        try:
            for at in range(0, nbytes, CHUNK):
                os.pwrite(fd, self.view[at:at + CHUNK], at)
            map_over(self.address, nbytes, fd)
        except BaseException:
            os.close(fd)
            raise
        self.close_file()
        self.fd = fd

    def close_file(self):
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1

    def __del__(self):
        if hasattr(self, "fd"):
            self.close_file()


class Buffer:
    """Memory for fills, made by Client.buffer. kind: "memfd", "cuda-vmm", "cuda-ipc", or "memory" (without a
    fill socket)."""

    def __init__(self, client, kind, memory, nbytes, members=None, fds=None, device=(dlpack.CPU, 0)):
        self.client, self.kind, self.nbytes, self.device = client, kind, nbytes, device
        self._memory, self._members = memory, members or {}
        self._fds = fds or (lambda: (memory.fd,))
        self._lock = threading.Lock()
        self._session = self._id = None
        self._foreign = False    # another process may write to these pages
        self.closed = False

    # ---- its id in a session ----

    def id_in(self, session):
        """Returns the id of the buffer in this session. If necessary, registers the buffer first."""
        with self._lock:
            if self.closed:
                raise ValueError("the buffer was closed: make a new one with Client.buffer()")
            if self._session is not session:
                self._register(session)
            return self._id

    def _register(self, session):
        if self._foreign and self.kind == "memfd":
            self._memory.renew()
        self._foreign = False
        reply = session.say("register", {"kind": self.kind, "bytes": self.nbytes, **self._members},
                            self._fds())
        if not reply["ok"]:
            raise PenstockError(reply["error"], reply["status"], reply.get("message", ""))
        self._session, self._id = session, reply["buffer"]

    def ended(self, reply):
        """Called at the end of a fill. If the connection was lost, reply is None, and the daemon may still
        write to the buffer."""
        self._foreign = self._foreign or reply is None

    def forked(self):
        self._lock, self._session, self._foreign = threading.Lock(), None, True

    # ---- its bytes ----

    @property
    def memory(self):
        """The whole buffer as a memoryview. A buffer in GPU memory has none."""
        if self.device[0] != dlpack.CPU:
            raise BufferError("a buffer in GPU memory has no memoryview: use tensor()")
        return self._memory.view

    def __len__(self):
        return self.nbytes

    def span(self, offset=0, nbytes=None):
        """Returns a part of the buffer as an object with __dlpack__."""
        nbytes = self.nbytes - offset if nbytes is None else nbytes
        if offset < 0 or nbytes < 0 or offset + nbytes > self.nbytes:
            raise ValueError(f"bytes [{offset}, {offset + nbytes}) do not lie inside the buffer, which has "
                             f"{self.nbytes} bytes")
        return dlpack.Span(self._memory, self._memory.address + offset, nbytes, self.device)

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **how):
        return self.span().__dlpack__(**how)

    def tensor(self, dtype="uint8", shape=None, offset=0):
        """Returns a torch tensor that is a view of this memory. dtype: a torch.dtype, or its name. offset: in
        bytes. If shape is None, the tensor has one dimension, and all elements that fit after offset."""
        import torch
        dtype = getattr(torch, dtype) if isinstance(dtype, str) else dtype
        if shape is None:
            count = (self.nbytes - offset) // dtype.itemsize
            shape = (count,)
        else:
            count = 1
            for n in shape:
                count *= n
        if not count:
            return torch.empty(tuple(shape), dtype=dtype, device=self._torch_device())
        flat = torch.from_dlpack(self.span(offset, count * dtype.itemsize))
        return flat.view(dtype).view(tuple(shape))

    def _torch_device(self):
        return "cpu" if self.device[0] == dlpack.CPU else f"cuda:{self.device[1]}"

    # ---- its end ----

    def close(self):
        """Waits until no fill writes to the buffer any more, and unregisters it. Views stay valid."""
        with self._lock:
            if self.closed:
                return
            self.closed = True
            session, self._session = self._session, None
        if session is not None and not session.lost:
            try:
                session.say("unregister", {"buffer": self._id})
            except Disconnected:
                pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        session = getattr(self, "_session", None)
        if session is not None and not session.lost:
            try:
                session.ask("unregister", {"buffer": self._id}, keep=self._memory)
            except Exception:    # noqa: BLE001 (the interpreter may be at its end)
                pass
