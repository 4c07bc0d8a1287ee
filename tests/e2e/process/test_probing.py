"""Servers whose device library lacks operators, or crashes or hangs in some: a child process makes the first calls."""

import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import aclgrad
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.products import Product
from tests.e2e.admin_pages import ask, starting
from tests.e2e.fault_plans import once, write_config
from tools.calling import wait_until
from tools.serving import Server, clean_environment

pytestmark = once

HANG_S = "3"
ALWAYS = 2**40
REFUSED, CRASHING, HANGING = "gelu_backward", "roi_align_v2_backward", "tanh_backward"
WRONG = {
    "unwritten_output": "max_unpool3d_backward",
    "nan_output": "sigmoid_backward",
    "half_output": "upsample_nearest2d_backward",
}
MISSING = "install CANN's operator package for this card, or set ASCEND_CUSTOM_OPP_PATH before the start"
NAME = "device 0 (Ascend910B1)"


def fault(kind: str, operator: str, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "operator": OPERATORS[operator].symbol, "at": 1, "count": ALWAYS} | more


def write_faults(folder: Path, *faults: dict[str, Any]) -> str:
    return write_config(folder, *faults, faults_after_launches=0)


def assert_has_no_child(process_id: int) -> None:
    assert psutil.Process(process_id).children() == []


def test_each_operator_that_a_card_does_not_have_is_off_and_the_others_are_served(tmp_path: Path) -> None:
    config = write_faults(
        tmp_path,
        fault("phase1_error", REFUSED, data_type="FLOAT16", code=161002),
        fault("phase2_error", "silu_backward", data_type="FLOAT16"),
        fault("crash", CRASHING),
        fault("hang", HANGING),
        *(fault(kind, operator) for kind, operator in WRONG.items()),
    )
    with Server("--acl-config", config, "--hang-timeout-s", HANG_S, "--probe-in-child", "on") as server:
        assert ask(server.admin, "/readyz") == (200, "ready\n")
        assert_has_no_child(server.process_id)
        with aclgrad.Client(server.address, retries=0) as client:
            off = {each.name: (each.reason, each.data_types) for each in client.server_status().turned_off_operators}
            assert off == {
                REFUSED: (f"device 0 refuses it (161002); {MISSING}", ("float16",)),
                "silu_backward": ("device 0 fails with float16: the device library answered ACL error 561103", ()),
                CRASHING: ("device 0 ends the process that calls it; see CANN's log", ()),
                HANGING: ("device 0 does not answer; see CANN's log", ()),
                **{operator: ("device 0 computes float32 wrongly", ()) for operator in WRONG.values()},
            }
            listed = {each.name: each for each in client.list_operators()}
            assert set(listed) == set(OPERATORS) - {"silu_backward", CRASHING, HANGING, *WRONG.values()}
            dtypes = OPERATORS[REFUSED].inputs[0].dtypes[Product.ATLAS_A2]
            assert {each.name for each in listed[REFUSED].inputs[0].dtypes} == set(dtypes) - {"float16"}
            ones = np.ones(3, np.float32)
            np.testing.assert_allclose(client.gelu_backward(ones, 0 * ones), 0.5 * ones)
            with pytest.raises(aclgrad.OperatorTurnedOffError, match="refuses it"):
                client.gelu_backward(*(2 * [np.ones(3, np.float16)]))
            with pytest.raises(aclgrad.OperatorTurnedOffError, match="does not answer"):
                client.tanh_backward(ones, ones)
        log = server.log
    assert "fails by the fault plan" in log  # the library's words, which no client sees
    assert "the process ended with signal 11" in log
    assert "Fatal Python error: Segmentation fault" in log  # with the stack


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("phase1_error", f"no operator passed: .*{REFUSED}: device 0 refuses it .161002.; {MISSING}"),
        ("crash", "3 operators ended or held the process that called them, and none has answered"),
        pytest.param("hang", "3 operators ended or held the process", marks=pytest.mark.slow),
    ],
)
def test_a_card_without_any_operator_is_never_ready(tmp_path: Path, kind: str, said: str) -> None:
    config = write_faults(tmp_path, {"kind": kind, "at": 1, "count": ALWAYS})
    log = tmp_path / "log"
    flags = ("--acl-config", config, "--hang-timeout-s", HANG_S, "--probe-in-child", "on")
    with starting(log, *flags) as (process, admin):
        wait_until(lambda: ask(admin, "/readyz") == (503, f"not ready: {NAME} failed the self-test\n"))
        assert ask(admin, "/livez") == (200, "alive\n")
        assert re.search(said, log.read_text())
        process.terminate()
        assert process.wait(60) == 0
    assert "never ready" in log.read_text()


def test_neighbours_that_crash_are_off_and_a_child_that_somebody_kills_is_replaced(tmp_path: Path) -> None:
    crashing = {f"reflection_pad{rank}d_backward" for rank in (1, 2, 3)}
    slow = fault("hang", "adaptive_avg_pool3d_backward", duration_ms=1500)
    config = write_faults(tmp_path, slow, *(fault("crash", each) for each in sorted(crashing)))
    log = tmp_path / "log"
    with starting(log, "--acl-config", config, "--probe-in-child", "on") as (process, admin):
        wait_until(lambda: psutil.Process(process.pid).children())
        (child,) = psutil.Process(process.pid).children()
        time.sleep(1)
        child.kill()
        wait_until(lambda: ask(admin, "/readyz") == (200, "ready\n"))
        page = ask(admin, "/")[1]
    assert {name for name in OPERATORS if f"{name} is turned off" in page} == crashing
    assert re.search("once more in a child process: the process ended with signal 9", log.read_text())


def test_no_file_of_the_working_directory_stands_for_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('taken from the working directory')")
    monkeypatch.chdir(tmp_path)
    script = Path(sys.executable).parent / "aclgrad-server"
    config = write_faults(tmp_path)
    command = [script, "--backend", "host", "--listen", "127.0.0.1:0", "--acl-config", config, "--probe-in-child", "on"]
    with subprocess.Popen(command, env=clean_environment(), stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        assert b"ready: " in server.stdout.readline() + server.stdout.readline()
        server.terminate()
        assert server.wait(60) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["SIGTERM", "SIGKILL"])
def test_no_child_outlives_its_server(tmp_path: Path, number: signal.Signals) -> None:
    config = write_faults(tmp_path, fault("hang", HANGING))
    flags = ("--acl-config", config, "--hang-timeout-s", HANG_S, "--probe-in-child", "on")
    with starting(tmp_path / "log", *flags) as (process, _):
        wait_until(lambda: psutil.Process(process.pid).children())
        (child,) = psutil.Process(process.pid).children()
        time.sleep(0.5)
        process.send_signal(number)
        assert process.wait(60) == (0 if number == signal.SIGTERM else -number)
        psutil.wait_procs([child], 60)
        assert not child.is_running()


def test_a_call_that_a_library_refuses_turns_nothing_off(tmp_path: Path) -> None:
    """It passed our checks, so the fault is ours or the library's, never the client's."""
    config = write_config(tmp_path, fault("phase1_error", REFUSED, count=1, code=161002))
    ones = np.ones(3, np.float32)
    with Server("--acl-config", config) as server, aclgrad.Client(server.address, retries=0) as client:
        with pytest.raises(aclgrad.ServerFaultError, match="161002"):
            client.gelu_backward(ones, 0 * ones)
        assert client.server_status().turned_off_operators == ()
        np.testing.assert_allclose(client.gelu_backward(ones, 0 * ones), 0.5 * ones)
