"""`aclgrad replay` on dumps of calls that the tests make, with right servers and wrong ones."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import aclgrad
from aclgrad.commands import program
from aclgrad.replay import command
from tests.torch.dumps import Dump
from tests.torch.replaying import drawn, replay, sample
from tools.serving import Server


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("task", ["tensor", "statistics"])
def test_served_calls_pass_and_others_are_counted(
    server: Server, tmp_path: Path, dtype: torch.dtype, task: str
) -> None:
    found = replay(sample(tmp_path / "dump", dtype, task), server, tmp_path / "out", "--local", "cpu")
    assert found.exit_code == 0, found.output
    cases = {row["case"]: row["verdict"] for row in found.rows}
    assert cases.pop("Functional.pad.0") == "skipped"
    assert set(cases) == {
        "Functional.max_pool2d.0 input",
        "Functional.avg_pool2d.0 input",
        *(f"Functional.layer_norm.0 {name}" for name in ("input", "weight", "bias")),
    }
    assert set(cases.values()) <= {"passed", "noted"}
    assert "left out: 1 call of" in found.output
    statuses = {row[0]: row[2] for row in found.table("result")}
    # acc_check judges halves by relative errors alone, which rounding makes large where a gradient is near 0.
    assert statuses.pop("Functional.layer_norm.0") == "pass" or dtype is not torch.float32
    assert statuses == {
        "Functional.max_pool2d.0": "pass",
        "Functional.pad.0": "SKIP",
        "Functional.avg_pool2d.0": "pass",
    }
    names = [row[0] for row in found.table("details")]
    assert names == [row[0] for row in found.table("details", "local")]
    assert names[-3:] == [f"Functional.layer_norm.0.backward.output.{number}" for number in range(3)]
    assert "<h1>aclgrad replay</h1>" in (tmp_path / "out" / "report.html").read_text()


class WrongClient(aclgrad.Client):
    """Plants an error in the gradients of one operator."""

    operator = "avg_pool2d_backward"
    plant = staticmethod(lambda gradient: gradient)

    def execute(self, name: str, *args: Any, **options: Any) -> Any:
        found = super().execute(name, *args, **options)
        return self.plant(found) if name == self.operator else found


def one_percent(gradient: np.ndarray) -> np.ndarray:
    return (gradient * gradient.dtype.type(1.01)).astype(gradient.dtype)


def one_element(gradient: np.ndarray) -> np.ndarray:
    gradient[1, 2, 3, 4] += np.abs(gradient).max() / 2
    return gradient


def nan(gradient: np.ndarray) -> np.ndarray:
    gradient[1, 2, 3, 4] = np.nan
    return gradient


def unwritten_tail(gradient: np.ndarray) -> np.ndarray:
    gradient[1, 2, 3, 4:] = np.frombuffer(b"\xcb" * 4 * gradient.itemsize, gradient.dtype)
    return gradient


PLANTED = {"1 % off": one_percent, "one element": one_element, "sign": np.negative, "NaN": nan, "tail": unwritten_tail}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("plant", PLANTED)
def test_a_planted_error_is_found_named_and_located(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, plant: str
) -> None:
    """The gradients are about 1e-4, where acc_check itself lets everything pass."""
    monkeypatch.setattr(command, "Client", WrongClient)
    monkeypatch.setattr(WrongClient, "plant", staticmethod(PLANTED[plant]))
    bundle = tmp_path / "wrong.zip"
    found = replay(sample(tmp_path / "dump", dtype), server, tmp_path / "out", "--bundle", str(bundle))
    assert found.exit_code == 1, found.output
    (row,) = [row for row in found.rows if row["verdict"] == "failed"]
    assert (row["operator"], row["case"]) == ("Functional.avg_pool2d", "Functional.avg_pool2d.0 input")
    if plant in ("one element", "NaN"):
        assert row["worst"][0]["index"] == [1, 2, 3, 4]
    if plant == "tail":
        assert all(each["index"][:3] == [1, 2, 3] and each["index"][3] >= 4 for each in row["worst"])
    again = CliRunner().invoke(program, ["call", "--bundle", str(bundle), "--target", server.address])
    assert again.exit_code == 0, again.output
    assert "passed   avg_pool2d_backward" in again.output
    assert "not those of the bundle" in again.output
    # The worst is what a reader sees first.
    assert (tmp_path / "out" / "report.html").read_text().index("avg_pool2d.0 input") < 4000


def test_calls_are_chosen_by_api(server: Server, tmp_path: Path) -> None:
    dump = sample(tmp_path / "dump", copies=2)
    for number, (flags, expected) in enumerate(
        (
            (["--api", "avg_pool2d"], ["Functional.avg_pool2d.0", "Functional.avg_pool2d.1"]),
            (["--api", "Functional.avg_pool2d.1"], ["Functional.avg_pool2d.1"]),
            (["--api", "Functional.celu", "--all"], ["Functional.celu.0", "Functional.celu.1"]),
        )
    ):
        found = replay(dump, server, tmp_path / str(number), *flags)
        assert [row[0] for row in found.table("result")] == expected
    assert found.exit_code == 2
    assert "no operator computes" in found.output


def test_the_numbers_of_a_statistics_dump_do_not_depend_on_what_is_chosen(server: Server, tmp_path: Path) -> None:
    dump = sample(tmp_path / "dump", task="statistics", copies=3)
    whole = replay(dump, server, tmp_path / "all").table("details")
    part = replay(dump, server, tmp_path / "part", "--api", "layer_norm").table("details")
    assert part == [row for row in whole if ".layer_norm." in row[0]]


def test_calls_that_draw_numbers_themselves_are_told(server: Server, tmp_path: Path) -> None:
    dump = Dump(tmp_path / "dump", task="statistics")
    dump.add("Functional.dropout.0", [drawn(2, 3, grad=True)], drawn(2, 3))
    dump.add("Functional.pad.0", [drawn(2, 3, 8, grad=True), [1, 1]], drawn(2, 3, 10), {"mode": "replicate"})
    (tmp_path / "dump" / "dump_tensor_data").rmdir()
    found = replay(dump.write(), server, tmp_path / "out")
    assert found.exit_code == 0, found.output
    assert "random inputs after Functional.dropout.0 are others than acc_check's" in found.output


def test_every_rank_and_step_has_tables_of_its_own(server: Server, tmp_path: Path) -> None:
    ranks = ["step0/rank0", "step0/rank1", "step10/rank0"]
    for rank in ranks:
        sample(tmp_path / "dump" / rank)
    (tmp_path / "dump" / "step0" / "rank1" / "dump.json").write_text("{")
    found = replay(tmp_path / "dump", server, tmp_path / "out")
    assert found.exit_code == 0
    (row,) = [row for row in found.rows if row["case"] == ranks[1]]
    assert row["verdict"] == "skipped"
    assert "rank1/dump.json is cut off" in row["message"]
    assert row["message"] in found.output
    for rank in (ranks[0], ranks[2]):
        assert len(found.table("result", rank)) == 4
        assert f"{rank} Functional.avg_pool2d.0 input" in {row["case"] for row in found.rows}


def test_a_run_that_compares_nothing_says_why(server: Server, tmp_path: Path) -> None:
    dump = Dump(tmp_path / "celu")
    dump.add("Functional.celu.0", [drawn(2, 3, grad=True)], drawn(2, 3))
    dump.write()
    for rank in ("rank0", "rank1"):
        path = sample(tmp_path / "ranks" / rank)
        told = json.loads(path.read_text())
        told["data"] = {key: value for key, value in told["data"].items() if key.endswith("backward")}
        path.write_text(json.dumps(told))
    why = "nothing was compared: "
    for name, dumped, flags, expected in (
        ("served", tmp_path / "celu", [], f"{why}no operator computes a call with a backward pass"),
        ("all", tmp_path / "celu", ["--all"], f"{why}no operator computes the gradient of this API"),
        ("ranks", tmp_path / "ranks", [], "no dump of 2 can be replayed; the first: "),
        ("one", tmp_path / "ranks" / "rank0", [], "dump.json holds backward passes only; dump again with data_mode"),
    ):
        found = replay(dumped, server, tmp_path / "out" / name, *flags)
        assert (found.exit_code, expected in found.output) == (2, True), found.output


def test_rows_that_did_not_fail_are_shown_if_asked_for(server: Server, tmp_path: Path) -> None:
    dump = sample(tmp_path / "dump")
    found = replay(dump, server, tmp_path / "out")
    assert "passed   " not in found.output
    assert "complete: " in found.output
    assert "passed   replay Functional.avg_pool2d" in replay(dump, server, tmp_path / "all", "-v").output


def test_regions_are_pooled_from_tensors(server: Server, tmp_path: Path) -> None:
    dump = Dump(tmp_path / "dump")
    x, boxes = drawn(2, 3, 8, 8, grad=True), torch.tensor([[0, 0, 0, 7, 7], [1, 1, 1, 6, 6.0]])
    options = {"spatial_scale": 1.0, "sampling_ratio": 2, "aligned": True}
    dump.add("torchvision.ops.roi_align.0", [x, boxes, [4, 4]], drawn(2, 3, 4, 4), options)
    found = replay(dump.write(), server, tmp_path / "out")
    assert found.exit_code == 0, found.output
    assert [row["verdict"] for row in found.rows] == ["passed"]
