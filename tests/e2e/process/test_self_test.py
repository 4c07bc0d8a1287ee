"""Servers on devices that are wrong from the start: what they still serve, and what they say."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import aclgrad
from aclgrad.commands import program
from aclgrad.operators.catalogue import OPERATORS
from tests.e2e.admin_pages import ask, starting
from tests.e2e.fault_plans import once, write_config
from tests.native import shims
from tools.calling import wait_until
from tools.serving import Server

pytestmark = once

WRONG = "max_unpool3d_backward"
SYMBOL = OPERATORS[WRONG].symbol
GRAD = np.ones((1, 1, 1), np.float32)

# Its kernel is never launched, so the output is as it was.
WRONG_ANSWER = f"""
extern "C" int {SYMBOL}(void*, uint64_t, void*, void*) {{ return 0; }}
"""
# What ends the runtime, in its order. As destructors of CANN's libraries do, its own crashes after a clean stop.
RECORDING = """
#include <cstdio>
#include <cstdlib>

void Record(const char* what) {
  FILE* file = std::fopen(std::getenv("RECORD"), "a");
  std::fprintf(file, "%s\\n", what);
  std::fclose(file);
}

extern "C" int aclrtResetDevice(int device) {
  Record("reset");
  return Real<int(int)>("aclrtResetDevice")(device);
}

extern "C" int aclFinalizeReference(uint64_t* count) {
  Record("finalize");
  return Real<int(uint64_t*)>("aclFinalizeReference")(count);
}

struct AtExit {
  ~AtExit() {
    Record("destructor");
    std::abort();
  }
} at_exit;
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
    library, record = shims.build(tmp_path, WRONG_ANSWER + RECORDING, whole=True), tmp_path / "record"
    # The device is named, so that no other process counts devices and is recorded too.
    with Server("--backend", str(library), "--device", "0", RECORD=str(record)) as server:
        assert_serves_all_but_the_wrong_one(server, "device 0 computes float32 wrongly")
        checked = CliRunner().invoke(program, ["check", server.address, "--only", "listing"])
        assert checked.exit_code == 1
        assert f"failed   listing {WRONG}; the server has turned the operator off: device 0" in checked.output
        told = CliRunner().invoke(program, ["status", "--target", server.address]).output
        assert f"turned off:      {WRONG}: device 0 computes float32 wrongly" in told
    # The server ends the device runtime before its process ends, leaves nothing behind on the device, and goes without
    # the library's destructors.
    assert server.exit_code() == 0
    assert record.read_text().split() == ["reset", "finalize"]


def assert_never_ready(admin: str, why: str) -> None:
    wait_until(lambda: ask(admin, "/readyz") == (503, f"not ready: {why}\n"))
    assert ask(admin, "/livez") == (200, "alive\n")
    assert re.search(r'^aclgrad_device_up\{device="0"\} 0\.0$', ask(admin, "/metrics")[1], re.MULTILINE)


HANG_S = "3"
"""More than a busy machine takes to open a device and for one kernel."""
FAILED = "device 0 (Ascend910B1) failed the self-test"
SILENT = f"{FAILED}: it does not answer aclnn"
# Fault of the device, why the server is not ready, and what the log adds.
UNFIT: dict[str, tuple[dict[str, Any], str, str]] = {
    "lost": ({"kind": "launch_error", "at": 3, "code": 507015}, FAILED, SILENT),
    "lost_at_once": ({"kind": "launch_error", "at": 1, "code": 507015}, FAILED, SILENT),
    "poisoned_copy": ({"kind": "copy_error", "at": 3, "code": 507054}, FAILED, SILENT),
    "no_memory": ({"kind": "out_of_memory", "at": 3, "count": 1000}, FAILED, SILENT),
    "kernel_that_hangs": ({"kind": "hang", "at": 3}, FAILED, SILENT),
    "launch_that_hangs": ({"kind": "hang_launch", "at": 3}, FAILED, SILENT),
    "copy_that_hangs": ({"kind": "hang_copy", "at": 3}, FAILED, SILENT),
    "allocation_that_hangs": ({"kind": "hang_allocation", "at": 3}, FAILED, SILENT),
    "every_operator_wrong": (
        {"kind": "launch_error", "at": 1, "count": 1000, "code": 561103},
        FAILED,
        f"{FAILED}: no operator passed",
    ),
    "open_that_hangs": (
        {"kind": "hang_set_device", "at": 1},
        "device 0 does not open",
        f"device 0 does not open: its driver has not returned within {HANG_S} s (--hang-timeout-s)",
    ),
    "open_that_fails": (
        {"kind": "set_device_error", "at": 1},
        "device 0 does not open",
        "device 0 does not open: aclrtSetDevice returned 507033",
    ),
}


@pytest.mark.parametrize(
    ("fault", "why", "logged"),
    [pytest.param(*row, id=name, marks=() if name == "lost" else pytest.mark.slow) for name, row in UNFIT.items()],
)
def test_an_unfit_device_leaves_a_process_that_is_alive_and_not_ready(
    tmp_path: Path, fault: dict[str, Any], why: str, logged: str
) -> None:
    config = write_config(tmp_path, fault, faults_after_launches=0)
    hang = ("--hang-timeout-s", HANG_S) if "hang" in fault["kind"] else ()
    log = tmp_path / "log"
    with starting(log, "--acl-config", config, *hang, changes="pool_pass_through") as (process, admin):
        wait_until(lambda: ask(admin, "/readyz") == (503, f"not ready: {why}\n"))
        wait_until(lambda: logged in log.read_text())
        assert ask(admin, "/livez") == (200, "alive\n")
        assert re.search(r'^aclgrad_device_up\{device="0"\} 0\.0$', ask(admin, "/metrics")[1], re.MULTILINE)
        assert process.poll() is None
        process.terminate()
        assert process.wait(60) == 0
        assert process.stdout.read() == ""
        assert "Traceback" not in log.read_text()


@pytest.mark.slow
def test_a_stop_does_not_wait_for_a_driver_that_hangs(tmp_path: Path) -> None:
    config = write_config(tmp_path, {"kind": "hang_set_device", "at": 1}, faults_after_launches=0)
    log = tmp_path / "log"
    with starting(log, "--acl-config", config, "--drain-timeout-s", "1000") as (process, admin):
        assert ask(admin, "/readyz") == (503, "not ready: starting\n")
        process.terminate()
        assert process.wait(30) == 0
