"""Servers whose device library lacks operators, or crashes or hangs in some: a child process makes the first calls.

What becomes of children in every order: tests/server/devices/test_probing_children.py.
"""

import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import aclgrad
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.products import Product
from aclgrad_server.devices import probing
from tests.e2e.admin_pages import ask, starting
from tests.e2e.fault_plans import once, write_config
from tools.calling import wait_until
from tools.serving import announced

pytestmark = once

HANG_S = "2"
ALWAYS = 2**40
REFUSED, CRASHING, HANGING = "gelu_backward", "roi_align_v2_backward", "tanh_backward"
WRONG = {
    "unwritten_output": "max_unpool3d_backward",
    "nan_output": "sigmoid_backward",
    "half_output": "upsample_nearest2d_backward",
}
MISSING = "install CANN's operator package for this card, or set ASCEND_CUSTOM_OPP_PATH before the start"


def fault(kind: str, operator: str, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "operator": OPERATORS[operator].symbol, "at": 1, "count": ALWAYS} | more


def flags(folder: Path, *faults: dict[str, Any]) -> list[str]:
    config = write_config(folder, *faults, faults_after_launches=0)
    return ["--acl-config", config, "--hang-timeout-s", HANG_S, "--probe-in-child", "on"]


def child_of(process: subprocess.Popen[str]) -> psutil.Process:
    wait_until(lambda: bool(psutil.Process(process.pid).children()))
    (child,) = psutil.Process(process.pid).children()
    return child


def test_each_operator_that_a_card_does_not_have_is_off_and_the_others_are_served(tmp_path: Path) -> None:
    """Whoever ends the first child turns nothing off."""
    faults = (
        fault("phase1_error", REFUSED, data_type="FLOAT16", code=161002),
        fault("phase2_error", "silu_backward", data_type="FLOAT16"),
        fault("crash", CRASHING),
        fault("hang", HANGING),
        *(fault(kind, operator) for kind, operator in WRONG.items()),
    )
    log = tmp_path / "log"
    with starting(log, *flags(tmp_path, *faults)) as (process, admin):
        child_of(process).kill()
        address = announced(process.stdout)["ready"]
        assert ask(admin, "/readyz") == (200, "ready\n")
        assert psutil.Process(process.pid).children() == []
        with aclgrad.Client(address, retries=0) as client:
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
            dtypes = OPERATORS[REFUSED].leading_input.dtypes[Product.ATLAS_A2]
            assert {each.name for each in listed[REFUSED].inputs[0].dtypes} == set(dtypes) - {"float16"}
            ones = np.ones(3, np.float32)
            np.testing.assert_allclose(client.gelu_backward(ones, 0 * ones), 0.5 * ones)
            with pytest.raises(aclgrad.OperatorTurnedOffError, match="refuses it"):
                client.gelu_backward(*(2 * [np.ones(3, np.float16)]))
            with pytest.raises(aclgrad.OperatorTurnedOffError, match="does not answer"):
                client.tanh_backward(ones, ones)
    text = log.read_text()
    assert "fails by the fault plan" in text  # the library's words, which no client sees
    assert "once more in a child process: the process ended with signal 9" in text
    assert "the process ended with signal 11" in text
    assert "Fatal Python error: Segmentation fault" in text  # with the stack


def test_no_file_of_the_working_directory_stands_for_a_module(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('taken from the working directory')")
    done = subprocess.run(probing.COMMAND, cwd=tmp_path, input=b"", capture_output=True, timeout=60, check=False)
    assert b"taken from" not in done.stderr
    assert b"EOFError" in done.stderr  # where it reads its settings


@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGTERM, marks=pytest.mark.slow), signal.SIGKILL], ids=["SIGTERM", "SIGKILL"]
)
def test_no_child_outlives_its_server(tmp_path: Path, number: signal.Signals) -> None:
    with starting(tmp_path / "log", *flags(tmp_path, fault("hang", HANGING))) as (process, _):
        child = child_of(process)
        time.sleep(0.5)
        process.send_signal(number)
        assert process.wait(60) == (0 if number == signal.SIGTERM else -number)
        psutil.wait_procs([child], 60)
        assert not child.is_running()
