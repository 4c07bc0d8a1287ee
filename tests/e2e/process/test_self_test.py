"""Servers on devices that are wrong from the start: what they still serve, and what they say."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import aclgrad
from aclgrad.commands import program
from aclgrad.operators.catalogue import OPERATORS
from tests.e2e.fault_plans import once, write_config
from tests.e2e.process.test_admin import ask
from tests.native import shims
from tools.calling import wait_until
from tools.serving import Server, clean_environment, command, run_to_end

pytestmark = once

WRONG = "max_unpool3d_backward"
SYMBOL = OPERATORS[WRONG].symbol
GRAD = np.ones((1, 1, 1), np.float32)

# Its kernel runs, on other memory than the caller's output.
WRONG_ANSWER = f"""
extern "C" int {SYMBOL}(void*, uint64_t, void* executor, void*) {{
  return Real<int(void*)>("aclDestroyAclOpExecutor")(executor);
}}
"""
NO_KERNEL = f"""
extern "C" int {SYMBOL}GetWorkspaceSize(void*, void*, void*, void*, void*, void*, void*, uint64_t*, void**) {{
  return 561103;
}}
"""


def assert_serves_all_but_the_wrong_one(server: Server, why: str) -> None:
    with aclgrad.Client(server.address, retries=0) as client:
        assert {each.name for each in client.list_operators()} == set(OPERATORS) - {WRONG}
        assert client.adaptive_avg_pool2d_backward(GRAD, (1, 1, 2)).tolist() == [[[0.5, 0.5]]]
        with pytest.raises(aclgrad.OperatorTurnedOffError, match=why) as caught:
            client.execute(WRONG, {})
        (turned_off,) = client.server_status().turned_off_operators
        assert turned_off.name == WRONG
        assert re.match(why, turned_off.reason)
        assert caught.value.metadata["operator"] == WRONG
        batch = client.batch()
        batch.execute(WRONG, {"grad_output": GRAD})
        batch.adaptive_avg_pool2d_backward(GRAD, (1, 1, 2))
        refused, gradient = batch.run(return_errors=True)
        assert isinstance(refused, aclgrad.OperatorTurnedOffError)
        assert gradient.tolist() == [[[0.5, 0.5]]]
    assert ask(server.admin, "/readyz") == (200, "ready\n")
    assert f"device 0 (Ascend910B1) fails the self-test of {SYMBOL} (float32), which is turned off" in server.log


def test_an_operator_that_answers_wrongly_is_turned_off(tmp_path: Path) -> None:
    with Server("--backend", str(shims.build(tmp_path, WRONG_ANSWER, whole=True))) as server:
        assert_serves_all_but_the_wrong_one(server, "device 0 computes float32 wrongly")
        checked = CliRunner().invoke(program, ["check", server.address, "--only", "listing"])
        assert checked.exit_code == 1
        assert f"failed   listing {WRONG}; the server has turned the operator off: device 0" in checked.output
        told = CliRunner().invoke(program, ["status", "--target", server.address]).output
        assert f"turned off:      {WRONG}: device 0 computes float32 wrongly" in told


def test_an_operator_without_a_kernel_is_turned_off(tmp_path: Path) -> None:
    with Server("--backend", str(shims.build(tmp_path, NO_KERNEL, whole=True))) as server:
        assert_serves_all_but_the_wrong_one(
            server, "device 0 fails with float32: the device library answered ACL error 561103"
        )


def test_an_operator_that_the_library_lacks_is_turned_off(tmp_path: Path) -> None:
    with Server("--backend", str(shims.without(tmp_path, SYMBOL))) as server:
        assert_serves_all_but_the_wrong_one(server, "the server's device library lacks it")


@contextmanager
def unfit(folder: Path, *flags: str) -> Iterator[tuple[subprocess.Popen[str], str, Path]]:
    """Yields a server that is never ready, its admin address and its log."""
    log = folder / "log"
    with (
        log.open("w") as errors,
        subprocess.Popen(
            command("--backend", "host", "--listen", "127.0.0.1:0", *flags),
            env=clean_environment(),
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        try:
            assert process.stdout is not None
            name, _, address = process.stdout.readline().strip().partition(": ")
            assert name == "admin"
            yield process, address, log
        finally:
            process.kill()


def assert_never_ready(admin: str, why: str) -> None:
    wait_until(lambda: ask(admin, "/readyz") == (503, f"not ready: {why}\n"), 30)
    assert ask(admin, "/livez") == (200, "alive\n")
    assert re.search(r'^aclgrad_device_up\{device="\d"\} 0\.0$', ask(admin, "/metrics")[1], re.MULTILINE)


HANG_S = "1.5"
"""More than a busy machine takes to open a device and for one kernel."""
FAULTS = {
    "lost": {"kind": "launch_error", "code": 507015},
    "poisoned_copy": {"kind": "copy_error", "code": 507054},
    "no_memory": {"kind": "out_of_memory", "count": 1000},
    "kernel_that_hangs": {"kind": "hang"},
    "launch_that_hangs": {"kind": "hang_launch"},
    "copy_that_hangs": {"kind": "hang_copy"},
    "allocation_that_hangs": {"kind": "hang_allocation"},
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("at", [1, 3], ids=["first", "later"])
def test_a_device_that_fails_the_self_test_leaves_a_process_that_is_alive_and_not_ready(
    tmp_path: Path, fault: dict[str, object], at: int
) -> None:
    config = write_config(tmp_path, {**fault, "at": at}, faults_after_launches=0)
    hang = ("--hang-timeout-s", HANG_S) if "hang" in str(fault["kind"]) else ()
    flags = ("--acl-config", config, "--pool-pass-through", "true", *hang)
    with unfit(tmp_path, *flags) as (process, admin, log):
        assert_never_ready(admin, "device 0 (Ascend910B1) failed the self-test")
        wait_until(lambda: "failed the self-test: it does not answer aclnn" in log.read_text(), 30)
        assert process.poll() is None
        process.terminate()
        assert process.wait(30) == 0
        assert process.stdout.read() == ""
        assert "Traceback" not in log.read_text()


def test_a_server_whose_operators_are_all_wrong_is_not_ready(tmp_path: Path) -> None:
    fault = {"kind": "launch_error", "at": 1, "count": 1000, "code": 561103}
    config = write_config(tmp_path, fault, faults_after_launches=0)
    with unfit(tmp_path, "--acl-config", config) as (process, admin, log):
        assert_never_ready(admin, "device 0 (Ascend910B1) failed the self-test")
        wait_until(lambda: "failed the self-test: no operator passed" in log.read_text(), 30)
        process.terminate()
        assert process.wait(30) == 0


NONSENSE = {
    'extern "C" int aclrtGetDeviceCount(uint32_t* n) { *n = 4000000000u; return 0; }': "there is no device 0",
    'extern "C" const char* aclrtGetSocName() { return "X\\xff\\x1b[31m"; }': "the SoC 'X\ufffd\\x1b[31m'",
    'extern "C" int aclrtGetVersion(int*, int*, int*) { return -1; }': "aclrtGetVersion returned -1",
}


def test_a_library_whose_answers_make_no_sense_is_refused_in_one_line(tmp_path: Path) -> None:
    for source, told in NONSENSE.items():
        done = run_to_end("--backend", str(shims.build(tmp_path, source, whole=True)), "--listen", "127.0.0.1:0")
        assert done.returncode == 1
        (line,) = [line for line in done.stderr.splitlines() if " INFO " not in line]
        assert line.startswith("aclgrad-server: ")
        assert told in line


STARTS = {
    "hangs": (
        {"kind": "hang_set_device", "at": 2},
        f"its driver has not returned within {HANG_S} s (--hang-timeout-s)",
    ),
    "fails": ({"kind": "set_device_error", "at": 2}, "aclrtSetDevice returned 507033"),
}


@pytest.mark.parametrize(("fault", "told"), STARTS.values(), ids=STARTS)
def test_a_device_that_does_not_open_leaves_a_process_that_is_alive_and_not_ready(
    tmp_path: Path, fault: dict[str, object], told: str
) -> None:
    config = write_config(tmp_path, fault, faults_after_launches=0, devices=2)
    with unfit(tmp_path, "--acl-config", config, "--hang-timeout-s", HANG_S) as (process, admin, log):
        assert_never_ready(admin, "device 1 does not open")
        wait_until(lambda: f"device 1 does not open: {told}" in log.read_text(), 30)
        process.terminate()
        assert process.wait(30) == 0
        assert "Traceback" not in log.read_text()


def test_a_stop_does_not_wait_for_a_driver_that_hangs(tmp_path: Path) -> None:
    config = write_config(tmp_path, {"kind": "hang_set_device", "at": 1}, faults_after_launches=0)
    with unfit(tmp_path, "--acl-config", config, "--drain-timeout-s", "1000") as (process, admin, _):
        assert ask(admin, "/readyz") == (503, "not ready: starting\n")
        process.terminate()
        assert process.wait(30) == 0
