"""The folder of --msprobe, without PyTorch: tables and dump."""

import csv
import json
import resource
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from aclgrad.commands import program
from aclgrad.judge.check import exports, target
from aclgrad.judge.findings.display import Display
from aclgrad.judge.findings.rows import Row
from aclgrad.operators.cases import typed_cases
from aclgrad.products import Product
from aclgrad.v1 import operator_service_pb2 as pb
from tests.judge.checking import PAD, SOFTMAX, Checked, check, few_cases
from tests.wrong_servers import changed, of_gradients

Details = dict[str, dict[str, str]]


@pytest.fixture(autouse=True)
def _without_pytorch(few: pytest.MonkeyPatch) -> None:
    few.setattr(exports, "find_spec", lambda name: None)


def export(folder: Path, address: str, *arguments: str) -> Checked:
    return check(folder, address, "--msprobe", str(folder / "exported"), *arguments, only=("accuracy",))


def rows_of(folder: Path) -> Details:
    """Returns the rows of the details by their names, each of which stands once."""
    (path,) = folder.glob("accuracy_checking_details_*.csv")
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    by_name = {row["API Name"]: row for row in rows}
    assert len(by_name) == len(rows)
    return by_name


def calls_of(folder: Path) -> set[str]:
    """Returns the names of the calls in the dump, whose files are all there."""
    dump = json.loads((folder / "dump.json").read_text())
    data = folder / "dump_tensor_data"
    assert {each.name for each in data.iterdir()} == {
        argument["data_name"]
        for entry in dump["data"].values()
        for argument in (*entry.get("input_args", ()), *entry.get("input", ()))
        if isinstance(argument, dict) and "data_name" in argument
    }
    return {name.removesuffix(".backward") for name in dump["data"] if name.endswith(".backward")}


def api(name: str) -> str:
    return name.rpartition(".backward.output.")[0]


def test_the_rows_of_accuracy_are_rows_of_msprobe_and_calls_of_a_dump(address: str, tmp_path: Path) -> None:
    checked = export(tmp_path, address)
    assert checked.exit_code == 0, checked.output
    folder = tmp_path / "exported"
    rows, calls = rows_of(folder), calls_of(folder)
    # The names are those of the whole table: other runs on this product have them, too.
    names = {str(each.typed): each for each in exports.exported(typed_cases(Product.ATLAS_A2))}
    accuracy = [row for row in checked.rows if row["check"] == "accuracy"]
    assert len(accuracy) == len(list(few_cases(Product.ATLAS_A2)))
    cases = {f"{row['operator']}-{row['case']}-{row['dtype']}": row for row in accuracy}
    assert {api(name) for name in rows} == {names[case].name for case in cases}
    assert calls == {names[case].name for case in cases if not names[case].refusal}
    for case, row in cases.items():
        of_call = [each for name, each in rows.items() if api(name) == names[case].name]
        assert of_call[0]["Message"].startswith(f"{row['operator']} {row['case']} on 910B. ")
        passed = [each for each in of_call if each["Status"] == "pass"]
        assert bool(passed) == (not names[case].refusal)
        if passed:
            assert passed[0]["DEVICE Dtype"] == f"torch.{row['dtype']}"
    assert [row["Message"] for row in rows.values() if "roi_align" in row["API Name"]] == [
        "roi_align_v2_backward two_samples on 910B. acc_check reports RoI align as passed without computing it."
    ]

    # A row is of a tensor argument. Without running statistics: input, weight, bias.
    (name,) = {api(name) for name in rows if "batch_norm" in name}
    assert [rows[f"{name}.backward.output.{at}"]["Shape"] for at in range(3)] == ["(4, 3, 6, 7)", "(3,)", "(3,)"]
    (name,) = {api(name) for name in rows if "max_unpool2d" in name}
    assert [rows[f"{name}.backward.output.{at}"]["Status"] for at in range(2)] == ["pass", "SKIP"]


