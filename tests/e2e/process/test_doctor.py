"""The program `aclgrad-server doctor`: what it prints, its exit codes, and what it finds on a device."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from aclgrad.judgement.report import read_rows
from aclgrad.judgement.rows import Row, Verdict
from tests.e2e.fault_plans import once, write_config
from tools.serving import run_to_end

pytestmark = once

FREE = ("--listen", "127.0.0.1:0", "--admin", "off")


def doctor(*flags: str, device: bool = False) -> tuple[subprocess.CompletedProcess[str], list[Row], dict[str, Any]]:
    """Returns the finished program, its rows as `aclgrad check` reads them, and the summary."""
    done = run_to_end("doctor", "--json", *(("--device",) if device else ()), "--", *flags)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return done, [Row.from_json(line) for line in lines[:-1]], lines[-1]["summary"] if lines else {}


def failed(rows: list[Row]) -> list[str]:
    return [f"{row.check}: {row.case}: {row.message}" for row in rows if row.verdict is Verdict.FAILED]


def test_a_sound_machine(tmp_path: Path) -> None:
    done, rows, summary = doctor("--backend", "host", *FREE)
    assert (done.returncode, done.stderr) == (0, "")
    assert failed(rows) == []
    assert summary["exit_code"] == 0
    assert summary["rows"] == len(rows)
    # What this machine gives CANN is its own affair, and stops no start.
    assert {row.verdict for row in rows if row.check != "CANN"} == {Verdict.PASSED}
    # The report can be compared as that of a check.
    (tmp_path / "doctor.jsonl").write_text(done.stdout)
    assert read_rows(tmp_path / "doctor.jsonl") == rows
    assert {row.check for row in rows} == {"settings", "start", "CANN"}


def test_defaults_are_shown_if_asked_for() -> None:
    flags = ("--", "--backend", "host", *FREE, "--pool-bytes", "300M")
    few, all_ = (run_to_end("doctor", *verbose, *flags).stdout.splitlines() for verbose in ((), ("-v",)))
    settings = [line for line in few if line.startswith("passed  settings: ")]
    assert "passed  settings: pool_bytes: 300MB (--pool-bytes)" in settings
    assert not any("(default)" in line for line in few)
    hidden = [line for line in all_ if "(default)" in line]
    assert [line for line in all_[:-1] if line not in hidden] == few[:-1]
    noted = sum(line.startswith("noted ") for line in all_)
    told = f"{len(all_) - 1 - noted} passed{f', {noted} noted' if noted else ''}"
    assert few[-1] == f"{told}; --verbose shows {len(hidden)} settings that have their default"


@pytest.mark.slow
@pytest.mark.parametrize("host", [{}, {"devices": 2, "product": "310P"}], ids=["one", "two"])
def test_sound_devices_open_and_pass_the_self_test(tmp_path: Path, host: dict[str, Any]) -> None:
    memory = {"memory_bytes": 8 * 2**30, "memory_elsewhere_bytes": 3 * 2**30}
    config = write_config(tmp_path, strict=False, **memory, **host)
    done, rows, _ = doctor("--backend", "host", "--acl-config", config, *FREE, device=True)
    assert failed(rows) == []
    assert done.returncode == 0
    own = [row for row in rows if row.check == "device"]
    assert [row.case for row in own] == [f"device {index}" for index in range(host.get("devices", 1))]
    told = " opens and passes the self-test; without its own pool 3.0 of 8.0 GiB are in use "
    assert all(told in row.message for row in own)


def test_a_device_that_fails_is_a_finding(tmp_path: Path) -> None:
    config = write_config(tmp_path, {"kind": "copy_error", "at": 2, "code": 507054}, faults_after_launches=0)
    done, rows, _ = doctor("--backend", "host", "--acl-config", config, *FREE, device=True)
    assert done.returncode == 1
    (told,) = failed(rows)
    assert "507054" in told
    assert "npu-smi" in told


@pytest.mark.slow
def test_a_driver_that_hangs_is_a_finding(tmp_path: Path) -> None:
    config = write_config(tmp_path, {"kind": "hang_set_device", "at": 1}, faults_after_launches=0)
    flags = ("--backend", "host", "--acl-config", config, "--hang-timeout-s", "0.5")
    done, rows, _ = doctor(*flags, *FREE, device=True)
    assert done.returncode == 1
    (told,) = failed(rows)
    assert "its driver has not returned within 0.5 s (--hang-timeout-s)" in told
