"""What a run says of servers that compute wrongly or that it cannot check; bundles of the worst call; early ends."""

import itertools
import json
import re
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from aclgrad import reference
from aclgrad.commands import program
from aclgrad.judge.bundles import read
from aclgrad.judge.check.command import judge_switches
from aclgrad.judge.findings.display import Display
from aclgrad.judge.findings.rows import NOT_COMPARED, SAFE, End, Origin, Report, Row, Verdict
from aclgrad.operators.cases import arrays_of
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.tensors import DTYPES
from aclgrad.testing import serve
from aclgrad.v1 import operator_service_pb2 as pb
from tests.judge.checking import FEW, NORM, PAD, ROI, check
from tests.wrong_servers import (
    Array,
    Change,
    changed,
    last_bit,
    of_gradients,
    of_reply,
    of_status,
    one_element,
    one_nan,
    turned_off,
)


def test_a_negated_gradient_fails_its_operator_alone(address: str, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    with changed(address, of_gradients(PAD, np.negative)) as wrong:
        checked = check(tmp_path, wrong, "--html", str(page), only=("accuracy", "layouts", "fills", "determinism"))
    assert checked.exit_code == 1
    failed = [row for row in checked.rows if row["verdict"] == "failed"]
    assert {(row["operator"], row["check"]) for row in failed} == {(PAD, "accuracy")}
    assert "elements are outside the tolerance" in failed[0]["message"]
    assert failed[0]["figures"]["outside"] > 0.9
    assert "Rows that did not pass" in page.read_text()


def test_a_gradient_of_another_shape_fails(address: str, tmp_path: Path) -> None:
    reshape = lambda message: message.outputs[0].shape.append(1)  # noqa: E731
    with changed(address, of_reply("ExecuteOperator", pb.ExecuteOperatorResponse, reshape)) as wrong:
        checked = check(tmp_path, wrong, only=("accuracy",))
    assert checked.exit_code == 1
    assert checked.verdicts("accuracy") == {"failed"}
    assert "instead of" in next(row["message"] for row in checked.rows if row["check"] == "accuracy")


def stained(gradient: Array) -> Array:
    return np.where(gradient == 0, np.asarray(1e-7, gradient.dtype), gradient)


def unsteady() -> Change:
    numbers = itertools.count()
    return of_gradients(ROI, lambda gradient: last_bit(gradient) if next(numbers) % 3 == 2 else gradient)


def reads_self(method: str, request: bytes, reply: bytes) -> bytes:
    if method != "ExecuteOperator":
        return reply
    call = pb.ExecuteOperatorRequest.FromString(request)
    sent = next((each.data for each in call.inputs if each.name == "self"), b"")
    if call.operator != PAD or sent.count(0xCB) < len(sent) or not sent:
        return reply
    message = pb.ExecuteOperatorResponse.FromString(reply)
    message.outputs[0].data = sent
    return message.SerializeToString()


def ignores_views(method: str, request: bytes, reply: bytes) -> bytes:
    """What is computed of strided bytes as if they were row-major."""
    call = pb.ExecuteOperatorRequest.FromString(request) if method == "ExecuteOperator" else None
    if call is None or call.operator != ROI or not any(each.HasField("view") for each in call.inputs):
        return reply
    message = pb.ExecuteOperatorResponse.FromString(reply)
    message.outputs[0].data = message.outputs[0].data[::-1]
    return message.SerializeToString()


def leaking() -> Change:
    kept = itertools.count(2**20, 512)

    def leak(status: pb.GetServerStatusResponse) -> None:
        pool = status.devices.add().pool
        pool.allocated_bytes = pool.reserved_bytes = next(kept)

    return of_reply("GetServerStatus", pb.GetServerStatusResponse, leak)


@pytest.mark.parametrize(
    ("change", "only", "is_deterministic", "not_passed"),
    [
        (of_gradients(ROI, stained), ("accuracy", "fills"), False, [("fills", ROI, "failed")]),
        (unsteady(), ("determinism",), True, [("determinism", ROI, "failed")]),
        (unsteady(), ("determinism",), False, [("determinism", ROI, "noted")]),
        (reads_self, ("shape_only",), False, [("shape_only", PAD, "failed")]),
        (ignores_views, ("views",), False, [("views", ROI, "failed")]),
        (leaking(), ("memory",), False, [("memory", "", "failed")] * 2),
    ],
    ids=["stained", "unsteady", "unsteady_by_its_own_word", "reads_self", "ignores_views", "leaking"],
)
def test_what_is_wrong_fails_its_check_alone(
    address: str, tmp_path: Path, change: Change, only: tuple[str, ...], is_deterministic: bool, not_passed: list[Any]
) -> None:
    with changed(address, of_status(deterministic=is_deterministic)) as told, changed(told, change) as wrong:
        checked = check(tmp_path, wrong, only=only)
    found = [(row["check"], row["operator"], row["verdict"]) for row in checked.rows if row["verdict"] != "passed"]
    assert found == not_passed
    assert checked.exit_code == any(verdict == "failed" for *_, verdict in not_passed)
    switch = checked.summary["switches"]["--shape-only"]["verdict"]
    assert (switch == "not safe") is (change is reads_self)
    switch = checked.summary["switches"]["--strided-inputs"]["verdict"]
    assert (switch == "not safe") is (change is ignores_views)


def test_a_run_that_ended_early_calls_no_switch_safe() -> None:
    """Also none of the operators that have passed so far, beside one that has failed."""
    origin = Origin("here", "910B", "library", "0")
    rows = [
        Row(origin, "views", operator, "float32", (), "case", verdict, "", {"read_as_they_are": 1.0}, 0.0)
        for operator, verdict in ((PAD, Verdict.PASSED), (ROI, Verdict.FAILED))
    ]
    target: Any = SimpleNamespace(origin=origin)
    verdicts = [
        {each.switch: each.verdict for each in judge_switches(Report(rows=rows, end=end), [target])}["--strided-inputs"]
        for end in (End.COMPLETE, End.INTERRUPTED)
    ]
    assert verdicts == [SAFE, NOT_COMPARED]


def test_an_unknown_product_is_refused(address: str, tmp_path: Path) -> None:
    with changed(address, of_status(product="910Z")) as unknown:
        checked = check(tmp_path, unknown)
    assert checked.exit_code == 2
    assert all(each in checked.output for each in ("product '910Z' is not known", "310P", "upgrade aclgrad"))


def test_operators_and_dtypes_that_only_one_side_knows_have_a_row(address: str, tmp_path: Path) -> None:
    first, last = min(OPERATORS), FEW[-1]

    def other_operators(message: pb.ListOperatorsResponse) -> None:
        named = {each.name: each for each in message.operators}
        named[first].inputs[0].data_types.append(99)
        del named[last].inputs[0].data_types[0]
        message.operators.remove(named[PAD])
        message.operators.add(name="fold_backward")

    with changed(address, of_reply("ListOperators", pb.ListOperatorsResponse, other_operators)) as wrong:
        checked = check(tmp_path, wrong, only=("listing", "accuracy"))
    assert checked.exit_code == 1
    listing = {row["operator"]: row for row in checked.rows if row["verdict"] in ("failed", "skipped")}
    told = {
        "fold_backward": ("skipped", "does not know the operator"),
        PAD: ("failed", "does not list the operator"),
        first: ("skipped", "does not know the dtype"),
        last: ("failed", "does not list float32"),
    }
    assert {name: row["verdict"] for name, row in listing.items()} == {
        name: verdict for name, (verdict, _) in told.items()
    }
    assert [name for name, (_, message) in told.items() if message not in listing[name]["message"]] == []
    assert listing[first]["dtype"] == "DataType 99"
    assert {row["operator"] for row in checked.rows if row["check"] == "accuracy"} == set(FEW) - {PAD, last}


def test_operators_that_are_not_served_fail_whatever_is_checked(address: str, tmp_path: Path) -> None:
    """Turned off by the self-test, or not listed; a server of another version may not have them."""

    def none(method: str, request: bytes, reply: bytes) -> bytes:
        return b"" if method == "ListOperators" else turned_off(PAD)(method, request, reply)

    off = "the server has turned the operator off: device 3 computes int8 wrongly; its log says more"
    missing = ("failed", "the server does not list the operator, which product 910B has")
    other = ("skipped", "aclgrad 0.0.1 of the server does not have the operator")
    with changed(address, none) as wrong, changed(wrong, of_status(version="0.0.1")) as old:
        for target, told in ((wrong, missing), (old, other)):
            checked = check(tmp_path, target, only=("accuracy",))
            assert checked.exit_code == 1
            why = {row["operator"]: (row["verdict"], row["message"]) for row in checked.rows}
            assert why.pop(PAD) == ("failed", off)
            assert set(why.values()) == {told}


def call_again(path: Path, target: str, *arguments: str) -> Result:
    return CliRunner().invoke(program, ["call", "--bundle", str(path), "--target", target, *arguments])


@pytest.mark.parametrize(("nan", "percent"), [(ROI, NORM), (NORM, ROI)])
def test_the_worst_call_is_bundled_and_repeated(address: str, tmp_path: Path, nan: str, percent: str) -> None:
    """A gradient that is not a number is worse than one that is off, whichever comes first."""
    path = tmp_path / "worst.zip"
    with (
        changed(address, of_gradients(nan, one_nan)) as first,
        changed(first, of_gradients(percent, one_element)) as wrong,
    ):
        checked = check(tmp_path, wrong, "--bundle", str(path), only=("accuracy",))
        again = call_again(path, wrong, "--json")
    failed = {row["operator"]: row for row in checked.rows if row["verdict"] == "failed"}
    assert (checked.exit_code, set(failed)) == (1, {nan, percent})
    told = f"{path} has the worst call, which `aclgrad call --bundle {path}` repeats: accuracy {nan} "
    assert told in checked.output
    bundle = read(path)
    assert (bundle.judged.program.title, bundle.server["library"]) == (nan, failed[nan]["library"])
    assert failed[nan]["message"] in bundle.finding
    (step,) = bundle.judged.program.steps
    truth = reference.define(nan, bundle.judged.program.values_of(step, ()), step.attributes)
    for expected, each in zip(bundle.judged.expected.values(), arrays_of(truth), strict=True):
        np.testing.assert_array_equal(expected, each)

    found = json.loads(again.output)
    assert (again.exit_code, found["verdict"], found["same_bits"]) == (1, "failed", True)
    assert found["figures"] == failed[nan]["figures"]
    right = call_again(path, address, "--json")
    found = json.loads(right.output)
    assert (right.exit_code, found["verdict"], found["same_bits"]) == (0, "passed", False)
    assert found["figures"]["error_of_limit"] <= 1


def test_a_gradient_of_another_dtype_is_bundled(address: str, tmp_path: Path) -> None:
    dtype = DTYPES["bfloat16"]

    def of_other_dtype(method: str, request: bytes, reply: bytes) -> bytes:
        if method != "ExecuteOperator" or pb.ExecuteOperatorRequest.FromString(request).operator != PAD:
            return reply
        message = pb.ExecuteOperatorResponse.FromString(reply)
        (output,) = message.outputs
        output.data = np.frombuffer(output.data, np.float32).astype(dtype.numpy).tobytes()
        output.data_type = dtype.wire
        return message.SerializeToString()

    path = tmp_path / "worst.zip"
    with changed(address, of_other_dtype) as wrong:
        checked = check(tmp_path, wrong, "--bundle", str(path), only=("accuracy",))
        again = call_again(path, wrong)
    assert checked.exit_code == 1
    assert read(path).judged.gradients["grad_input"].dtype == dtype.numpy
    assert again.exit_code == 1
    assert re.search(r"failed .*grad_input is \w+ \(.*\) instead of float32", again.output)
    assert "those of the bundle" in again.output
    assert call_again(path, address).exit_code == 0


def unchanged(method: str, request: bytes, reply: bytes) -> bytes:
    return reply


def refused(method: str, request: bytes, reply: bytes) -> bytes:
    """The gradient of one operator cannot be read."""
    return b"\xff" if method == "ExecuteOperator" and PAD.encode() in request else reply


@pytest.mark.parametrize(("change", "exit_code"), [(unchanged, 0), (refused, 1)])
def test_without_a_wrong_gradient_there_is_no_bundle(
    address: str, tmp_path: Path, change: Change, exit_code: int
) -> None:
    path = tmp_path / "worst.zip"
    with changed(address, change) as server:
        checked = check(tmp_path, server, "--bundle", str(path), only=("accuracy",))
    assert checked.exit_code == exit_code
    assert f"{path} is not written: no result is wrong" in checked.output
    assert not path.exists()


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("is_gone", "end", "exit_code", "told"),
    [
        (False, "interrupted", 130, r"interrupted after \d+ of"),
        (True, "server gone", 3, "the server went away after"),
    ],
    ids=["interrupt", "gone"],
)
def test_a_run_that_ends_early_leaves_a_partial_report_and_the_bundle_of_what_failed_before(
    few: pytest.MonkeyPatch, tmp_path: Path, is_gone: bool, end: str, exit_code: int, told: str
) -> None:
    page, bundle, real = tmp_path / "report.html", tmp_path / "worst.zip", Display.take
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        address = stack.enter_context(serve()).target
        wrong = stack.enter_context(changed(address, of_gradients(NORM, one_element)))
        happen: Callable[[], None] = stack.close if is_gone else interrupt

        def take(display: Display, row: Row) -> None:
            real(display, row)
            if row.verdict == "failed":
                happen()

        patch.setattr(Display, "take", take)
        checked = check(tmp_path, wrong, "--html", str(page), "--bundle", str(bundle), "--timeout-s", "5")
    assert checked.exit_code == exit_code
    assert re.search(told, checked.output)
    assert "Traceback" not in checked.output
    assert len(OPERATORS) < len(checked.rows) < checked.summary["planned"]
    summary = (checked.summary["end"], checked.summary["exit_code"], checked.summary["rows"])
    assert summary == (end, exit_code, len(checked.rows))
    assert f"{end}, exit code {exit_code}" in page.read_text()
    assert "safe" not in {each["verdict"] for each in checked.summary["switches"].values()}
    assert read(bundle).judged.program.title == NORM
