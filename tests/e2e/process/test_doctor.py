"""The program `aclgrad-server doctor`: what it prints, its exit codes, and what it finds on a device."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aclgrad
from aclgrad.check.report import read_rows
from aclgrad.check.rows import Row, Verdict
from tests.e2e.fault_plans import once, write_config
from tests.native import shims
from tools.serving import Server, run_to_end

pytestmark = once

FREE = ("--listen", "127.0.0.1:0", "--admin", "off")
TOPICS = ["charges", "waits", "bandwidth", "refusals", "copies"]

# Loses the last byte of copies to addresses that are not multiples of 64, or of all.
LOSING = """
extern "C" int aclrtMemcpyAsync(char* to, size_t room, char* from, size_t count, int kind, void* stream) {
  if (count > 1 && (ALWAYS || reinterpret_cast<uintptr_t>(to) % 64 != 0)) --count;
  return Real<int(char*, size_t, char*, size_t, int, void*)>("aclrtMemcpyAsync")(to, room, from, count, kind, stream);
}
"""


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
    # Whether something keeps the clock right, and how many processors there are, is up to the machine.
    assert {row.check for row in rows if row.verdict is not Verdict.PASSED} <= {"clock", "container"}
    # The report can be compared as that of a check.
    (tmp_path / "doctor.jsonl").write_text(done.stdout)
    assert read_rows(tmp_path / "doctor.jsonl") == rows
    assert {row.check for row in rows} == {
        "settings", "clock", "versions", "libraries", "workers", "memory", "limits", "container", "addresses",
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("host", [{}, {"devices": 2, "product": "310P"}], ids=["one", "two"])
def test_devices_of_the_host_library_do_what_the_runtime_relies_on(tmp_path: Path, host: dict[str, Any]) -> None:
    config = write_config(tmp_path, strict=False, **host)
    done, rows, _ = doctor("--backend", "host", "--acl-config", config, *FREE, device=True)
    assert failed(rows) == []
    assert done.returncode == 0
    own = [row for row in rows if row.origin.runtime_version]
    assert {row.check for row in own} == {"device", *TOPICS}
    assert {row.origin.product for row in own} == {host.get("product", "910B")}
    assert {row.case.partition(":")[0] for row in own} == {f"device {index}" for index in range(host.get("devices", 1))}
    assert all(row.figures["copies"] == 64 * 12 for row in own if row.check == "copies")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("always", "verdict", "told"),
    [("false", Verdict.NOTED, "the server makes none"), ("true", Verdict.FAILED, "do not use this card")],
    ids=["unaligned", "all"],
)
def test_copies_that_lose_a_byte_are_found(tmp_path: Path, always: str, verdict: Verdict, told: str) -> None:
    library = shims.build(tmp_path, LOSING.replace("ALWAYS", always), whole=True)
    done, rows, _ = doctor("--backend", str(library), *FREE, device=True)
    found = {row.case.partition(": ")[2]: row for row in rows if row.check == "copies"}
    row = found["async host to device, offset of the device"]
    assert row.verdict is verdict
    assert told in row.message
    assert row.figures["wrong"] >= 63
    assert done.returncode == (1 if verdict is Verdict.FAILED else 0)


def test_a_device_that_fails_is_a_finding(tmp_path: Path) -> None:
    config = write_config(tmp_path, {"kind": "copy_error", "at": 2, "code": 507054}, faults_after_launches=0)
    done, rows, _ = doctor("--backend", "host", "--acl-config", config, *FREE, device=True)
    assert done.returncode == 1
    (told,) = failed(rows)
    assert "returned 507054" in told
    assert "npu-smi" in told


@pytest.mark.slow
def test_a_driver_that_hangs_is_a_finding(tmp_path: Path) -> None:
    config = write_config(tmp_path, {"kind": "hang_set_device", "at": 1}, faults_after_launches=0)
    flags = ("--backend", "host", "--acl-config", config, "--hang-timeout-s", "0.5")
    done, rows, _ = doctor(*flags, *FREE, device=True)
    assert done.returncode == 1
    (told,) = failed(rows)
    assert "aclrtSetDevice has not returned within 0.5 s" in told


def examine(admin: str) -> tuple[subprocess.CompletedProcess[str], list[dict[str, Any]]]:
    """Returns the finished doctor of a running server, and its rows."""
    done = run_to_end("doctor", "--json", "--admin", admin)
    return done, [json.loads(line) for line in done.stdout.splitlines()][:-1]


def test_a_running_server_that_is_sound(server: Server) -> None:
    with aclgrad.Client(server.address) as client:
        client.adaptive_avg_pool2d_backward(np.ones((1, 1, 1), np.float32), (1, 2, 2))
        assert server.admin is not None
        done, rows = examine(server.admin)
    assert (done.returncode, done.stderr) == (0, "")
    # What a busy machine slows down is noted; the loop may even lag.
    assert {row["verdict"] for row in rows if row["check"] != "event loop"} <= {"passed", "noted"}
    assert {"server", "device", "memory", "queue", "pool", "clients", "log", "files"} <= {row["check"] for row in rows}
    assert {(row["target"], row["product"], row["library"]) for row in rows} == {
        (server.admin, "910B", "libacl_host.so"),
    }
    (summary,) = (row["message"] for row in rows if row["check"] == "server")
    assert " on 910B with libacl_host.so, ready for " in summary
    assert re.search(r" s, \d+ calls, ", summary)
