"""Hosts that are stopped, interrupted or killed, at any moment: nothing is cut that could end, and nobody is left."""

import os
import signal
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import psutil
import pytest

import aclgrad
from tests.e2e.admin_pages import ask, hanging_kernel
from tests.e2e.fault_plans import once
from tests.e2e.workers.hosts import (
    GRAD,
    Host,
    assert_computes,
    children_of,
    starting_host,
    wait_for_end,
)
from tools.calling import calls_in, wait_until
from tools.serving import Server, announced

pytestmark = [once, pytest.mark.slow]

QUARTERS = np.full((1, 2, 2), 0.25, np.float32)


def begin_slow_call(client: aclgrad.Client, thread: ThreadPoolExecutor) -> Future[np.ndarray]:
    """Begins the call that meets the slow kernel of its worker, and returns when it runs."""
    call = thread.submit(client.adaptive_avg_pool2d_backward, GRAD, (1, 2, 2))
    wait_until(lambda: calls_in(client.server_status().queue) == 1)
    return call


def end_of(host: Server, before: list[psutil.Process]) -> int:
    code = host.exit_code()
    assert not any(each.is_running() for each in before)
    return code


def test_sigterm_lets_calls_end(tmp_path: Path) -> None:
    with (
        Host("--acl-config", hanging_kernel(tmp_path, 3000)) as host,
        aclgrad.Client(host.worker_addresses[1], retries=0) as client,
        ThreadPoolExecutor(1) as thread,
    ):
        processes = children_of(host.process_id)
        call = begin_slow_call(client, thread)
        host.ask_to_stop()
        # Of two signals that wait, the one with the lower number comes first.
        wait_until(lambda: "stopping the workers" in host.log)
        # A renewal would be a second signal, which cuts calls.
        host.send(signal.SIGHUP)
        wait_until(lambda: "worker 1: not ready: draining" in ask(host.admin, "/readyz")[1])
        np.testing.assert_array_equal(call.result(60), QUARTERS)
        assert end_of(host, processes) == 0
        assert host.log.count("draining for at most") == 2
        assert "SIGHUP is ignored" in host.log


@pytest.mark.long
def test_sigterm_to_every_process_lets_calls_end(tmp_path: Path) -> None:
    """As systemd sends it to a service: a worker gets another one from its supervisor."""
    with (
        Host("--acl-config", hanging_kernel(tmp_path, 3000)) as host,
        aclgrad.Client(host.worker_addresses[1], retries=0) as client,
        ThreadPoolExecutor(1) as thread,
    ):
        processes = children_of(host.process_id)
        call = begin_slow_call(client, thread)
        host.send_to_worker(1, signal.SIGTERM)
        # Signals that come together are one.
        wait_until(lambda: "draining for at most" in host.log)
        host.ask_to_stop()
        np.testing.assert_array_equal(call.result(60), QUARTERS)
        assert end_of(host, processes) == 0


def test_ctrl_c_drains_once(tmp_path: Path) -> None:
    """A terminal sends SIGINT to all processes of its foreground: workers are not among them."""
    log = tmp_path / "log"
    config = hanging_kernel(tmp_path, 3000)
    with starting_host(log, "--acl-config", config, process_group=0) as (process, _), ThreadPoolExecutor(1) as thread:
        assert "ready" in announced(process.stdout)
        name, _, address = process.stdout.readline().strip().partition(": ")
        assert name.startswith("worker ")
        processes = children_of(process.pid)
        with aclgrad.Client(address, retries=0) as client:
            call = begin_slow_call(client, thread)
            os.killpg(process.pid, signal.SIGINT)
            np.testing.assert_array_equal(call.result(60), QUARTERS)
        assert process.wait(60) == 0
        assert not any(each.is_running() for each in processes)
    assert "Traceback" not in log.read_text()


@pytest.mark.parametrize("is_ready", [True, False], ids=["ready", "starting"])
def test_workers_whose_supervisor_is_killed_end_by_themselves(tmp_path: Path, is_ready: bool) -> None:
    log, listen = tmp_path / "log", ""
    with starting_host(log) as (process, _):
        if is_ready:
            listen = announced(process.stdout)["ready"]
            process.stdout.readline()
            process.stdout.readline()
        else:
            wait_until(lambda: len(children_of(process.pid)) == 2)
        processes = children_of(process.pid)
        process.kill()
        process.wait(60)
        wait_for_end(*processes)
    if is_ready:
        assert log.read_text().count("the supervisor has ended: this worker does, too") == 2
        # The port is free again: for a server alone, too.
        with Server(listen=(listen,)) as server:
            assert_computes(server.address)


def test_call_that_runs_when_the_supervisor_is_killed_is_answered(tmp_path: Path) -> None:
    log = tmp_path / "log"
    config = hanging_kernel(tmp_path, 3000)
    with starting_host(log, "--acl-config", config) as (process, _), ThreadPoolExecutor(1) as thread:
        assert "ready" in announced(process.stdout)
        address = process.stdout.readline().strip().partition(": ")[2]
        processes = children_of(process.pid)
        with aclgrad.Client(address, retries=0) as client:
            call = begin_slow_call(client, thread)
            process.kill()
            np.testing.assert_array_equal(call.result(60), QUARTERS)
        process.wait(60)
        wait_for_end(*processes)
