"""What `aclgrad compare` says of two servers: sound ones, planted kernels, different operators, early ends."""

import itertools
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from aclgrad.commands import program
from aclgrad.errors import PermissionDeniedError, ServerFaultError
from aclgrad.judge.check.target import Selection
from aclgrad.judge.findings.display import Display
from aclgrad.judge.findings.rows import Row
from aclgrad.operators.cases import typed_cases
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.parts import samples_of
from aclgrad.products import Product
from aclgrad.testing import serve
from aclgrad.v1 import operator_service_pb2 as pb
from tests.judge.checking import AVERAGE, AVG_POOL, FEW, NORM, PAD, compare, judged
from tests.wrong_servers import Array, Change, changed, last_bit, of_gradients, of_status, turned_off
from tools.serving import Server

SHAPE = samples_of(PAD).cases[0].shapes["self"]
PLACE = (1, 2, 0, 1)
TWO = "--only", NORM, "--only", PAD


def test_equal_servers_pass_and_the_report_names_their_versions(address: str, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    with changed(address, of_status(runtime_version="8.3.RC1", version="0.0.9")) as other:
        compared = compare(tmp_path, address, other, "--html", str(page))
    assert compared.exit_code == 0, compared.output
    assert {(row["verdict"], row["check"], row["target"]) for row in compared.rows} == {("passed", "compare", other)}
    assert [row["operator"] for row in compared.rows] == FEW
    assert compared.summary["conclusion"] == f"A and B give the same bits in all {len(FEW)} operators"
    assert compared.summary["switches"] == {}
    servers = compared.summary["servers"]
    assert (servers["A"]["target"], servers["B"]["target"]) == (address, other)
    told = {"product": "910B", "library": "aclgrad.testing", "runtime": "8.3.RC1", "aclgrad": "0.0.9"}
    assert servers["B"] == {"target": other, **told}
    line = f"{other}, product 910B, library aclgrad.testing, runtime 8.3.RC1, aclgrad 0.0.9"
    assert f"B: {line}" in compared.output
    text = page.read_text()
    assert f"<title>aclgrad compare: {address} and {other}</title>" in text
    assert all(each in text for each in ("runtime 8.3.RC1", compared.summary["conclusion"]))
    assert {name for name in OPERATORS if f"<td>{name}</td>" in text} == set(FEW)


def test_each_server_is_judged_by_the_tolerance_of_its_own_product(few: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """That of 310P, which computes float32 in float16, takes an error of a thousandth; what it lacks is told."""
    coarse = of_gradients(AVERAGE, lambda gradient: gradient * 1.001)
    with (
        serve() as exact,
        serve(product="310P") as inexact,
        changed(exact.target, coarse) as one,
        changed(inexact.target, coarse) as other,
    ):
        compared = compare(tmp_path, one, other)
    assert compared.exit_code == 1
    (failed,) = (row for row in compared.rows if row["verdict"] == "failed")
    assert failed["operator"] == AVERAGE
    assert (failed["figures"]["a_wrong"], failed["figures"]["b_wrong"]) == (1, 0)
    skipped = {row["operator"]: row["message"] for row in compared.rows if row["verdict"] == "skipped"}
    lacking = [name for name in FEW if Product.ATLAS_INFERENCE not in OPERATORS[name].products]
    for name in lacking:
        assert skipped[name] == "B is on product 310P, which does not have the operator"
    # The first cases of the two products are other ones.
    assert skipped[AVG_POOL] == "A is on product 910B, which does not compute such calls"
    alone = {row["operator"] for row in compared.rows if row["verdict"] != "skipped"}
    assert lacking
    assert f"; not compared: {len(set(skipped) - alone)} of {len(FEW)} operators" in compared.summary["conclusion"]


def without(method: str, request: bytes, reply: bytes) -> bytes:
    """A server whose self-test has turned an operator off."""
    if method != "ListOperators":
        return turned_off(PAD)(method, request, reply)
    message = pb.ListOperatorsResponse.FromString(reply)
    kept = [each for each in message.operators if each.name != PAD]
    return pb.ListOperatorsResponse(operators=kept).SerializeToString()


def test_an_operator_that_one_server_has_turned_off_is_skipped(address: str, tmp_path: Path) -> None:
    with changed(address, without) as other:
        compared = compare(tmp_path, address, other)
    assert compared.exit_code == 0
    assert {name: (row["verdict"], row["message"]) for name, row in compared.notable().items()} == {
        PAD: ("skipped", "B has turned the operator off: device 3 computes int8 wrongly")
    }
    assert "turned off replication_pad2d_backward" in compared.output


@pytest.mark.parametrize(
    ("error", "verdict", "told"),
    [
        (PermissionDeniedError("ada may not call it"), "skipped", "B: the server refuses the call: ada may not"),
        (ServerFaultError("broken"), "failed", "B: ServerFaultError: broken"),
    ],
)
def test_a_call_that_one_server_does_not_answer_is_one_row(
    address: str, tmp_path: Path, error: Any, verdict: str, told: str
) -> None:
    with serve() as other:
        other.fail(error)
        compared = compare(tmp_path, address, other.target, *TWO)
    assert {name: row["verdict"] for name, row in compared.notable().items()} == {NORM: verdict}
    assert compared.notable()[NORM]["message"].startswith(told)
    assert len(compared.rows) == 2


def test_a_switch_that_only_one_server_has_on_is_judged(address: str, tmp_path: Path) -> None:
    with changed(address, of_status(executor_cache=True)) as on:
        for servers in ((address, on), (on, address)):
            assert compare(tmp_path, *servers).summary["switches"]["--executor-cache"]["verdict"] == "safe"
        some = compare(tmp_path, address, on, "--only", PAD)
        assert [row["operator"] for row in some.rows] == [PAD]
        assert some.summary["switches"]["--executor-cache"]["verdict"] == "not compared"
        with changed(on, of_gradients(PAD, last_bit)) as wrong:
            found = compare(tmp_path, address, wrong).summary["switches"]["--executor-cache"]
    assert (found["verdict"], found["why"]) == ("not safe", f"gradients differ or calls fail: {PAD}")


def test_a_server_that_goes_away_leaves_a_partial_report(address: str, tmp_path: Path) -> None:
    page, rows, real = tmp_path / "report.html", [], Display.take
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        other = stack.enter_context(serve()).target

        def take(self: Display, row: Row) -> None:
            real(self, row)
            rows.append(row)
            if len(rows) == 5:
                stack.close()

        patch.setattr(Display, "take", take)
        compared = compare(tmp_path, address, other, "--html", str(page), "--timeout-s", "5")
    assert (compared.exit_code, compared.summary["end"], len(compared.rows)) == (3, "server gone", 5)
    assert compared.summary["planned"] == len(FEW)
    assert "the report is partial" in compared.output
    assert "server gone, exit code 3" in page.read_text()
    assert other in compared.summary["message"]


def test_targets_that_are_not_two_servers_are_refused(address: str, tmp_path: Path) -> None:
    for arguments, told in (
        ((address, "127.0.0.1:1"), "127.0.0.1:1"),
        ((f"{address},127.0.0.1:1", address), "compare one with one other"),
        ((address, address, "--only", "pad"), "there is no operator pad"),
        ((address, address, "--html", str(tmp_path / "nowhere" / "report.html")), "there is no folder"),
        ((address, address, "--html", __file__), "exists; give another file, or --force to replace it"),
    ):
        result = CliRunner().invoke(program, ["compare", *arguments])
        expected = 3 if arguments[1] == "127.0.0.1:1" else 2
        assert (result.exit_code, told in result.output) == (expected, True), result.output


@pytest.mark.slow
def test_the_full_form_has_large_calls_and_all_calls_again(server: Server, tmp_path: Path) -> None:
    compared = judged("compare", tmp_path, server.address, server.address, "--only", PAD)
    assert compared.exit_code == 0, compared.output
    cases = Counter(row["case"].removesuffix(", after all others") + row["dtype"] for row in compared.rows)
    assert set(cases.values()) == {2}
    assert "6 MBfloat32" in cases
    assert {row["figures"]["runs"] for row in compared.rows} == {5}


@pytest.mark.slow
def test_executors_of_the_real_server_are_safe(server: Server, tmp_path: Path) -> None:
    with Server("--executor-cache", "off") as off:
        compared = compare(tmp_path, off.address, server.address)
    assert compared.exit_code == 0, compared.output
    assert compared.summary["switches"]["--executor-cache"]["verdict"] == "safe"


def at_place(change: Callable[[Array], Array]) -> Callable[[Array], Array]:
    def changed_there(gradient: Array) -> Array:
        copy = gradient.copy()
        copy[PLACE] = change(copy[PLACE])
        return copy

    return changed_there


def varying(is_changed: Callable[[int], bool]) -> Change:
    """Changes a bit in the runs with these numbers."""
    numbers = itertools.count()
    return of_gradients(PAD, lambda each: last_bit(each) if is_changed(next(numbers)) else each)


@pytest.mark.parametrize("side", ["A", "B"])
def test_a_wrong_kernel_is_found_named_and_located(address: str, tmp_path: Path, side: str) -> None:
    with changed(address, of_gradients(PAD, at_place(lambda element: element + 1))) as wrong:
        servers = (wrong, address) if side == "A" else (address, wrong)
        compared = compare(tmp_path, *servers, *TWO)
    assert compared.exit_code == 1
    assert set(compared.notable()) == {PAD}
    row = compared.notable()[PAD]
    assert (row["verdict"], row["message"][:3]) == ("failed", f"{side}: ")
    assert (row["figures"]["a_wrong"], row["figures"]["b_wrong"]) == (side == "A", side == "B")
    assert [tuple(each["index"]) for each in row["worst"]] == [PLACE]
    conclusion = f"{side} is wrong in replication_pad2d float32; 1 of 2 operators differ"
    assert compared.summary["conclusion"].startswith(conclusion)


def test_a_last_bit_is_noted_and_located(address: str, tmp_path: Path) -> None:
    with changed(address, of_gradients(PAD, at_place(last_bit))) as other:
        compared = compare(tmp_path, address, other, *TWO)
    assert compared.exit_code == 0
    assert set(compared.notable()) == {PAD}
    row = compared.notable()[PAD]
    assert row["verdict"] == "noted"
    assert (row["figures"]["max_ulps"], row["figures"]["different"]) == (1, pytest.approx(1 / np.prod(SHAPE)))
    assert [tuple(each["index"]) for each in row["worst"]] == [PLACE]
    assert f"1 of {np.prod(SHAPE)} elements differ" in row["message"]
    assert f"1 ULP; B has {float(row['worst'][0]['computed']):.9g} at {PLACE}" in row["message"]
    assert compared.summary["conclusion"] == "1 of 2 operators differ, by at most 1 ULP"


def test_the_server_with_the_larger_error_is_named(address: str, tmp_path: Path) -> None:
    """Half of what the tolerance allows."""
    relative = next(typed_cases(Product.ATLAS_A2, PAD)).tolerance(Product.ATLAS_A2).relative
    with changed(address, of_gradients(PAD, lambda gradient: gradient * (1 + relative / 2))) as worse:
        for servers, sides in (((address, worse), "BA"), ((worse, address), "AB")):
            compared = compare(tmp_path, *servers, *TWO)
            assert compared.exit_code == 0
            assert set(compared.notable()) == {PAD}
            sentence = "{} is worse than {} in replication_pad2d float32 (".format(*sides)
            assert sentence in compared.summary["conclusion"]


@pytest.mark.parametrize(("is_deterministic", "verdict"), [(True, "failed"), (False, "noted")])
@pytest.mark.parametrize("side", ["A", "B", "same"])
def test_a_server_that_varies_is_noted_or_breaks_its_word(
    address: str, tmp_path: Path, side: str, is_deterministic: bool, verdict: str
) -> None:
    one_of_three = varying(lambda number: number % 3 == 2)
    with changed(address, of_status(deterministic=is_deterministic)) as told, changed(told, one_of_three) as unsteady:
        servers = {"A": (unsteady, address), "B": (address, unsteady), "same": (unsteady, unsteady)}
        compared = compare(tmp_path, *servers[side], *TWO)
    found = compared.notable()
    assert {operator: row["verdict"] for operator, row in found.items()} == {PAD: verdict}
    assert compared.exit_code == is_deterministic
    assert "of 4 repeated runs differ: " in found[PAD]["message"]
    varied = {name for name in "ab" if found[PAD]["figures"][f"{name}_varied"]}
    assert varied == set("ab" if side == "same" else side.lower())
    assert ("same server" in compared.summary["conclusion"]) is (side == "same")


def test_one_server_that_differs_between_two_calls_alone_is_not_deterministic(address: str, tmp_path: Path) -> None:
    """Its runs are the same until it is asked as B: the sixth call of the operator is the first one then."""
    with (
        changed(address, of_status(deterministic=True)) as told,
        changed(told, varying(lambda number: number >= 5)) as server,
    ):
        compared = compare(tmp_path, server, server, *TWO)
    assert {operator: row["verdict"] for operator, row in compared.notable().items()} == {PAD: "failed"}


def test_a_difference_that_comes_after_all_other_calls_is_found(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Selection, "timed", lambda *_: iter(()))
    with changed(address, varying(lambda number: number >= 5)) as other:
        compared = judged("compare", tmp_path, address, other, *TWO)
    assert len(compared.rows) == 2 * 2
    first, second = (row for row in compared.rows if row["operator"] == PAD)
    assert (first["verdict"], second["verdict"]) == ("passed", "noted")
    assert second["case"] == f"{first['case']}, after all others"
