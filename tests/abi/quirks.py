"""The differences between libraries of this ABI, as data: a test names what it needs, and is skipped without it.

The host library can do everything here. Other libraries, such as CANN's, need not.
"""

from typing import Any

from tools.abi.acl import Library

ABILITIES = {
    "settings": "reads the key `host` of its configuration: products, limits, faults",
    "host memory": "takes addresses of host memory for device memory",
    "texts": "says in its messages which argument it means, and which value that has",
    "nulls": "answers null pointers, and handles that are gone or never were, where others may crash",
    "bad values": "survives bad values in device memory; on a card they are a drill of their own",
    "exact limits": "counts memory to the byte and streams to the last one, with nobody else on the device",
    "exports": "exports what the headers declare, and nothing else",
}

OPTIONAL = {
    "aclHostPointersUsable",
    "aclHostExecutorIsShort",
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


class TestedLibrary(Library):
    """The library under test, with what it can do; a test of a function that it does not have is skipped."""

    __test__ = False

    def __init__(self, paths: str) -> None:
        super().__init__(paths, OPTIONAL)
        self.abilities = set(ABILITIES) if OF_THE_HOST_LIBRARY in vars(self) else set()

    def __getattr__(self, name: str) -> Any:
        if name in OPTIONAL:
            import pytest  # here, because programs of the tests start twice as fast without it

            pytest.skip(f"the library has no {name}")
        raise AttributeError(name)

    def told(self, text: str) -> str:
        """What the library says instead of the host library's words: nothing that a test can know, if not those."""
        return text if "texts" in self.abilities else ""

    def says(self, text: str) -> bool:
        """Whether the thread's message has the text, as far as the library says such things."""
        return self.told(text) in self.message()
