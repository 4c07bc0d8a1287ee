"""The examinations of a card: what they find on the host library, and on one that loses bytes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from aclgrad.judgement.rows import Row, Verdict
from tests.e2e.fault_plans import once, write_config
from tests.native import shims

pytestmark = [once, pytest.mark.slow]

TOPICS = ["charges", "waits", "bandwidth", "refusals", "copies"]

# Loses the last byte of copies to addresses that are not multiples of 64, or of all.
LOSING = """
extern "C" int aclrtMemcpyAsync(char* to, size_t room, char* from, size_t count, int kind, void* stream) {
  if (count > 1 && (ALWAYS || reinterpret_cast<uintptr_t>(to) % 64 != 0)) --count;
  return Real<int(char*, size_t, char*, size_t, int, void*)>("aclrtMemcpyAsync")(to, room, from, count, kind, stream);
}
"""


def examined(*flags: str) -> tuple[subprocess.CompletedProcess[str], list[Row]]:
    """Returns the finished program, and its rows as `aclgrad check` reads them."""
    command = [sys.executable, "-m", "tools.card", *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done, [Row.from_json(json.loads(line)) for line in done.stdout.splitlines()]


def test_the_host_library_does_what_the_runtime_relies_on(tmp_path: Path) -> None:
    config = write_config(tmp_path, strict=False, devices=2, product="310P")
    done, rows = examined("--backend", "host", "--acl-config", config, "--device", "1")
    assert [row for row in rows if row.verdict is Verdict.FAILED] == []
    assert (done.returncode, done.stderr) == (0, "")
    assert list(dict.fromkeys(row.check for row in rows)) == TOPICS
    assert {row.origin.product for row in rows} == {"310P"}
    assert all(row.figures["copies"] == 64 * 12 for row in rows if row.check == "copies")


@pytest.mark.parametrize(
    ("always", "verdict", "told"),
    [("false", Verdict.NOTED, "the server makes none"), ("true", Verdict.FAILED, "do not use this card")],
    ids=["unaligned", "all"],
)
def test_copies_that_lose_a_byte_are_found(tmp_path: Path, always: str, verdict: Verdict, told: str) -> None:
    library = shims.build(tmp_path, LOSING.replace("ALWAYS", always), whole=True)
    done, rows = examined("--backend", str(library))
    (row,) = (each for each in rows if each.case == "async host to device, offset of the device")
    assert row.verdict is verdict
    assert told in row.message
    assert row.figures["wrong"] >= 63
    assert done.returncode == (1 if verdict is Verdict.FAILED else 0)


def test_a_function_that_fails_is_named(tmp_path: Path) -> None:
    config = write_config(tmp_path, {"kind": "copy_error", "at": 2, "code": 507054}, faults_after_launches=0)
    done, _ = examined("--backend", "host", "--acl-config", config)
    assert done.returncode == 1
    assert "returned 507054" in done.stderr
    assert "npu-smi" in done.stderr


def test_a_driver_that_hangs_ends_the_program_with_its_stack(tmp_path: Path) -> None:
    config = write_config(tmp_path, {"kind": "hang_set_device", "at": 1}, faults_after_launches=0)
    done, _ = examined("--backend", "host", "--acl-config", config, "--limit-s", "0.5")
    assert done.returncode == 1
    assert "_rows" in done.stderr
