"""The host library, opened once for each file of tests."""

import gc
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import aclgrad_native
from tests.native.blocking import BlockingDevice
from tools.serving import clean_environment

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def library() -> Iterator[aclgrad_native.AclLibrary]:
    yield aclgrad_native.open("host")
    # Other tests of this process initialise the runtime again: nothing of this one may be left then.
    gc.collect()


@pytest.fixture
def device(library: aclgrad_native.AclLibrary) -> BlockingDevice:
    return BlockingDevice(library)


@pytest.fixture
def run_program() -> Callable[..., str]:
    """Runs a program in its own process, because aclInit reads its configuration once; returns its output."""

    def run(program: str, *arguments: str, **variables: str) -> str:
        finished = subprocess.run(
            [sys.executable, "-c", program, *arguments],
            env=clean_environment(PYTHONPATH=str(ROOT), PYTHONUNBUFFERED="1", **variables),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert finished.returncode == 0, finished.stderr
        return finished.stdout

    return run
