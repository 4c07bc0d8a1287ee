"""The library under test is a parameter: ACLGRAD_ABI_LIBRARY names it; the default is the host library as installed."""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .acl import Library

ACL_ERROR_REPEAT_INITIALIZE = 100002
TESTS = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="package")
def library_path() -> str:
    named = os.environ.get("ACLGRAD_ABI_LIBRARY")
    if named:
        return named
    # Next to the compiled module: in an editable install the package's own folder is the source tree.
    module = importlib.util.find_spec("aclgrad_native._native")
    assert module is not None
    assert module.origin is not None
    return str(Path(module.origin).parent / "libacl_host.so")


@pytest.fixture(scope="package")
def initialized(library_path: str) -> Iterator[Library]:
    library = Library(library_path)
    code = library.aclInit(None)
    assert code in (0, ACL_ERROR_REPEAT_INITIALIZE)
    yield library
    if code == 0:
        library.call("aclFinalize")


@pytest.fixture
def acl(initialized: Library) -> Iterator[Library]:
    """The library with device 0 current in this thread and no message left from before."""
    initialized.call("aclrtSetDevice", 0)
    initialized.message()
    yield initialized
    initialized.call("aclrtSetDevice", 0)  # a test may have changed or lost the context
    initialized.call("aclrtResetDevice", 0)
    initialized.call("aclrtResetDevice", 0)


@pytest.fixture(scope="package")
def run_program(library_path: str) -> Callable[..., list[str]]:
    """Runs a Python program, in which `acl` is a Library, in a process of its own; returns the lines that it prints."""

    def run(program: str, **environment: str) -> list[str]:
        preamble = f"import ctypes, threading\nfrom abi.acl import *\nacl = Library({library_path!r})\n"
        finished = subprocess.run(
            [sys.executable, "-c", preamble + program],
            env={**os.environ, "PYTHONPATH": str(TESTS), **environment},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert finished.returncode == 0, finished.stderr
        return finished.stdout.splitlines()

    return run


@pytest.fixture
def busy(acl: Library) -> Iterator[Callable[[object], None]]:
    """A function that gives a stream so much to do that the caller gets ahead of it."""
    size = 64 << 20
    with acl.buffer(size) as address:

        def work(stream: object) -> None:
            for value in range(24):
                acl.call("aclrtMemsetAsync", address, size, value, size, stream)

        yield work
        acl.call("aclrtSynchronizeDevice")
