"""The host library, opened once for each file of tests."""

import gc
from collections.abc import Iterator

import pytest

import aclgrad_native
from tests import sanitizers
from tests.native.blocking import BlockingDevice
from tools.strict import strict_backend


@pytest.fixture(scope="module")
def library() -> Iterator[aclgrad_native.AclLibrary]:
    yield aclgrad_native.open(strict_backend(None))
    # Other tests of this process initialise the runtime again: nothing of this one may be left then.
    gc.collect()


@pytest.fixture
def device(library: aclgrad_native.AclLibrary) -> BlockingDevice:
    return BlockingDevice(library)


@pytest.fixture(scope="session")
def built() -> sanitizers.Build:
    """The C++ programs and libraries of these tests."""
    return sanitizers.build()
