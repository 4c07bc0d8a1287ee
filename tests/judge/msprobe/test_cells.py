"""Rows of the details CSV against those that msprobe wrote, and against figures computed by hand."""

import csv
import warnings

import ml_dtypes
import numpy as np
import pytest

from aclgrad.judge.msprobe.cells import SPACE, TITLE, Status, reference_dtype, row, skipped
from tests.judge.msprobe.pairs import GOLDEN, INF, PAIRS, arrays

UNEQUAL = TITLE.index("二进制一致错误率")


def golden() -> dict[str, list[str]]:
    with GOLDEN.open(encoding="utf-8-sig", newline="") as file:
        return {cells[0]: cells for cells in csv.reader(file)}


@pytest.mark.parametrize("name", PAIRS)
def test_cells_are_those_of_msprobe(name: str) -> None:
    theirs = golden()[name]
    ours = row(*arrays(name), PAIRS[name][2]).cells(name)
    # msprobe leaves the share of unequal elements empty but for integers; its messages are its own.
    share, theirs[UNEQUAL] = theirs[UNEQUAL], ours[UNEQUAL]
    assert ours[:-1] == theirs[:-1]
    assert share in (SPACE, ours[UNEQUAL])


def test_the_columns_are_those_of_msprobe() -> None:
    assert list(TITLE) == golden()["API Name"]


def test_unequal_elements_are_counted_in_the_dtype_of_the_device() -> None:
    third = np.array([1 / 3, 2 / 3])
    assert row(third, third.astype(np.float32), "float32").figures["二进制一致错误率"] == 0.0
    halves = third.astype(np.float32)
    widened = halves.astype(ml_dtypes.bfloat16).astype(np.float32)
    assert row(halves, widened, "bfloat16").figures["二进制一致错误率"] == 0.0
    assert row(halves, np.nextafter(widened, 1), "bfloat16").figures["二进制一致错误率"] == 1.0


def test_bfloat16_may_come_widened() -> None:
    truth, device = arrays("bfloat16_few_off")
    assert row(truth, device, "bfloat16") == row(truth, device.astype(np.float32), "bfloat16")


def test_complex_gradients_are_skipped() -> None:
    gradient = np.array([1 + 2j], np.complex64)
    skip = row(gradient, gradient, "complex64")
    assert (skip.status, skip.cells("x")[2]) == (Status.SKIP, "torch.complex64")


def test_a_skipped_row_holds_spaces_and_its_reason() -> None:
    assert skipped("no operator").cells("Functional.pad.0.backward.output.0") == [
        *("Functional.pad.0.backward.output.0", *[" "] * 20, "SKIP", "no operator")
    ]


def test_gradients_that_may_be_rounding_say_so() -> None:
    assert "but for rounding" in row(*arrays("nothing_but_noise"), "float32").message


@pytest.mark.parametrize("name", ["opposite", "reference_zero", "device_zero"])
def test_other_wrong_directions_are_not_excused(name: str) -> None:
    assert "rounding" not in row(*arrays(name), "float32").message


def test_numbers_that_overflow_raise_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        row(np.array([1e300, INF, -INF, 1e-320]), np.array([INF, -INF, INF, 0.0], np.float32), "float32")


@pytest.mark.parametrize(
    ("dtype", "reference"),
    [("float32", "float64"), ("float16", "float32"), ("bfloat16", "float32"), ("float64", "float64"), ("bool", "bool")],
)
def test_references_have_the_dtype_of_acc_check(dtype: str, reference: str) -> None:
    assert reference_dtype(dtype) == reference
