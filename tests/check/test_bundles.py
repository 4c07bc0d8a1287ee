"""The bundle of the worst call of a wrong server, and the same call on a right one and again on the wrong one."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from aclgrad import reference
from aclgrad.bundles import read
from aclgrad.commands import program
from aclgrad.judgement.console import Display
from aclgrad.judgement.rows import Row
from aclgrad.operators.cases import arrays_of
from aclgrad.tensors import DTYPES
from aclgrad.v1 import operator_service_pb2 as pb
from tests.check.checking import check
from tests.wrong_servers import Change, changed, of_gradients, one_element, one_nan

PAD, NORM, ROI = "replication_pad2d_backward", "layer_norm_backward", "roi_align_v2_backward"


def call_again(path: Path, target: str, *arguments: str) -> Result:
    return CliRunner().invoke(program, ["call", "--bundle", str(path), "--target", target, *arguments])


@pytest.mark.parametrize(("operator", "change"), [(ROI, one_nan), (NORM, one_element)])
def test_a_wrong_call_is_bundled_and_repeated(address: str, tmp_path: Path, operator: str, change: Any) -> None:
    path = tmp_path / "worst.zip"
    with changed(address, of_gradients(operator, change)) as wrong:
        checked = check(tmp_path, wrong, "--bundle", str(path), only=("accuracy",))
        again = call_again(path, wrong, "--json")
    assert checked.exit_code == 1
    (failed,) = [row for row in checked.rows if row["verdict"] == "failed"]
    told = f"{path} has the worst call, which `aclgrad call --bundle {path}` repeats: accuracy {operator} "
    assert told in checked.output
    bundle = read(path)
    assert (bundle.call.operator, bundle.server["library"]) == (operator, failed["library"])
    assert failed["message"] in bundle.finding
    truth = reference.define(operator, bundle.call.inputs, bundle.call.attributes)
    for expected, each in zip(bundle.call.expected.values(), arrays_of(truth), strict=True):
        np.testing.assert_array_equal(expected, each)

    found = json.loads(again.output)
    assert (again.exit_code, found["verdict"], found["same_bits"]) == (1, "failed", True)
    assert found["figures"] == failed["figures"]
    right = call_again(path, address, "--json")
    found = json.loads(right.output)
    assert (right.exit_code, found["verdict"], found["same_bits"]) == (0, "passed", False)
    assert found["figures"]["error_of_limit"] <= 1


def test_the_worst_of_several_calls_is_bundled(address: str, tmp_path: Path) -> None:
    """A gradient that is not a number is worse than one that is off, whichever comes first."""
    path = tmp_path / "worst.zip"
    for nan, percent in ((PAD, NORM), (NORM, PAD)):
        with (
            changed(address, of_gradients(nan, one_nan)) as first,
            changed(first, of_gradients(percent, one_element)) as wrong,
        ):
            checked = check(tmp_path, wrong, "--bundle", str(path), "--force", only=("accuracy",))
        assert sum(row["verdict"] == "failed" for row in checked.rows) == 2
        assert read(path).call.operator == nan


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
    assert read(path).call.gradients["grad_input"].dtype == dtype.numpy
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
    assert f"{path} is not written: no gradient is wrong" in checked.output
    assert not path.exists()


def test_a_bundle_that_could_not_be_written_ends_the_run_before_it_starts(address: str, tmp_path: Path) -> None:
    path = tmp_path / "worst.zip"
    path.write_text("mine")
    checked = check(tmp_path, address, "--bundle", str(path))
    assert (checked.exit_code, checked.rows, path.read_text()) == (2, [], "mine")
    assert "worst.zip exists; give another file, or --force to replace it" in checked.output
    checked = check(tmp_path, address, "--bundle", str(tmp_path / "nowhere/worst.zip"))
    assert (checked.exit_code, checked.rows) == (2, [])
    assert "there is no folder" in checked.output


def test_an_interrupted_run_leaves_the_bundle_of_what_failed_before(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, failed = tmp_path / "worst.zip", []

    def take(display: Display, row: Row) -> None:
        if failed:
            raise KeyboardInterrupt
        if row.verdict == "failed":
            failed.append(row)

    monkeypatch.setattr(Display, "take", take)
    with changed(address, of_gradients(NORM, one_element)) as wrong:
        checked = check(tmp_path, wrong, "--bundle", str(path), only=("accuracy",))
    assert checked.exit_code == 130
    assert read(path).call.operator == NORM
