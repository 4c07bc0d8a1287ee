"""The ACL functions that the doctor calls, with ctypes, because the runtime hides what it measures."""

import ctypes
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ctypes import POINTER, c_char_p, c_int32, c_size_t, c_uint32, c_void_p
from typing import Any, Final

H2D, D2H, D2D = 1, 2, 3  # aclrtMemcpyKind
HUGE_FIRST: Final = 0  # aclrtMemMallocPolicy
_MEMORY_KINDS: Final = (1, 0)  # aclrtMemAttr: HBM, or DDR on a chip without it
_TEXT_BYTES: Final = 8192

_handle = POINTER(c_void_p)
_PROTOTYPES: Final[dict[str, tuple[Any, ...]]] = {
    "aclInit": (c_char_p,),
    "aclFinalize": (),
    "aclrtGetVersion": (POINTER(c_int32),) * 3,
    "aclrtGetDeviceCount": (POINTER(c_uint32),),
    "aclrtSetDevice": (c_int32,),
    "aclrtResetDevice": (c_int32,),
    "aclrtGetMemInfo": (c_int32, POINTER(c_size_t), POINTER(c_size_t)),
    "aclrtMallocAlign32": (_handle, c_size_t, c_int32),
    "aclrtFree": (c_void_p,),
    "aclrtMallocHost": (_handle, c_size_t),
    "aclrtFreeHost": (c_void_p,),
    "aclrtMemcpy": (c_void_p, c_size_t, c_void_p, c_size_t, c_int32),
    "aclrtMemcpyAsync": (c_void_p, c_size_t, c_void_p, c_size_t, c_int32, c_void_p),
    "aclrtMemset": (c_void_p, c_size_t, c_int32, c_size_t),
    "aclrtCreateStreamWithConfig": (_handle, c_uint32, c_uint32),
    "aclrtDestroyStream": (c_void_p,),
    "aclrtSynchronizeStreamWithTimeout": (c_void_p, c_int32),
    "aclrtStreamQuery": (c_void_p, POINTER(c_int32)),
}


class AbiError(Exception):
    """A function failed that should succeed; the message has its code and the library's text."""


class Abi:
    """The functions of a set of libraries. `calling` names the last that was called: it may hang."""

    def __init__(self, files: Sequence[tuple[str, bool]]) -> None:
        """Raises OSError for a required file that cannot be opened, and AbiError for a function that is missing."""
        self.calling = ""
        libraries = []
        for path, is_required in files:
            try:
                libraries.append(ctypes.CDLL(path, os.RTLD_LAZY | os.RTLD_LOCAL))
            except OSError:
                if is_required:
                    raise
        self._functions = {name: _bound(libraries, name, c_int32, each) for name, each in _PROTOTYPES.items()}
        self._message = _bound(libraries, "aclGetRecentErrMsg", c_char_p, ())
        self._soc_name = _bound(libraries, "aclrtGetSocName", c_char_p, ())
        self._release = _bound(libraries, "aclFinalizeReference", c_int32, (c_void_p,), is_required=False)

    def code(self, function: str, *arguments: Any) -> int:
        """Calls a function and returns its result."""
        self.calling = function
        return int(self._functions[function](*arguments))

    def call(self, function: str, *arguments: Any) -> None:
        """Calls a function that should succeed."""
        if code := self.code(function, *arguments):
            raise AbiError(f"{function} returned {code}: {self.message() or 'no text'}")

    def make(self, function: str, *arguments: Any) -> int:
        """Returns the handle or address that a function makes."""
        handle = c_void_p()
        self.call(function, ctypes.byref(handle), *arguments)
        return handle.value or 0

    def message(self) -> str:
        """Returns and clears this thread's text."""
        return (self._message() or b"")[:_TEXT_BYTES].decode(errors="replace")

    @property
    def soc_name(self) -> str:
        return (self._soc_name() or b"").decode(errors="replace")

    @property
    def version(self) -> str:
        numbers = [c_int32() for _ in range(3)]
        self.call("aclrtGetVersion", *map(ctypes.byref, numbers))
        return ".".join(str(each.value) for each in numbers)

    def device_count(self) -> int:
        count = c_uint32()
        self.call("aclrtGetDeviceCount", ctypes.byref(count))
        return count.value

    def free_memory(self) -> tuple[int, int]:
        """Returns the free and the total bytes of the current device."""
        free, total = c_size_t(), c_size_t()
        for kind in _MEMORY_KINDS:
            self.call("aclrtGetMemInfo", kind, ctypes.byref(free), ctypes.byref(total))
            if total.value:
                break
        return free.value, total.value

    def release(self) -> None:
        """Undoes one aclInit; libraries without aclFinalizeReference count only the first."""
        if self._release is not None:
            self._release(None)

    @contextmanager
    def memory(self, size_bytes: int) -> Iterator[int]:
        """Yields device memory."""
        address = self.make("aclrtMallocAlign32", size_bytes, HUGE_FIRST)
        try:
            yield address
        finally:
            self.call("aclrtFree", address)

    @contextmanager
    def pinned(self, size_bytes: int) -> Iterator[int]:
        """Yields pinned host memory."""
        address = self.make("aclrtMallocHost", size_bytes)
        try:
            yield address
        finally:
            self.call("aclrtFreeHost", address)

    @contextmanager
    def stream(self, flags: int = 0) -> Iterator[int]:
        stream = self.make("aclrtCreateStreamWithConfig", 0, flags)
        try:
            yield stream
        finally:
            self.call("aclrtDestroyStream", stream)

    def copy(self, target: int, source: int, size_bytes: int, kind: int) -> None:
        """Copies, and returns when the copy is done."""
        self.call("aclrtMemcpy", target, size_bytes, source, size_bytes, kind)

    def wait(self, stream: int, timeout_ms: int = 10_000) -> None:
        self.call("aclrtSynchronizeStreamWithTimeout", stream, timeout_ms)


def _bound(
    libraries: Sequence[ctypes.CDLL], name: str, result: Any, arguments: tuple[Any, ...], *, is_required: bool = True
) -> Any:
    """Returns the function of the first library that has it; None, if it is not required, if there is none."""
    for library in libraries:
        if hasattr(library, name):
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
            return function
    if is_required:
        raise AbiError(f"no library has {name}")
    return None
