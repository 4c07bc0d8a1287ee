"""The C++ runtime: opens an ACL library, owns its devices, and runs aclnn operators on their threads.

library = aclgrad_native.open("auto")
completions = aclgrad_native.Completions()
device = aclgrad_native.Device(library, 0, completions, pool_limit_bytes=None, stream_limit=4)

`completions.drain()` returns the work that was submitted to a device and is done, as pairs of the caller's ticket and
the result or exception. The descriptor `completions.file` is readable while there is something to drain.
"""

from pathlib import Path

from aclgrad_native.backends import found_runtime, library_files
from aclgrad_native.loading import explanation
from aclgrad_native.versions import installed_versions

try:
    from aclgrad_native._native import (
        AclError,
        AclLibrary,
        ArgmaxCheck,
        BoolCheck,
        Bools,
        BoxCheck,
        CallTemplate,
        Cancellation,
        Completions,
        Constant,
        Device,
        ExecutorStatistics,
        Float,
        Gathering,
        IndexCheck,
        InPlace,
        Input,
        InputFailedError,
        InvalidValueError,
        LibraryError,
        MalformedMessageError,
        MaskEncoding,
        OutOfMemoryError,
        OutputUse,
        Place,
        Pooling,
        PoolStatistics,
        RestTooLargeError,
        RoiAlign,
        StagedTensor,
        VarianceCheck,
        View,
        WorkspaceError,
        extract_payloads,
        fault_class,
        operator_symbols,
    )
except ImportError as error:
    raise ImportError(explanation(error, Path(__file__).parent), name=__name__) from error

__all__ = [
    "AclError",
    "AclLibrary",
    "ArgmaxCheck",
    "BoolCheck",
    "Bools",
    "BoxCheck",
    "CallTemplate",
    "Cancellation",
    "Completions",
    "Constant",
    "Device",
    "ExecutorStatistics",
    "Float",
    "Gathering",
    "InPlace",
    "IndexCheck",
    "Input",
    "InputFailedError",
    "InvalidValueError",
    "LibraryError",
    "MalformedMessageError",
    "MaskEncoding",
    "OutOfMemoryError",
    "OutputUse",
    "Place",
    "PoolStatistics",
    "Pooling",
    "RestTooLargeError",
    "RoiAlign",
    "StagedTensor",
    "VarianceCheck",
    "View",
    "WorkspaceError",
    "extract_payloads",
    "fault_class",
    "found_runtime",
    "installed_versions",
    "library_files",
    "open",
    "operator_symbols",
]


def open(backend: str, config_path: str | None = None) -> AclLibrary:
    """Opens a back end (`auto`, `host`, `ascend` or a path) and initialises it with an aclInit configuration file.

    Raises LibraryError if a library cannot be opened or lacks symbols, and AclError if aclInit fails.
    """
    return AclLibrary(library_files(backend), config_path)
