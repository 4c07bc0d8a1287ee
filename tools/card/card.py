"""One card through the ABI: the runtime hides what is measured here."""

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from tools.abi.acl import Library
from tools.abi.prototypes import read_prototypes

H2D, D2H, D2D = 1, 2, 3  # aclrtMemcpyKind
HUGE_FIRST: Final = 0  # aclrtMemMallocPolicy
_MEMORY_KINDS: Final = (1, 0)  # aclrtMemAttr: HBM, or DDR on a chip without it


class Card(Library):
    """A library and what the examinations do with it."""

    def __init__(self, files: Sequence[tuple[str, bool]]) -> None:
        """Takes files as `aclgrad_native.library_files` has them; raises OSError if a required one is missing."""
        super().__init__(
            ":".join(path for path, is_required in files if is_required or _opens(path)), read_prototypes()
        )

    def code(self, function: str, *arguments: Any) -> int:
        """Calls a function and returns its result."""
        return int(getattr(self, function)(*arguments))

    def make(self, function: str, *arguments: Any) -> int:
        """Returns the handle or address that a function makes."""
        return self.create(function, *arguments).value or 0

    @property
    def soc_name(self) -> str:
        return (self.aclrtGetSocName() or b"").decode(errors="replace")

    @property
    def version(self) -> str:
        numbers = [ctypes.c_int32() for _ in range(3)]
        self.call("aclrtGetVersion", *map(ctypes.byref, numbers))
        return ".".join(str(each.value) for each in numbers)

    def free_memory(self) -> tuple[int, int]:
        """Returns the free and the total bytes of the current device."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        for kind in _MEMORY_KINDS:
            self.call("aclrtGetMemInfo", kind, ctypes.byref(free), ctypes.byref(total))
            if total.value:
                break
        return free.value, total.value

    def release(self) -> None:
        """Undoes one aclInit; libraries without aclFinalizeReference count only the first."""
        if hasattr(self, "aclFinalizeReference"):
            self.aclFinalizeReference(None)

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
    def stream_of(self, flags: int) -> Iterator[int]:
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


def _opens(path: str) -> bool:
    try:
        ctypes.CDLL(path)
    except OSError:
        return False
    return True
