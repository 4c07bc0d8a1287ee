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


@pytest.mark.parametrize(
    ("product", "saved", "told"),
    [
        ("910B", VARIANCE, (Verdict.PASSED, f"it saves the variance; {READ_AS_VARIANCE}")),
        ("950", RECIPROCAL, (Verdict.PASSED, f"it saves the reciprocal 1 / sqrt(var + eps); {READ_AS_RECIPROCAL}")),
    ],
)
def test_the_statistics_of_the_cards_own_forward_pass(
    tmp_path: Path, product: str, saved: str, told: tuple[Verdict, str]
) -> None:
    config = write_config(tmp_path, strict=False, product=product)
    _, rows = examined("--backend", planted(tmp_path, saved), "--acl-config", config)
    read = (Verdict.PASSED, READ_AS_RECIPROCAL if product == "950" else READ_AS_VARIANCE)
    assert of_batch_norm(rows) == [read, read, told]


def test_statistics_of_no_known_reading_fail_and_a_forward_pass_that_fails_is_named(tmp_path: Path) -> None:
    config = write_config(tmp_path, strict=False)
    done, rows = examined("--backend", planted(tmp_path, "std::sqrt(var)"), "--acl-config", config)
    verdict, message = of_batch_norm(rows)[-1]
    assert (done.returncode, verdict) == (1, Verdict.FAILED)
    assert "which is neither the variance nor the reciprocal" in message
    done, rows = examined("--backend", planted(tmp_path, VARIANCE, code=561103), "--acl-config", config)
    verdict, message = of_batch_norm(rows)[-1]
    assert (done.returncode, verdict) == (1, Verdict.FAILED)
    assert message.startswith("aclnnBatchNorm returned 561103")
    assert [row.verdict for row in rows if row.check == "copies"], "the examination goes on"


@pytest.mark.parametrize(
    ("product", "soc", "named", "should", "told"),
    [
        ("910B", "Ascend950PR_9599", "950", "the reciprocal 1 / sqrt(var + eps)", READ_AS_VARIANCE),
        ("950", "Ascend910B1", "910B", "the variance", READ_AS_RECIPROCAL),
    ],
)
def test_a_device_that_reads_what_another_product_reads_is_named(
    tmp_path: Path, product: str, soc: str, named: str, should: str, told: str
) -> None:
    config = write_config(tmp_path, strict=False, product=product)
    library = planted(tmp_path, VARIANCE if product == "910B" else RECIPROCAL, soc)
    done, rows = examined("--backend", library, "--acl-config", config)
    assert done.returncode == 1
    for verdict, message in of_batch_norm(rows):
        assert verdict is Verdict.FAILED
        assert f"{told}, and product {named} should read {should}: gradients with training are wrong" in message


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
