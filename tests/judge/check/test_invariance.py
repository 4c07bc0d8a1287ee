"""Rows alone and in batches: what `--invariance` says of servers whose kernels depend on what else is computed."""

from pathlib import Path

import numpy as np
import pytest

from aclgrad.judge.check import target
from aclgrad.testing import _compute
from tests.judge.checking import FEW, NORM, SOFTMAX, check, few_cases
from tests.wrong_servers import Array, Change, changed, last_bit, of_gradients


def by_size(gradient: Array) -> Array:
    """As a kernel that adds up otherwise for large batches: right, but for the last bit."""
    return last_bit(gradient) if len(gradient) >= 64 else gradient


def by_place(gradient: Array) -> Array:
    """As a kernel whose last tile is another code path."""
    return np.concatenate([gradient[:-1], last_bit(gradient[-1:])]) if len(gradient) > 2 else gradient


def in_messages(method: str, request: bytes, reply: bytes) -> bytes:
    if method != "ExecuteProgram":
        return reply
    return of_gradients(SOFTMAX, last_bit)(method, request, reply)


def test_a_sound_server_has_a_table_by_operator(address: str, tmp_path: Path) -> None:
    checked = check(tmp_path, address, "--invariance")
    assert checked.exit_code == 0, checked.output
    assert {row["verdict"] for row in checked.rows} == {"passed"}
    assert {row["check"] for row in checked.rows} == {"listing", "invariance"}
    for name in FEW:
        assert f"invariance  {name.removesuffix('_backward')} " in checked.output
    assert any("in batches of up to 257" in row["message"] for row in checked.rows)


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (of_gradients(SOFTMAX, by_size), "plane 0 in a batch of 64"),
        (of_gradients(SOFTMAX, by_place), "plane 2 in a batch of 3"),
        (in_messages, "plane 0 as call 0 of a message"),
    ],
    ids=["by_size", "by_place", "in_messages"],
)
def test_a_kernel_that_depends_on_the_batch_fails_alone(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Change, where: str
) -> None:
    two = lambda product: (each for each in few_cases(product) if each.spec.name in (NORM, SOFTMAX))  # noqa: E731
    monkeypatch.setattr(target, "typed_cases", two)
    with changed(address, change) as wrong:
        checked = check(tmp_path, wrong, "--invariance")
    assert checked.exit_code == 1
    failed = [row for row in checked.rows if row["verdict"] != "passed"]
    assert {(row["check"], row["operator"], row["verdict"]) for row in failed} == {("invariance", SOFTMAX, "failed")}
    assert failed[0]["message"].startswith(f"{where} is not what it is alone: ")
    assert 0 < failed[0]["figures"]["different"] < failed[0]["figures"]["compared"]


def test_batches_beyond_a_limit_are_left_out(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_compute, "MAX_TENSOR_BYTES", 60 * 1024)
    checked = check(tmp_path, address, "--invariance")
    assert checked.exit_code == 0, checked.output
    rows = [row for row in checked.rows if row["check"] == "invariance" and row["verdict"] == "passed"]
    largest = {int(row["message"].rpartition(" ")[2]) for row in rows}
    assert {7, 64} <= largest
    assert 257 not in largest
