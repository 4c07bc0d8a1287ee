"""The examinations of a card: what they find on the host library, and on one that loses bytes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from aclgrad.judge.findings.rows import Row, Verdict
from tests.e2e.fault_plans import once, write_config
from tests.native import shims

pytestmark = [once, pytest.mark.slow]

TOPICS = ["charges", "waits", "bandwidth", "refusals", "batch_norm", "copies"]

# Loses the last byte of copies to addresses that are not multiples of 64, or of all.
LOSING = """
extern "C" int aclrtMemcpyAsync(char* to, size_t room, char* from, size_t count, int kind, void* stream) {
  if (count > 1 && (ALWAYS || reinterpret_cast<uintptr_t>(to) % 64 != 0)) --count;
  return Real<int(char*, size_t, char*, size_t, int, void*)>("aclrtMemcpyAsync")(to, room, from, count, kind, stream);
}
"""


# A forward pass that saves the mean and SAVED, and a device that calls itself SOC.
FORWARD = """
#include <cmath>
#include <map>
#include <vector>

static std::map<void*, void*> addresses;

extern "C" void* aclCreateTensor(const int64_t* dims, uint64_t count, int type, const int64_t* strides, int64_t offset,
                                 int format, const int64_t* storage, uint64_t storage_count, void* data) {
  void* tensor = Real<void*(const int64_t*, uint64_t, int, const int64_t*, int64_t, int, const int64_t*, uint64_t,
                            void*)>("aclCreateTensor")(dims, count, type, strides, offset, format, storage,
                                                       storage_count, data);
  addresses[tensor] = data;
  return tensor;
}

static void Copy(void* to, void* from, size_t bytes, int kind) {
  Real<int(void*, size_t, void*, size_t, int)>("aclrtMemcpy")(to, bytes, from, bytes, kind);
}

extern "C" int aclnnBatchNormGetWorkspaceSize(void* input, void*, void*, void*, void*, bool, double, double eps, void*,
                                              void* save_mean, void* save_invstd, uint64_t* size, void** executor) {
  std::vector<float> values(4 * 3 * 42), means(3), saved(3);
  Copy(values.data(), addresses.at(input), values.size() * 4, 2);
  for (int c = 0; c < 3; ++c) {
    double sum = 0, squares = 0;
    for (int n = 0; n < 4; ++n)
      for (int i = 0; i < 42; ++i) sum += values[(n * 3 + c) * 42 + i];
    for (int n = 0; n < 4; ++n)
      for (int i = 0; i < 42; ++i) squares += std::pow(values[(n * 3 + c) * 42 + i] - sum / 168, 2);
    const double var = squares / 168;
    means[c] = sum / 168;
    saved[c] = SAVED;
  }
  Copy(addresses.at(save_mean), means.data(), 12, 1);
  Copy(addresses.at(save_invstd), saved.data(), 12, 1);
  *size = 0;
  *executor = &addresses;
  return CODE;
}

extern "C" int aclnnBatchNorm(void*, uint64_t, void*, void*) { return 0; }
"""
OTHER_NAME = """
extern "C" const char* aclrtGetSocName() { return "SOC"; }
"""
VARIANCE, RECIPROCAL = "var", "1 / std::sqrt(var + eps)"
READ_AS_VARIANCE = "saveInvstd is read as the variance"
READ_AS_RECIPROCAL = "saveInvstd is read as the reciprocal 1 / sqrt(var + eps)"


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


def planted(folder: Path, saved: str, soc: str = "", code: int = 0) -> str:
    source = FORWARD.replace("SAVED", saved).replace("CODE", str(code))
    return str(shims.build(folder, source + (OTHER_NAME.replace("SOC", soc) if soc else ""), whole=True))


def of_batch_norm(rows: list[Row]) -> list[tuple[Verdict, str]]:
    return [(row.verdict, row.message) for row in rows if row.check == "batch_norm"]


PASSED, FAILED = Verdict.PASSED, Verdict.FAILED
AS_950 = (FAILED, f"{READ_AS_VARIANCE}, and product 950 should read the reciprocal 1 / sqrt(var + eps): gradients")
AS_910B = (
    FAILED,
    f"{READ_AS_RECIPROCAL}, and product 910B should read the variance: gradients with training are wrong",
)
# What the forward pass saves, and the name and return code of the device; both readings, and what it saves.
FORWARDS = {
    "910B": ("910B", VARIANCE, "", 0, (PASSED, READ_AS_VARIANCE), f"it saves the variance; {READ_AS_VARIANCE}"),
    "950": ("950", RECIPROCAL, "", 0, (PASSED, READ_AS_RECIPROCAL), f"; {READ_AS_RECIPROCAL}"),
    "neither": ("910B", "std::sqrt(var)", "", 0, (PASSED, READ_AS_VARIANCE), "is neither the variance nor the recipr"),
    "fails": ("910B", VARIANCE, "", 561103, (PASSED, READ_AS_VARIANCE), "aclnnBatchNorm returned 561103"),
    "named 950": ("910B", VARIANCE, "Ascend950PR_9599", 0, AS_950, AS_950[1]),
    "named 910B": ("950", RECIPROCAL, "Ascend910B1", 0, AS_910B, AS_910B[1]),
}


@pytest.mark.parametrize("case", FORWARDS)
def test_the_statistics_that_a_card_reads_and_saves(tmp_path: Path, case: str) -> None:
    product, saved, soc, code, read, told = FORWARDS[case]
    config = write_config(tmp_path, strict=False, product=product)
    done, rows = examined("--backend", planted(tmp_path, saved, soc, code), "--acl-config", config)
    assert done.returncode == (case not in ("910B", "950"))
    *readings, (verdict, message) = of_batch_norm(rows)
    assert [(each, text[: len(read[1])]) for each, text in readings] == [read, read]
    assert (verdict, told in message) == (PASSED if done.returncode == 0 else FAILED, True), message
    assert [row.verdict for row in rows if row.check == "copies"], "the examination goes on"


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
