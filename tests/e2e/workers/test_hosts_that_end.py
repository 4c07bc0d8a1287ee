"""Hosts that are stopped, interrupted or killed, at any moment: nothing is cut that could end, and nobody is left."""

import os
import signal
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import aclgrad
from tests.e2e.admin_pages import ask, hanging_kernel
from tests.e2e.fault_plans import once
from tests.e2e.workers.hosts import (
    GRAD,
    assert_computes,
    children_of,
    starting_host,
    wait_for_end,
    worker_of,
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


@pytest.mark.parametrize(
    ("way", "code"),
    [
        ("terminated", 0),
        ("all_terminated", 0),
        ("interrupted", 0),
        ("killed", -signal.SIGKILL),
    ],
)
def test_call_that_runs_as_its_host_ends_is_answered(tmp_path: Path, way: str, code: int) -> None:
    log, config = tmp_path / "log", hanging_kernel(tmp_path, 3000)

    def wait_for_line(text: str) -> None:
        wait_until(lambda: text in log.read_text())

    with (
        starting_host(log, "--acl-config", config, process_group=0) as (process, admin),
        ThreadPoolExecutor(1) as thread,
    ):
        assert "ready" in announced(process.stdout)
        name, _, address = process.stdout.readline().strip().partition(": ")
        worker = worker_of(process.pid, int(name.removeprefix("worker ")))
        processes = children_of(process.pid)
        with aclgrad.Client(address, retries=0) as client:
            call = begin_slow_call(client, thread)
            if way == "all_terminated":
                # As systemd does: a worker gets another signal from its supervisor. Signals that come together are one.
                worker.terminate()
                wait_for_line("draining for at most")
            if way == "interrupted":
                # As a terminal does to all processes of its foreground: workers are not among them.
                os.killpg(process.pid, signal.SIGINT)
            else:
                process.send_signal(signal.SIGKILL if code else signal.SIGTERM)
            if way == "terminated":
                wait_for_line("stopping the workers")
                # A renewal would be a second signal, which cuts calls.
                process.send_signal(signal.SIGHUP)
                wait_for_line("SIGHUP is ignored")
                wait_until(lambda: ": not ready: draining" in ask(admin, "/readyz")[1])
            np.testing.assert_array_equal(call.result(60), QUARTERS)
        assert process.wait(60) == code
        wait_for_end(*processes, timeout_s=60 if code else 0)
    assert log.read_text().count("draining for at most") == 2
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
