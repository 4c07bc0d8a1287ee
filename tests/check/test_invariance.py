"""Rows alone and in batches: what `--invariance` says of servers whose kernels depend on what else is computed."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aclgrad.operators.catalogue import OPERATORS
from tests.check.checking import check
from tests.wrong_servers import Change, changed, of_gradients
from tools.serving import Server

OPERATOR = "softmax_backward"
Array = np.ndarray[Any, Any]


def next_bits(gradient: Array) -> Array:
    return np.nextafter(gradient, gradient.dtype.type(np.inf))


def by_size(gradient: Array) -> Array:
    """As a kernel that adds up otherwise for large batches: right, but for the last bit."""
    return next_bits(gradient) if len(gradient) >= 64 else gradient


def by_place(gradient: Array) -> Array:
    """As a kernel whose last tile is another code path."""
    return np.concatenate([gradient[:-1], next_bits(gradient[-1:])]) if len(gradient) > 2 else gradient


def in_messages(method: str, request: bytes, reply: bytes) -> bytes:
    if method != "BatchExecuteOperators":
        return reply
    return of_gradients(OPERATOR, next_bits)(method, request, reply)


def test_a_sound_server_has_a_table_by_operator(address: str, tmp_path: Path) -> None:
    checked = check(tmp_path, address, "--invariance")
    assert checked.exit_code == 0, checked.output
    assert checked.verdicts("invariance") == {"passed"}
    rows = [row for row in checked.rows if row["check"] == "invariance"]
    assert {row["operator"] for row in rows} == set(OPERATORS)
    assert {row["check"] for row in checked.rows} == {"listing", "invariance"}
    for name in OPERATORS:
        assert f"invariance  {name.removesuffix('_backward')} " in checked.output
    assert any("in batches of up to 257" in row["message"] for row in rows)


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (of_gradients(OPERATOR, by_size), "plane 0 in a batch of 64"),
        (of_gradients(OPERATOR, by_place), "plane 2 in a batch of 3"),
        (in_messages, "plane 0 as call 0 of a message"),
    ],
    ids=["by_size", "by_place", "in_messages"],
)
def test_a_kernel_that_depends_on_the_batch_fails_alone(
    address: str, tmp_path: Path, change: Change, where: str
) -> None:
    with changed(address, change) as wrong:
        checked = check(tmp_path, wrong, "--invariance")
        accurate = check(tmp_path, wrong, only=("accuracy",))
    assert (checked.exit_code, accurate.exit_code) == (1, 0)
    failed = [row for row in checked.rows if row["verdict"] != "passed"]
    assert {(row["check"], row["operator"], row["verdict"]) for row in failed} == {("invariance", OPERATOR, "failed")}
    assert failed[0]["message"].startswith(f"{where} is not what it is alone: ")
    assert 0 < failed[0]["figures"]["different"] < failed[0]["figures"]["compared"]


def test_batches_beyond_a_limit_are_left_out(few: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with Server("--max-tensor-bytes", "20K") as server:
        checked = check(tmp_path, server.address, "--invariance")
    assert checked.exit_code == 0, checked.output
    rows = [row for row in checked.rows if row["check"] == "invariance" and row["verdict"] == "passed"]
    largest = {int(row["message"].rpartition(" ")[2]) for row in rows}
    assert {7, 64} <= largest
    assert 257 not in largest
