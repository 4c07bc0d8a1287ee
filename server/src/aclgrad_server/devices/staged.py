"""A tensor that is written or read one piece at a time."""

import os
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import aclgrad_native as native


class StagedTensor:
    """A tensor in the memory of a device or of the host that is written or read one piece at a time."""

    def __init__(self, staged: native.StagedTensor, submit: Callable[..., Awaitable[Any]]) -> None:
        self.native = staged
        self.size_bytes = staged.size_bytes
        self._submit = submit

    async def read_file(self, file: int, offset: int, deadline: float) -> int:
        """Fills the tensor from an open file and returns how many bytes it had; also raises OSError."""
        count: int = await self._with_file(self.native.read_file, file, offset, deadline)
        return count

    async def write_file(self, file: int, offset: int, deadline: float) -> None:
        """Writes the tensor into an open file; also raises OSError."""
        await self._with_file(self.native.write_file, file, offset, deadline)

    def close(self) -> None:
        """Releases the tensor; work under way still ends."""
        self.native.close()

    async def _with_file(self, submit: Callable[..., None], file: int, offset: int, deadline: float) -> Any:
        # A cancelled caller closes its file while a thread still uses it; the number may then be that of
        # another client's memory.
        own = os.dup(file)
        return await self._submit(submit, own, offset, deadline, on_end=partial(os.close, own))


Write = tuple[StagedTensor, int, memoryview]
"""Bytes for a tensor, from this offset on."""
Read = tuple[StagedTensor, int, bytes, int]
"""A message to make: a prefix, and behind it so many bytes of a tensor, from this offset on."""
