"""What programs on the strict library begin with."""

PRELUDE = """
NAME = "aclnnAdaptiveAvgPool2dBackward"
acl.call('aclInit', None)
acl.call('aclrtSetDevice', 0)
host = (ctypes.c_uint8 * 4096)()
pageable = ctypes.addressof(host)

def malloc(size=256):
    return acl.create('aclrtMalloc', size, 0).value

def freed(size=256):
    address = malloc(size)
    acl.call('aclrtFree', address)
    return address

def copy_in(address, count=256):
    return acl.aclrtMemcpy(address, count, pageable, count, 1)

def copy_out(address, count=256):
    return acl.aclrtMemcpy(pageable, count, address, count, 2)

def tensor(shape, address=None):
    shape = int64s(shape)
    return acl.aclCreateTensor(shape, len(shape), 0, None, 0, 0, shape, len(shape), address)

def plan(grad, out):
    first, second = tensor((1, 1, 2, 2), grad), tensor((1, 1, 4, 4), out)
    return first, second, acl.plan(NAME, first, second, second)[1]

def launch(executor, stream=None):
    return getattr(acl, NAME)(None, 0, executor, stream)

def hang():
    stream = acl.create('aclrtCreateStream')
    grad, out = malloc(16), malloc(64)
    assert launch(plan(grad, out)[2], stream) == 0
    return stream, grad, out
"""

# For devices that refuse host memory.
MORE = """
import os, time
out = ctypes.c_void_p()
pinned = acl.create('aclrtMallocHost', 256).value

def copy(dst, src, kind=1):
    return acl.aclrtMemcpyAsync(dst, 64, src, 64, kind, None)

def repeatable():
    grad, out, executor = plan(malloc(16), malloc(64))
    acl.call('aclSetAclOpExecutorRepeatable', executor)
    return grad, executor
"""

HANG = {"kind": "hang", "at": 1, "duration_ms": 800}
