"""A call that is given up while its kernel runs takes nothing from the calls after it."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import aclgrad
from tools.calling import calls_in, wait_until
from tools.serving import Server, write_host_config

pytestmark = [pytest.mark.alone, pytest.mark.once]

SMALL = (np.ones((1, 2, 2), np.float32), (1, 4, 4))


@pytest.mark.parametrize("host_pointers", [True, False], ids=["host_pointers", "copies"])
def test_the_next_call_has_the_stream_as_soon_as_the_kernel_ends(tmp_path: Path, host_pointers: bool) -> None:
    # Launch 1 takes longer than its call waits.
    faults = [{"kind": "hang", "at": 1, "duration_ms": 600}]
    config = write_host_config(tmp_path, faults=faults, host_pointers=host_pointers)
    with (
        Server("--streams", "1", "--acl-config", config) as server,
        aclgrad.Client(server.address, retries=0) as client,
    ):
        with pytest.raises(aclgrad.DeadlinePassedError):
            client.adaptive_avg_pool2d_backward(*SMALL, timeout_s=0.2)
        for _ in range(3):
            assert client.adaptive_avg_pool2d_backward(*SMALL, timeout_s=30).sum() == 4
        status = client.server_status()
        assert status.devices[0].leased_stream_count == 0
        assert calls_in(status.queue) == 0


def test_what_a_late_call_held_comes_back_without_another_call(tmp_path: Path) -> None:
    faults = [{"kind": "hang", "at": 1, "duration_ms": 600}]
    config = write_host_config(tmp_path, faults=faults, host_pointers=False)
    with Server("--acl-config", config) as server, aclgrad.Client(server.address, retries=0) as client:
        with pytest.raises(aclgrad.DeadlinePassedError):
            client.adaptive_avg_pool2d_backward(*SMALL, timeout_s=0.2)
        assert client.server_status().devices[0].leased_stream_count == 1
        wait_until(lambda: client.server_status().devices[0].leased_stream_count == 0)
        assert client.server_status().devices[0].pool.allocated_bytes == 0


def test_a_loss_is_told_to_a_call_whose_own_kernel_hangs(tmp_path: Path) -> None:
    """It would wait for a minute more, and nothing wakes it."""
    config = write_host_config(tmp_path, faults=[{"kind": "hang", "at": 1, "count": 2}])
    flags = ("--acl-config", config, "--streams", "2", "--hang-timeout-s", "0.3")
    with (
        Server(*flags) as server,
        aclgrad.Client(server.address, retries=0) as client,
        ThreadPoolExecutor(1) as threads,
    ):
        patient = threads.submit(client.adaptive_avg_pool2d_backward, *SMALL, timeout_s=60)
        wait_until(lambda: client.server_status().queue.small_running_count == 1)
        with pytest.raises(aclgrad.DeadlinePassedError):
            client.adaptive_avg_pool2d_backward(*SMALL, timeout_s=0.2)
        with pytest.raises(aclgrad.DeviceLostError) as lost:
            patient.result(60)
        assert lost.value.retry_after_s
        assert server.exit_code() == 4


def test_a_kernel_that_never_ends_is_found_without_another_call(tmp_path: Path) -> None:
    config = write_host_config(tmp_path, faults=[{"kind": "hang", "at": 1}])
    flags = ("--acl-config", config, "--hang-timeout-s", "0.3")
    with Server(*flags) as server, aclgrad.Client(server.address, retries=0) as client:
        with pytest.raises(aclgrad.DeadlinePassedError):
            client.adaptive_avg_pool2d_backward(*SMALL, timeout_s=0.2)
        assert server.exit_code() == 4
        assert re.search(r"device 0 is lost: .*the stream was still at work after \d+ ms", server.log)


def test_a_server_with_a_hanging_kernel_ends(tmp_path: Path) -> None:
    config = write_host_config(tmp_path, faults=[{"kind": "hang", "at": 1}])
    flags = ("--streams", "1", "--acl-config", config, "--drain-timeout-s", "0.5")
    with Server(*flags) as server, aclgrad.Client(server.address, retries=0) as client:
        with pytest.raises(aclgrad.DeadlinePassedError):
            client.adaptive_avg_pool2d_backward(*SMALL, timeout_s=0.2)
        server.ask_to_stop()
        assert server.exit_code() in (0, 3)


def test_a_kernel_that_never_ends_is_a_lost_device(tmp_path: Path) -> None:
    config = write_host_config(tmp_path, faults=[{"kind": "hang", "at": 1}])
    flags = ("--streams", "1", "--acl-config", config, "--hang-timeout-s", "0.3")
    with Server(*flags) as server, aclgrad.Client(server.address, retries=0) as client:
        with pytest.raises(aclgrad.DeadlinePassedError):
            client.adaptive_avg_pool2d_backward(*SMALL, timeout_s=1.0)
        with pytest.raises((aclgrad.DeviceLostError, aclgrad.ConnectionLostError)):
            client.adaptive_avg_pool2d_backward(*SMALL, timeout_s=30)
        assert server.exit_code() == 4


def test_a_lost_device_ends_the_server_with_its_own_code(tmp_path: Path) -> None:
    """In flight and after: UNAVAILABLE with a delay; a new process serves again."""
    config = write_host_config(tmp_path, faults=[{"kind": "launch_error", "at": 2, "code": 507015}])
    with Server("--acl-config", config) as server, aclgrad.Client(server.address, retries=0) as client:
        assert client.adaptive_avg_pool2d_backward(*SMALL).sum() == 4
        with pytest.raises(aclgrad.DeviceLostError) as lost:
            client.adaptive_avg_pool2d_backward(*SMALL)
        assert lost.value.retry_after_s
        assert lost.value.metadata == {"acl_error": "507015"}
        assert "aicore" not in str(lost.value).lower()
        assert server.exit_code() == 4
        assert "exit code 4" in server.log
    with Server("--acl-config", config) as server, aclgrad.Client(server.address, retries=0) as client:
        assert client.adaptive_avg_pool2d_backward(*SMALL).sum() == 4


@pytest.mark.parametrize("at", range(1, 5))
def test_memory_that_is_exhausted_fails_that_request_alone(tmp_path: Path, at: int) -> None:
    config = write_host_config(tmp_path, host_pointers=False, faults=[{"kind": "out_of_memory", "at": at, "count": 2}])
    flags = ("--acl-config", config, "--pool-pass-through", "true", "--streams", "1")
    with Server(*flags) as server, aclgrad.Client(server.address, retries=0) as client:
        failures = []
        for _ in range(6):
            try:
                assert client.adaptive_avg_pool2d_backward(*SMALL).sum() == 4
            except aclgrad.DeviceMemoryError as error:
                failures.append(error.retry_after_s)
        assert len(failures) == 1
        assert failures[0]
        assert client.server_status().devices[0].pool.allocated_bytes == 0


def test_every_call_in_flight_on_a_lost_device_is_told_so(tmp_path: Path) -> None:
    config = write_host_config(tmp_path, faults=[{"kind": "launch_error", "at": 40, "code": 507015}])

    def call_to_the_end(address: str) -> aclgrad.AclgradError:
        with aclgrad.Client(address, retries=0) as client:
            for _ in range(10_000):
                try:
                    assert client.adaptive_avg_pool2d_backward(*SMALL, timeout_s=30).sum() == 4
                except aclgrad.AclgradError as error:
                    return error
        raise AssertionError("the device was not lost")

    with Server("--acl-config", config) as server, ThreadPoolExecutor(8) as threads:
        ends = [threads.submit(call_to_the_end, server.address) for _ in range(8)]
        errors = [end.result(60) for end in ends]
        assert server.exit_code() == 4
    # The draining of the server may be what a client meets first.
    assert all(isinstance(error, aclgrad.RetryableError) for error in errors), errors
    assert any(isinstance(error, aclgrad.DeviceLostError) for error in errors)
