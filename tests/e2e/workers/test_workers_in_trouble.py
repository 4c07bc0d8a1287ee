"""Workers that stop, get other settings, or have a card that fails; and servers that need a certificate or a token."""

import signal
import time
from pathlib import Path

import numpy as np
import pytest

import aclgrad
from tests.e2e.admin_pages import ask, value
from tests.e2e.fault_plans import once
from tests.e2e.workers.hosts import (
    GRAD,
    Host,
    assert_computes,
    calling,
    text_of,
    worker_behind,
)
from tools.authority import Authority, write_identities
from tools.calling import wait_until

pytestmark = [once, pytest.mark.slow]


@pytest.mark.long
def test_stopped_worker_is_killed_and_back_and_costs_its_sibling_nothing() -> None:
    with Host() as host:
        before = host.worker(1)
        with calling(host.worker_addresses[0]) as failures:
            begin = time.monotonic()
            host.send_to_worker(1, signal.SIGSTOP)
            wait_until(lambda: host.workers == ["worker 0: ready", "worker 1: not ready: does not answer"])
            assert ask(host.admin, "/readyz")[0] == 200
            assert value(host.admin, "aclgrad_worker_up", worker="1") == 0
            assert "does not answer" in text_of(ask(host.admin, "/")[1])
            wait_until(lambda: not before.is_running())
            # 10 s until it counts as hung, 2 s for stacks that it cannot write, and looks of a second.
            assert 9 < time.monotonic() - begin < 20
            host.wait_until_whole()
            assert_computes(host.worker_addresses[1])
        assert failures == []
        assert "worker 1 is not alive since 10 s: SIGABRT has it write its stacks" in host.log
        assert "worker 1 ended with signal 9" in host.log
        assert value(host.admin, "aclgrad_worker_restarts_total", worker="1") == 1


def test_certificates_and_tokens_are_asked_for_at_every_address(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    identities = write_identities(
        tmp_path / "identities.toml", {"trainer": {"token": "trainers-token", "rights": ["execute", "status"]}}
    )
    with Host(*authority.server_flags(), "--identities", identities) as host:
        for address in (host.address, *host.worker_addresses):
            with (
                aclgrad.Client(address, connect_timeout_s=0.1) as client,
                pytest.raises(aclgrad.ServerUnreachableError),
            ):
                client.server_status()
            stranger, trainer = (
                aclgrad.Credentials(ca=authority.ca, token=each) for each in ("other", "trainers-token")
            )
            with aclgrad.Client(address, credentials=stranger) as client, pytest.raises(aclgrad.NotAuthenticatedError):
                client.server_status()
            with aclgrad.Client(address, credentials=trainer) as client:
                np.testing.assert_array_equal(client.adaptive_avg_pool2d_backward(GRAD, (1, 1, 2)), [[[0.5, 0.5]]])
                worker = client.server_status().worker
                assert worker is not None
                assert address == host.address or address in worker.addresses
        # Everybody may read the page, so it tells nothing of the machine.
        page = ask(host.admin, "/")[1]
        for private in (*host.worker_addresses, host.address, identities, authority.ca):
            assert private not in page


def test_unix_sockets_of_workers(tmp_path: Path) -> None:
    path = f"unix:{tmp_path}/socket"
    with Host("--unix-socket-mode", "0600", listen=(path, "127.0.0.1:0")) as host:
        assert host.addresses[0] == path
        assert host.worker_addresses == (path, f"{path}.1")
        assert [worker_behind(address) for address in host.worker_addresses] == [0, 1]
        for name in ("socket", "socket.1"):
            assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
        host.send_to_worker(0, signal.SIGKILL)
        wait_until(lambda: host.workers[0] != "worker 0: ready")
        host.wait_until_whole()
        assert worker_behind(path) == 0
        with aclgrad.Client(host.addresses[1]) as client:
            assert client.adaptive_avg_pool2d_backward(GRAD, (1, 2, 2)).sum() == 1
