"""cuda.py - buffers in GPU memory, by libcuda.so.1 and ctypes. SPDX-License-Identifier: Apache-2.0

cuda-vmm: this module allocates a chunk, and the daemon imports the chunk's file descriptor. The daemon
can access only that chunk.
cuda-ipc: the daemon gets a handle of 64 bytes and an offset. The handle names a whole allocation of
cudaMalloc, for example the allocation that contains a tensor. The offset says where in the allocation the
buffer begins. The allocation must not be freed before the buffer is unregistered.

This module was written against cuda.h of CUDA 12, and tested with a fake driver (story x15). It has not
run on a GPU yet.
"""
import base64
import ctypes
import os
import threading

from . import dlpack
from .errors import PenstockError
from .memory import Buffer

DEVICE, PINNED, POSIX_FD, READ_WRITE, MINIMUM = 1, 1, 1, 3, 0    # values of enums in cuda.h
IPC_CAPABLE = 10                                                  # CU_POINTER_ATTRIBUTE_...
U64, SIZE, INT, PTR = ctypes.c_uint64, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p


class Location(ctypes.Structure):
    _fields_ = [("type", INT), ("id", INT)]


class AllocationProp(ctypes.Structure):
    _fields_ = [("type", INT), ("handle_types", INT), ("location", Location), ("win32", PTR),
                ("compression", ctypes.c_uint8), ("rdma", ctypes.c_uint8), ("usage", ctypes.c_uint16),
                ("reserved", ctypes.c_uint8 * 4)]


class AccessDesc(ctypes.Structure):
    _fields_ = [("location", Location), ("flags", INT)]


class IpcHandle(ctypes.Structure):
    _fields_ = [("reserved", ctypes.c_uint8 * 64)]


CALLS = {
    "cuInit": [ctypes.c_uint], "cuDeviceGet": [PTR, INT], "cuDeviceGetUuid_v2": [PTR, INT],
    "cuDevicePrimaryCtxRetain": [PTR, INT], "cuCtxSetCurrent": [PTR],
    "cuGetErrorName": [INT, PTR],
    "cuMemGetAllocationGranularity": [PTR, PTR, INT], "cuMemCreate": [PTR, SIZE, PTR, U64],
    "cuMemExportToShareableHandle": [PTR, U64, INT, U64], "cuMemRelease": [U64],
    "cuMemAddressReserve": [PTR, SIZE, SIZE, U64, U64], "cuMemAddressFree": [U64, SIZE],
    "cuMemMap": [U64, SIZE, SIZE, U64, U64], "cuMemUnmap": [U64, SIZE],
    "cuMemSetAccess": [U64, SIZE, PTR, SIZE],
    "cuMemAlloc_v2": [PTR, SIZE], "cuMemFree_v2": [U64],
    "cuMemGetAddressRange_v2": [PTR, PTR, U64], "cuIpcGetMemHandle": [PTR, U64],
    "cuPointerGetAttribute": [PTR, INT, U64],
}