def test_a_wrong_gradient_is_measured_and_a_call_that_fails_is_skipped_with_the_reason(
    address: str, tmp_path: Path
) -> None:
    def broken(method: str, request: bytes, reply: bytes) -> bytes:
        is_softmax = method == "ExecuteOperator" and pb.ExecuteOperatorRequest.FromString(request).operator == SOFTMAX
        return pb.ExecuteOperatorResponse().SerializeToString() if is_softmax else reply

    with (
        changed(address, of_gradients(PAD, lambda gradient: gradient * np.float32(1.01))) as off,
        changed(off, broken) as wrong,
    ):
        checked = export(tmp_path, wrong)
    assert checked.exit_code == 1
    rows = rows_of(tmp_path / "exported")
    far = {name: float(row["相对误差平均值"]) for name, row in rows.items() if row["Status"] != "SKIP"}
    (name,) = (name for name, error in far.items() if error > 1e-3)
    assert far[name] == pytest.approx(0.01, rel=0.02)
    assert rows[name]["Message"].startswith(f"{PAD} two_around on 910B. aclgrad check: ")
    assert "elements are outside the tolerance" in rows[name]["Message"]

    (why,) = (row["message"] for row in checked.rows if (row["verdict"], row["operator"]) == ("failed", SOFTMAX))
    (row,) = (row for row in rows.values() if why in row["Message"])
    assert (row["Status"], row["Message"]) == ("SKIP", f"{SOFTMAX} rows on 910B. {why}")


def test_without_pytorch_bfloat16_has_its_rows_and_no_calls(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target, "typed_cases", partial(few_cases, every_dtype=True))
    checked = export(tmp_path, address)
    rows, calls = rows_of(tmp_path / "exported"), calls_of(tmp_path / "exported")
    halves = {api(name) for name, row in rows.items() if row["DEVICE Dtype"] == "torch.bfloat16"}
    assert halves
    assert not halves & calls
    assert f"{len(halves)} calls of bfloat16 are not among them" in checked.output


def test_an_interrupted_run_has_the_whole_dump_and_the_rows_so_far(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, real = [], Display.take

    def take(display: Display, row: Row) -> None:
        real(display, row)
        seen.append(row.check)
        if seen.count("accuracy") == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(Display, "take", take)
    checked = export(tmp_path, address)
    assert checked.exit_code == 130
    folder, done = tmp_path / "exported", [row for row in checked.rows if row["check"] == "accuracy"]
    whole = sum(not each.refusal for each in exports.exported(few_cases(Product.ATLAS_A2)))
    assert len({api(name) for name in rows_of(folder)}) == len(done) == 3 < whole
    assert len(calls_of(folder)) == whole
    assert "msprobe acc_check" in checked.output


@contextmanager
def limited_files(size_bytes: int) -> Iterator[None]:
    """Writing more than this to a file fails, as it does on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_ends_the_run_with_the_name_of_the_file(address: str, tmp_path: Path) -> None:
    with limited_files(2**14):
        result = CliRunner().invoke(program, ["check", address, "--quick", "--msprobe", str(tmp_path / "exported")])
    assert result.exit_code == 2
    assert "File too large" in result.output
    assert f"{tmp_path / 'exported' / 'dump_tensor_data'}" in result.output
    assert not (tmp_path / "exported" / "dump.json").exists()


@pytest.mark.parametrize(("name", "is_refused"), [("gradients", False), ("my gradients", True)])
def test_the_commands_to_paste_name_the_files(address: str, tmp_path: Path, name: str, is_refused: bool) -> None:
    folder = tmp_path / name
    result = CliRunner().invoke(program, ["check", address, "--quick", "--only", "accuracy", "--msprobe", str(folder)])
    assert result.exit_code == 0
    assert (f"msprobe refuses the path {folder}" in result.output) is is_refused
    commands = [shlex.split(line) for line in result.output.splitlines() if line.startswith("  msprobe ")]
    (details,) = folder.glob("accuracy_checking_details_*.csv")
    theirs = str(folder / "gpu" / "accuracy_checking_details_*.csv")
    assert commands[0] == ["msprobe", "acc_check", "-api_info", str(folder / "dump.json"), "-o", str(folder / "gpu")]
    assert commands[1][:6] == ["msprobe", "api_precision_compare", "-npu", str(details), "-gpu", theirs]
