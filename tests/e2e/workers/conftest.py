"""The host of two workers that all tests here share."""

from collections.abc import Iterator

import pytest

from tests.e2e.workers.hosts import Host
from tests.service_manager import ServiceManager, managing


@pytest.fixture(scope="package")
def manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceManager]:
    """What the shared host tells systemd."""
    with managing(tmp_path_factory.mktemp("manager")) as manager:
        yield manager


@pytest.fixture(scope="package")
def lasting_host(manager: ServiceManager) -> Iterator[Host]:
    with Host("--pool-bytes", "100000001", "--streams", "3", NOTIFY_SOCKET=manager.address) as host:
        yield host
        assert "Traceback" not in host.log
    assert manager.told[-2:] == ["STOPPING=1", "STATUS=draining"]


@pytest.fixture
def host(lasting_host: Host) -> Host:
    """Both of its workers are ready."""
    lasting_host.wait_until_whole()
    return lasting_host
