"""The program `aclgrad-server doctor`: what it prints, its exit codes, and what it finds on a device."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from aclgrad.diagnosis import FAILED, PASSED, Row
from tests.e2e.fault_plans import once, write_config
from tools.serving import run_to_end

pytestmark = once

FREE = ("--listen", "127.0.0.1:0", "--admin", "off")


def doctor(*flags: str, device: bool = False) -> tuple[subprocess.CompletedProcess[str], list[Row], dict[str, Any]]:
    """Returns the finished program, its rows, and the summary."""
    done = run_to_end("doctor", "--json", *(("--device",) if device else ()), "--", *flags)
    told = json.loads(done.stdout) if done.stdout else {"rows": []}
    return done, [Row(**row) for row in told["rows"]], told


@pytest.mark.slow
def test_sound_devices_open_and_pass_the_self_test(tmp_path: Path) -> None:
    memory = {"memory_bytes": 8 * 2**30, "memory_elsewhere_bytes": 3 * 2**30}
    config = write_config(tmp_path, strict=False, devices=2, product="310P", **memory)
    done, rows, _ = doctor("--backend", "host", "--acl-config", config, *FREE, device=True)
    assert done.returncode == 0
    own = [row for row in rows if row.name.startswith("device ")]
    assert [row.name for row in own] == ["device 0", "device 1"]
    told = " opens and passes the self-test; without its own pool 3.0 of 8.0 GiB are in use "
    assert all(told in row.found for row in own)


def test_a_device_that_cannot_be_used_is_a_finding(tmp_path: Path) -> None:
    fault = {"kind": "copy_error", "at": 2, "code": 507054}
    config = write_config(tmp_path, fault, faults_after_launches=0)
    done, rows, summary = doctor("--backend", "host", "--acl-config", config, *FREE, device=True)
    assert (done.returncode, done.stderr, summary["exit_code"]) == (1, "", 1)
    (row,) = [row for row in rows if row.verdict == FAILED]
    # What this machine gives CANN is its own affair, and stops no start.
    assert {each.verdict for each in rows if each is not row and not each.name.startswith("CANN: ")} == {PASSED}
    assert summary[PASSED] == sum(each.verdict == PASSED for each in rows)
    assert {each.name.partition(":")[0] for each in rows} == {"settings", "start", "CANN", "device 0"}
    assert "507054" in row.found
    assert "npu-smi" in row.remedy
