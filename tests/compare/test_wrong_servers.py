"""Planted kernels on one of two servers: each is found, named, and located."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aclgrad.check.selection import Selection
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.samples import samples_of
from tests.check.checking import judged
from tests.compare.comparing import compare, notable
from tests.wrong_servers import Change, changed, of_gradients, of_status

OPERATOR = "replication_pad2d_backward"
SHAPE = samples_of(OPERATOR).cases[0].shapes["self"]
PLACE = (1, 2, 0, 1)
Array = np.ndarray[Any, Any]


def at_place(change: Callable[[Array], Array]) -> Callable[[Array], Array]:
    def changed_there(gradient: Array) -> Array:
        copy = gradient.copy()
        copy[PLACE] = change(copy[PLACE])
        return copy

    return changed_there


def last_bit(gradient: Array) -> Array:
    return np.nextafter(gradient, gradient.dtype.type(np.inf))


def unsteady(period: int) -> Change:
    """Changes a bit in one of so many runs."""
    numbers = itertools.count()
    return of_gradients(OPERATOR, lambda each: last_bit(each) if next(numbers) % period == period - 1 else each)


@pytest.mark.parametrize("side", ["A", "B"])
def test_a_wrong_kernel_is_found_named_and_located(address: str, tmp_path: Path, side: str) -> None:
    with changed(address, of_gradients(OPERATOR, at_place(lambda element: element + 1))) as wrong:
        servers = (wrong, address) if side == "A" else (address, wrong)
        compared = compare(tmp_path, *servers)
    assert compared.exit_code == 1
    found = notable(compared)
    assert set(found) == {OPERATOR}
    row = found[OPERATOR]
    assert (row["verdict"], row["message"][:3]) == ("failed", f"{side}: ")
    assert (row["figures"]["a_wrong"], row["figures"]["b_wrong"]) == (side == "A", side == "B")
    assert [tuple(each["index"]) for each in row["worst"]] == [PLACE]
    assert compared.summary["conclusion"].startswith(
        f"{side} is wrong in replication_pad2d float32; 1 of {len(OPERATORS)} operators differ"
    )


def test_a_last_bit_is_noted_and_located(address: str, tmp_path: Path) -> None:
    with changed(address, of_gradients(OPERATOR, at_place(last_bit))) as other:
        compared = compare(tmp_path, address, other)
    assert compared.exit_code == 0
    found = notable(compared)
    assert set(found) == {OPERATOR}
    row = found[OPERATOR]
    assert row["verdict"] == "noted"
    assert (row["figures"]["max_ulps"], row["figures"]["different"]) == (1, pytest.approx(1 / np.prod(SHAPE)))
    assert [tuple(each["index"]) for each in row["worst"]] == [PLACE]
    assert f"1 of {np.prod(SHAPE)} elements differ" in row["message"]
    assert f"1 ULP; B has {float(row['worst'][0]['computed']):.9g} at {PLACE}" in row["message"]
    assert compared.summary["conclusion"] == f"1 of {len(OPERATORS)} operators differ, by at most 1 ULP"


def test_the_server_with_the_larger_error_is_named(address: str, tmp_path: Path) -> None:
    """Half of what the tolerance allows."""
    relative = OPERATORS[OPERATOR].tolerances["float32"].relative
    with changed(address, of_gradients(OPERATOR, lambda gradient: gradient * (1 + relative / 2))) as worse:
        for servers, sides in (((address, worse), "BA"), ((worse, address), "AB")):
            compared = compare(tmp_path, *servers)
            assert compared.exit_code == 0
            assert set(notable(compared)) == {OPERATOR}
            sentence = "{} is worse than {} in replication_pad2d float32 (".format(*sides)
            assert sentence in compared.summary["conclusion"]


@pytest.mark.parametrize(("is_deterministic", "verdict"), [(True, "failed"), (False, "noted")])
@pytest.mark.parametrize("side", ["A", "B", "same"])
def test_a_server_that_varies_is_noted_or_breaks_its_word(
    address: str, tmp_path: Path, side: str, is_deterministic: bool, verdict: str
) -> None:
    with changed(address, of_status(deterministic=is_deterministic)) as told, changed(told, unsteady(3)) as varying:
        servers = {"A": (varying, address), "B": (address, varying), "same": (varying, varying)}
        compared = compare(tmp_path, *servers[side])
    found = notable(compared)
    assert {operator: row["verdict"] for operator, row in found.items()} == {OPERATOR: verdict}
    assert compared.exit_code == is_deterministic
    assert "of 4 repeated runs differ: " in found[OPERATOR]["message"]
    varied = {name for name in "ab" if found[OPERATOR]["figures"][f"{name}_varied"]}
    assert varied == set("ab" if side == "same" else side.lower())
    assert ("same server" in compared.summary["conclusion"]) is (side == "same")


def test_one_server_that_differs_between_two_calls_alone_is_not_deterministic(address: str, tmp_path: Path) -> None:
    """Its runs are the same until it is asked as B: the sixth call of the operator is the first one then."""
    with changed(address, of_status(deterministic=True)) as told:
        numbers = itertools.count()
        later = of_gradients(OPERATOR, lambda gradient: last_bit(gradient) if next(numbers) >= 5 else gradient)
        with changed(told, later) as server:
            compared = compare(tmp_path, server, server)
    assert {operator: row["verdict"] for operator, row in notable(compared).items()} == {OPERATOR: "failed"}


def test_a_difference_that_comes_after_all_other_calls_is_found(
    address: str, few: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    few.setattr(Selection, "timed", lambda *_: iter(()))
    numbers = itertools.count()
    later = of_gradients(OPERATOR, lambda gradient: last_bit(gradient) if next(numbers) >= 5 else gradient)
    with changed(address, later) as other:
        compared = judged("compare", tmp_path, address, other)
    assert len(compared.rows) == 2 * len(OPERATORS)
    first, second = (row for row in compared.rows if row["operator"] == OPERATOR)
    assert (first["verdict"], second["verdict"]) == ("passed", "noted")
    assert second["case"] == f"{first['case']}, after all others"
