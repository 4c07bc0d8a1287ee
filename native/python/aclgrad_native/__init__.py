"""The C++ runtime: opens an ACL library, owns its devices, and runs aclnn operators on them.

library = aclgrad_native.open("auto")
device = aclgrad_native.Device(library, 0, pool_limit_bytes=None, stream_limit=4)
"""

from aclgrad_native._native import (
    AclError,
    AclLibrary,
    Argmax,
    Device,
    InvalidValueError,
    LibraryError,
    MalformedMessageError,
    MemoryPool,
    OutOfMemoryError,
    PoolBlock,
    Pooling,
    PoolStatistics,
    ReplyBuffer,
    ReplyPart,
    RoiAlign,
    StagedTensor,
    Staging,
    check_indices,
    count_work,
    extract_payloads,
    fault_class,
    trim_allocator,
    tune_allocator,
)
from aclgrad_native.backends import library_files
from aclgrad_native.calls import OperatorCall

__all__ = [
    "AclError",
    "AclLibrary",
    "Argmax",
    "Device",
    "InvalidValueError",
    "LibraryError",
    "MalformedMessageError",
    "MemoryPool",
    "OperatorCall",
    "OutOfMemoryError",
    "PoolBlock",
    "PoolStatistics",
    "Pooling",
    "ReplyBuffer",
    "ReplyPart",
    "RoiAlign",
    "StagedTensor",
    "Staging",
    "check_indices",
    "count_work",
    "extract_payloads",
    "fault_class",
    "library_files",
    "open",
    "trim_allocator",
    "tune_allocator",
]


def open(backend: str, config_path: str | None = None) -> AclLibrary:
    """Opens a back end (`auto`, `host`, `ascend` or a path) and initialises it with an aclInit configuration file.

    Raises LibraryError where a library cannot be opened or lacks symbols, and AclError where aclInit fails.
    """
    return AclLibrary(library_files(backend), config_path)
