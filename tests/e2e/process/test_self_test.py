"""Servers on devices that are wrong from the start, and what a server leaves behind on one."""

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.admin_pages import ask, starting, value
from tests.e2e.fault_plans import once, write_config
from tests.native import shims
from tests.service_manager import managing
from tools.calling import wait_until
from tools.serving import Server

pytestmark = once

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


def test_a_server_ends_the_runtime_and_goes_without_the_librarys_destructors(tmp_path: Path) -> None:
    library, record = shims.build(tmp_path, RECORDING, whole=True), tmp_path / "record"
    # The device is named, so that no other process counts devices and is recorded too.
    with Server("--backend", str(library), "--device", "0", RECORD=str(record)) as server:
        pass
    assert server.exit_code() == 0
    assert record.read_text().split() == ["reset", "finalize"]


HANG_S = "3"
"""More than a busy machine takes to open a device and for one kernel."""
FAILED = "device 0 (Ascend910B1) failed the self-test"
SILENT = f"{FAILED}: it does not answer aclnn"
# Fault of the device, why the server is not ready, and what the log adds.
UNFIT: dict[str, tuple[dict[str, Any], str, str]] = {
    "lost": ({"kind": "launch_error", "at": 3, "code": 507015}, FAILED, SILENT),
    "kernel_that_hangs": ({"kind": "hang", "at": 3}, FAILED, SILENT),
    "every_operator_wrong": (
        {"kind": "phase2_error", "at": 1, "count": 1000, "code": 561103},
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
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: dict[str, Any], why: str, logged: str
) -> None:
    """Its start has ended: systemd would otherwise end it for taking too long, and start it again."""
    config = write_config(tmp_path, fault, faults_after_launches=0)
    hang = ("--hang-timeout-s", HANG_S) if "hang" in fault["kind"] else ()
    log = tmp_path / "log"
    with managing(tmp_path) as manager:
        monkeypatch.setenv("NOTIFY_SOCKET", manager.address)
        with starting(log, "--acl-config", config, *hang, changes="pool_pass_through") as (process, admin):
            wait_until(lambda: ask(admin, "/readyz") == (503, f"not ready: {why}\n"))
            wait_until(lambda: logged in log.read_text())
            assert ask(admin, "/livez") == (200, "alive\n")
            assert value(admin, "aclgrad_device_up", device="0") == 0
            wait_until(lambda: manager.told == ["READY=1", f"STATUS=never ready: {why}"])
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
