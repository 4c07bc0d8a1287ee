"""What a device holds after a good call, to compare with after a fault."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

import aclgrad
from tests.e2e.fault_plans import FaultyServer, call, errors_among, holdings


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
