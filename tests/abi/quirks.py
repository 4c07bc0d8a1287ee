"""The differences between libraries of this ABI, as data: a test names what it needs, and is skipped without it.

The host library can do everything here. Other libraries, such as CANN's, need not.
"""

ABILITIES = {
    "settings": "reads the key `host` of its configuration: products, limits, faults, strict mode",
    "host memory": "takes addresses of host memory for device memory",
    "texts": "says in its messages which argument it means, and which value that has",
    "nulls": "answers null pointers, and handles that are gone or never were, where others may crash",
    "bad values": "survives bad values in device memory; on a card they are a drill of their own",
    "exact limits": "counts memory to the byte and streams to the last one, with nobody else on the device",
    "exports": "exports what the headers declare, and nothing else",
}

OPTIONAL = {
    "aclHostPointersUsable",
    "aclFinalizeReference",
    "aclrtGetLastError",
    "aclrtPeekAtLastError",
    "aclrtMallocAlign32",
    "aclrtCtxGetSysParamOpt",
    "aclrtCreateStreamWithConfig",
    "aclrtQueryDeviceStatus",
    "aclrtResetDeviceForce",
    "AclSetInputTensorAddr",
    "AclSetOutputTensorAddr",
    "AclSetTensorAddr",
}
"""Functions that not every release has."""

OF_THE_HOST_LIBRARY = "aclHostPointersUsable"
"""Whoever exports it has all abilities."""
