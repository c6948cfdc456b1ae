"""dlpack.py - memory as DLPack capsules, by ctypes alone. SPDX-License-Identifier: Apache-2.0

A consumer (torch, numpy, jax) takes the struct out of the capsule. It calls the struct's deleter when its
last tensor on this memory is gone. Until then, `held` has a reference to the owner of the memory. If no
consumer took the struct, the destructor of the capsule drops this reference. The layouts of the struct
(unversioned, and version 1) are in https://dmlc.github.io/dlpack/latest/c_api.html.
"""
import ctypes

CPU, CUDA = 1, 2
UINT8 = 1, 8, 1     # code (unsigned), bits, lanes
PLAIN, VERSIONED = b"dltensor", b"dltensor_versioned"


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32),
                ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class Managed(ctypes.Structure):
    _fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class ManagedVersioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32),
                ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
                ("flags", ctypes.c_uint64), ("tensor", Tensor)]


held = {}    # address of a struct: (the struct, its shape, the owner of the memory)


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def let_go(address):
    held.pop(address, None)


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def end_capsule(capsule):
    for name in (PLAIN, VERSIONED):    # a consumer that took the struct has renamed the capsule
        if is_valid(capsule, name):
            held.pop(get_pointer(capsule, name), None)


def function(name, result, *arguments):
    """Returns a function of Python's C API with these types. The attributes of ctypes.pythonapi are not used,
    because all modules share them: another module may set other types there."""
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


new_capsule = function("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p,
                       ctypes.c_void_p)
is_valid = function("PyCapsule_IsValid", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
get_pointer = function("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)


def capsule(owner, address, nbytes, device=(CPU, 0), max_version=None):
    """Returns a DLPack capsule for the `nbytes` bytes (uint8) at `address`. The memory is valid as long as `owner` exists."""
    versioned = max_version is not None and max_version[0] >= 1
    managed = ManagedVersioned(major=1, minor=0) if versioned else Managed()
    shape = (ctypes.c_int64 * 1)(nbytes)
    tensor = managed.tensor
    tensor.data, tensor.ndim, tensor.shape = address, 1, shape
    tensor.device_type, tensor.device_id = device
    tensor.code, tensor.bits, tensor.lanes = UINT8
    managed.deleter = ctypes.cast(let_go, ctypes.c_void_p)
    where = ctypes.addressof(managed)
    held[where] = managed, shape, owner
    return new_capsule(where, VERSIONED if versioned else PLAIN,
                       ctypes.cast(end_capsule, ctypes.c_void_p))


class Span:
    """A part of a buffer, with the methods that consumers of DLPack call."""

    def __init__(self, owner, address, nbytes, device=(CPU, 0)):
        self.owner, self.address, self.nbytes, self.device = owner, address, nbytes, device

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if copy or (dl_device is not None and tuple(dl_device) != self.device):
            raise BufferError("DLPack can't copy a buffer, or move it to another device: call __dlpack__ "
                              "without the arguments copy and dl_device")
        return capsule(self.owner, self.address, self.nbytes, self.device, max_version)