class Driver:
    """The CUDA driver of this machine. If a call fails, `call` raises PenstockError."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")
        self.contexts = {}
        for name, arguments in CALLS.items():
            function = getattr(self.library, name)
            function.restype, function.argtypes = INT, arguments
        self.call("cuInit", 0)

    def call(self, name, *arguments):
        status = getattr(self.library, name)(*arguments)
        if status:
            text = ctypes.c_char_p()
            self.library.cuGetErrorName(status, ctypes.byref(text))
            raise PenstockError("cuda", 0, f"the CUDA call {name} failed: {(text.value or b'error').decode()} "
                                f"({status}). Check the GPU with nvidia-smi")

    def enter(self, ordinal):
        """Makes the primary context of the device current in this thread. torch uses the same context."""
        if ordinal not in self.contexts:
            device, context = INT(), PTR()
            self.call("cuDeviceGet", ctypes.byref(device), ordinal)
            self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
            self.contexts[ordinal] = context
        self.call("cuCtxSetCurrent", self.contexts[ordinal])

    def uuid(self, ordinal):
        device, raw = INT(), (ctypes.c_uint8 * 16)()
        self.call("cuDeviceGet", ctypes.byref(device), ordinal)
        self.call("cuDeviceGetUuid_v2", raw, device)
        digits = bytes(raw).hex()
        return "GPU-" + "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


lock = threading.Lock()
driver_or_why = None


def driver():
    """Returns the Driver, or a sentence that says why there is none."""
    global driver_or_why
    with lock:
        if driver_or_why is None:
            try:
                driver_or_why = Driver()
            except OSError:
                driver_or_why = ("libcuda.so.1 can't be loaded, because this machine has no NVIDIA driver, or "
                                 "this container can't see it: install the driver, or start the container "
                                 "with the GPU")
            except (PenstockError, AttributeError) as failure:
                driver_or_why = (f"the NVIDIA driver can't be used: {failure}. If a symbol is undefined, "
                                 "install a newer driver")
        return driver_or_why


def ordinal_of(device):
    return int(device.partition(":")[2] or 0)


def refusal(hello, kind, device):
    """Returns None if the device can have buffers of this kind. Otherwise returns why not: "off: REASON"."""
    state = hello.get("kinds", {}).get(kind, "off: this Penstock does not support this kind of memory")
    if state != "on":
        return state
    here = driver()
    if isinstance(here, str):
        return f"off: {here}"
    try:
        uuid = here.uuid(ordinal_of(device))
    except PenstockError as failure:
        return f"off: {failure}"
    if uuid not in [gpu["uuid"] for gpu in hello.get("gpus", ())]:
        return f"off: Penstock does not see the GPU {uuid}: make it visible to Penstock's service or container"
    return None


# ---- memory ----

class Chunk:
    """GPU memory with a file descriptor, mapped on its device. The memory is freed when no reference to this
    object is left."""

    def __init__(self, here, ordinal, nbytes):
        self.here, self.ordinal, self.fd = here, ordinal, -1
        self.address = self.handle = self.mapped = 0
        here.enter(ordinal)
        prop = AllocationProp(type=PINNED, handle_types=POSIX_FD, location=Location(DEVICE, ordinal))
        step, where, handle, fd = SIZE(), U64(), U64(), INT()
        here.call("cuMemGetAllocationGranularity", ctypes.byref(step), ctypes.byref(prop), MINIMUM)
        self.nbytes = -(-nbytes // step.value) * step.value
        here.call("cuMemCreate", ctypes.byref(handle), self.nbytes, ctypes.byref(prop), 0)
        self.handle = handle.value
        here.call("cuMemExportToShareableHandle", ctypes.byref(fd), handle, POSIX_FD, 0)
        self.fd = fd.value
        here.call("cuMemAddressReserve", ctypes.byref(where), self.nbytes, 0, 0, 0)
        self.address = where.value
        here.call("cuMemMap", where, self.nbytes, 0, handle, 0)
        self.mapped = True
        access = AccessDesc(Location(DEVICE, ordinal), READ_WRITE)
        here.call("cuMemSetAccess", where, self.nbytes, ctypes.byref(access), 1)

    def __del__(self):
        library = self.here.library
        if self.mapped:
            self.here.enter(self.ordinal)
            library.cuMemUnmap(self.address, self.nbytes)
        if self.address:
            library.cuMemAddressFree(self.address, self.nbytes)
        if self.handle:
            library.cuMemRelease(self.handle)
        if self.fd >= 0:
            os.close(self.fd)


class Allocation:
    """Plain GPU memory. It is freed when no reference to this object is left."""

    def __init__(self, here, ordinal, nbytes):
        self.here, self.ordinal, self.address = here, ordinal, 0
        where = U64()
        here.enter(ordinal)
        here.call("cuMemAlloc_v2", ctypes.byref(where), nbytes)
        self.address = where.value

    def __del__(self):
        if self.address:
            self.here.enter(self.ordinal)
            self.here.library.cuMemFree_v2(self.address)


class Borrowed:
    """The memory of a tensor. This object holds a reference to the tensor."""

    def __init__(self, tensor):
        self.tensor, self.address = tensor, tensor.data_ptr()


# ---- buffers ----

def need_driver():
    here = driver()
    if isinstance(here, str):
        raise PenstockError("no_gpu", 503, here)
    return here


def ipc_members(here, address):
    """Returns the handle of the allocation that contains this address, and the offset of the address in
    the allocation."""
    capable, base, size, handle = ctypes.c_uint32(), U64(), SIZE(), IpcHandle()
    here.call("cuPointerGetAttribute", ctypes.byref(capable), IPC_CAPABLE, address)
    if not capable.value:
        raise PenstockError("not_ipc_capable", 422, "this GPU memory can't be shared, because it comes from "
                            "torch's expandable segments or cudaMallocAsync, or is managed memory: use "
                            "Client.buffer(nbytes, device)")
    here.call("cuMemGetAddressRange_v2", ctypes.byref(base), ctypes.byref(size), address)
    here.call("cuIpcGetMemHandle", ctypes.byref(handle), base)
    return {"handle": base64.b64encode(bytes(handle)).decode(), "base_offset": address - base.value}


def buffer(client, kind, nbytes, device):
    here, ordinal = need_driver(), ordinal_of(device)
    members = {"gpu": here.uuid(ordinal)}
    if kind == "cuda-vmm":
        memory = Chunk(here, ordinal, nbytes)
        members["chunks"] = [memory.nbytes]
        fds = lambda: (memory.fd,)    # noqa: E731
    else:
        memory = Allocation(here, ordinal, nbytes)
        members.update(ipc_members(here, memory.address))
        fds = tuple
    return Buffer(client, kind, memory, nbytes, members, fds, (dlpack.CUDA, ordinal))


def of_tensor(client, tensor):
    here = need_driver()
    if not tensor.is_cuda or not tensor.is_contiguous():
        raise ValueError("register() needs a contiguous CUDA tensor: call the tensor's contiguous(), or use "
                         "Client.buffer(nbytes) for memory of the host")
    ordinal = tensor.device.index
    here.enter(ordinal)
    members = {"gpu": here.uuid(ordinal), **ipc_members(here, tensor.data_ptr())}
    return Buffer(client, "cuda-ipc", Borrowed(tensor), tensor.numel() * tensor.element_size(), members,
                  tuple, (dlpack.CUDA, ordinal))
