"""The host library, opened once for each file of tests."""

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

import aclgrad_native
from tests.native.blocking import BlockingDevice
from tools.strict import config_text, strict_backend


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Repeats the tests of a module that has LIBRARIES on a library with each of these settings."""
    libraries = getattr(metafunc.module, "LIBRARIES", {})
    if "library" in metafunc.fixturenames and libraries:
        metafunc.parametrize("library", libraries.values(), ids=libraries, indirect=True, scope="module")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Only tests on the library as it is configured differ in `make test-modes`."""
    if "library" not in getattr(item, "fixturenames", ()) or hasattr(getattr(item, "module", None), "LIBRARIES"):
        item.add_marker("once")


@pytest.fixture(scope="module")
def library(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[aclgrad_native.AclLibrary]:
    """The host library; if it is strict, it has nothing to report at its end."""
    folder, config = tmp_path_factory.mktemp("library"), None
    report = folder / "strict.txt"
    if settings := getattr(request, "param", {}):
        config = str(folder / "acl.json")
        Path(config).write_text(config_text(strict_report=report, **settings))
    yield aclgrad_native.open(strict_backend(config), config)
    # Other tests of this process initialise the runtime again: nothing of this one may be left then.
    gc.collect()
    assert not report.exists() or report.read_text() == ""


@pytest.fixture
def device(library: aclgrad_native.AclLibrary) -> BlockingDevice:
    return BlockingDevice(library)
