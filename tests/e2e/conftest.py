"""What e2e tests share: a device after a good call, to compare with after a fault, and shared memory."""

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

import aclgrad
from aclgrad import _shared_memory
from tests.e2e.fault_plans import FaultyServer, call, errors_among, holdings, write_config
from tests.e2e.raw_calls import assert_idle
from tests.e2e.shared_objects import Objects, own_objects, sharing_server
from tests.serving import Server


@pytest.fixture(scope="session")
def sound_holdings(tmp_path_factory: pytest.TempPathFactory) -> Callable[[bool], dict[str, int]]:
    """Gives, with and without host pointers, what a device without faults has in use after one good call."""

    @cache
    def measure(host_pointers: bool) -> dict[str, int]:
        folder: Path = tmp_path_factory.mktemp("sound")
        with (
            FaultyServer(folder, host_pointers=host_pointers) as server,
            aclgrad.Client(server.address) as client,
        ):
            assert errors_among([call(client)]) == []
            return holdings(client)

    return measure


@pytest.fixture(scope="session", params=[True, False], ids=["host_pointers", "copies"])
def shared_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder: Path = tmp_path_factory.mktemp("shared")
    with sharing_server(folder, "--acl-config", write_config(folder, host_pointers=request.param)) as server:
        yield server
        assert_idle(server)


@pytest.fixture
def objects(monkeypatch: pytest.MonkeyPatch) -> Iterator[Objects]:
    """Names for this test alone, which clients use as well."""
    with own_objects() as objects:
        monkeypatch.setattr(_shared_memory, "PREFIX", objects.prefix)
        yield objects
