"""Servers that take shared memory, and names of objects for one test alone."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from aclgrad import _shared_memory
from tests.e2e.fault_plans import assert_no_misuse, write_config
from tests.e2e.shared_objects import Objects, own_objects, sharing_server
from tools.raw_calls import assert_idle
from tools.serving import Server

# A device cannot tell the kinds of clients apart, so each kind of client meets one kind of device.
UNUSED = [{"sync", "host_pointers"}, {"async", "copies"}]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    folder = Path(__file__).parent
    unused = [
        item
        for item in items
        if isinstance(item, pytest.Function) and hasattr(item, "callspec") and item.path.is_relative_to(folder)
        if any(pair <= set(item.callspec.id.split("-")) for pair in UNUSED)
    ]
    config.hook.pytest_deselected(items=unused)
    items[:] = [item for item in items if item not in set(unused)]


@pytest.fixture(scope="session", params=[True, False], ids=["host_pointers", "copies"])
def shared_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder: Path = tmp_path_factory.mktemp("shared")
    with sharing_server(folder, "--acl-config", write_config(folder, host_pointers=request.param)) as server:
        yield server
        assert_idle(server)
    assert_no_misuse(folder)


@pytest.fixture
def objects(monkeypatch: pytest.MonkeyPatch) -> Iterator[Objects]:
    """Names for this test alone, which clients use as well."""
    with own_objects() as objects:
        monkeypatch.setattr(_shared_memory, "PREFIX", objects.prefix)
        yield objects
