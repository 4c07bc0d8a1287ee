"""The host of two workers that all tests here share."""

from collections.abc import Iterator

import pytest

from tests.e2e.workers.hosts import Host


@pytest.fixture(scope="package")
def lasting_host() -> Iterator[Host]:
    with Host("--pool-bytes", "100000001", "--streams", "3") as host:
        yield host
        assert "Traceback" not in host.log


@pytest.fixture
def host(lasting_host: Host) -> Host:
    """Both of its workers are ready."""
    lasting_host.wait_until_whole()
    return lasting_host
