"""Random programs: what `--program` says of servers that compute chains rightly and wrongly."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import aclgrad
from aclgrad.commands import program as command
from aclgrad.judge.bundles import read
from aclgrad.judge.check import attentions, programs
from aclgrad.judge.check.composites import CASES
from aclgrad.judge.check.convolutions import LAYERS
from aclgrad.judge.programs.program import Program, Returned
from tests.judge.checking import check
from tests.wrong_servers import changed, last_bit, of_gradients, of_status
from tools.serving import Server

DTYPES = ("float32", "float16", "bfloat16")
COUNT = 12


@pytest.fixture(autouse=True)
def _few_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "_PROGRAMS", {True: COUNT})
    monkeypatch.setattr(attentions, "_FEWER", 64)


def failed(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if row["verdict"] != "passed"]


def test_the_host_library_passes_in_every_dtype(server: Server, tmp_path: Path) -> None:
    checked = check(tmp_path, server.address, "--program")
    assert checked.exit_code == 0, checked.output
    assert checked.verdicts("program") == {"passed"}
    rows = [row for row in checked.rows if row["check"] == "program"]
    of_networks = [row for row in rows if "seed" not in row["case"]]
    assert [row["case"] for row in rows if row not in of_networks] == [f"seed {seed}" for seed in range(COUNT)]
    count = len(CASES) + len(LAYERS)
    of_attention = {dtype: len(list(attentions.attention_programs(dtype, is_quick=True))) for dtype in DTYPES}
    assert Counter(row["dtype"] for row in of_networks) == {each: count + of_attention[each] for each in DTYPES}
    assert {row["dtype"] for row in rows} == {"float32", "float16", "bfloat16"}
    assert {row["check"] for row in checked.rows} == {"listing", "program"}
    assert all(row["message"].endswith(" outputs by their definitions") for row in rows)
    assert max(row["figures"]["steps"] for row in rows) > 30


def test_a_wrong_product_fails_the_gradients_that_are_made_of_it(address: str, tmp_path: Path) -> None:
    path = tmp_path / "worst.zip"
    with changed(address, of_gradients("mm", lambda gradient: gradient * np.float32(1.01))) as wrong:
        checked = check(tmp_path, wrong, "--program", "--bundle", str(path))
    rows = {row["case"]: row["message"] for row in failed(checked.rows) if row["dtype"] == "float32"}
    assert {"projections of BERT", "feed forward of BERT, up", "projections of GPT"} <= rows.keys()
    assert not rows.keys() & {"scores of GPT", "values of GPT", "scores by einsum"}
    assert all("(mm, out): " in each for each in rows.values())


def test_a_wrong_step_is_named_and_bundled(address: str, tmp_path: Path) -> None:
    """The proxy changes what comes back, so the steps that use it seem wrong as well."""
    path = tmp_path / "worst.zip"
    with changed(address, of_gradients("sigmoid_backward", lambda gradient: gradient * 1.5)) as wrong:
        checked = check(tmp_path, wrong, "--program", "--bundle", str(path))
        again = CliRunner().invoke(command, ["call", "--json", "--bundle", str(path), "--target", wrong])
    right = CliRunner().invoke(command, ["call", "--json", "--bundle", str(path), "--target", address])
    rows = failed(checked.rows)
    assert checked.exit_code == 1
    assert 1 < len(rows) < COUNT
    assert all("(sigmoid_backward, grad_input): " in row["message"] for row in rows)
    assert f"{path} has the worst call, which" in checked.output

    judged = read(path).judged
    (number,) = {int(row["message"].split()[1]) for row in rows if row["message"] in read(path).finding}
    assert judged.program.steps[number].operator == "sigmoid_backward"
    told = json.loads(again.output)
    assert (again.exit_code, told["verdict"], told["same_bits"]) == (1, "failed", True)
    assert told["message"] in read(path).finding
    assert told["steps"] == len(judged.program.steps)
    told = json.loads(right.output)
    assert (right.exit_code, told["verdict"], told["same_bits"]) == (0, "passed", False)


@pytest.mark.parametrize("is_deterministic", [True, False])
@pytest.mark.parametrize("way", ["part", "alone"])
def test_other_bits_in_another_way_are_told(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, is_deterministic: bool
) -> None:
    send, run_alone = programs.send, programs._run_alone  # noqa: SLF001 - what a server does is planted here

    def last_bits(gradients: dict[str, Any]) -> dict[str, Any]:
        return {name: last_bit(each) if each.dtype == np.float32 else each for name, each in gradients.items()}

    def send_part(client: aclgrad.Client, program: Program, returned: Sequence[Returned]) -> dict[str, Any]:
        found = send(client, program, returned)
        return found if len(returned) == len(program.outputs) else last_bits(found)

    if way == "part":
        monkeypatch.setattr(programs, "send", send_part)
    else:
        monkeypatch.setattr(programs, "_run_alone", lambda *given: last_bits(run_alone(*given)))
    path = tmp_path / "worst.zip"
    with changed(address, of_status(deterministic=is_deterministic)) as changing:
        checked = check(tmp_path, changing, "--program", "--bundle", str(path))
    rows = failed(checked.rows)
    assert rows
    assert {row["verdict"] for row in rows} == {"failed" if is_deterministic else "noted"}
    told = "outputs returned: step " if way == "part" else "its steps alone: step "
    assert all(told in row["message"] for row in rows)
    assert all("without --deterministic" in row["message"] for row in rows) is not is_deterministic
    assert checked.exit_code == is_deterministic
    if is_deterministic:
        # The server is right, so it gives what the other way gave, or what it gave itself.
        judged = read(path).judged
        assert judged.computed_by == (
            "the same program with all outputs returned" if way == "part" else "its steps alone"
        )
        again = CliRunner().invoke(command, ["call", "--bundle", str(path), "--target", address])
        assert again.exit_code == (0 if way == "part" else 1), again.output


@pytest.mark.parametrize(
    "far",
    [lambda array: np.where(array == 0, np.float32(1), -array), lambda array: array * np.float32(2.0**60)],
    ids=["sign", "size"],
)
def test_values_that_are_far_off_in_another_way_fail_on_any_server(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, far: Callable[[np.ndarray], np.ndarray]
) -> None:
    send = programs.send

    def send_part(client: aclgrad.Client, program: Program, returned: Sequence[Returned]) -> dict[str, Any]:
        found = send(client, program, returned)
        is_part = len(returned) < len(program.outputs)
        return {name: far(each) if is_part and each.dtype == np.float32 else each for name, each in found.items()}

    monkeypatch.setattr(programs, "send", send_part)
    with changed(address, of_status(deterministic=False)) as changing, np.errstate(over="ignore"):
        checked = check(tmp_path, changing, "--program")
    rows = failed(checked.rows)
    assert rows
    assert {row["verdict"] for row in rows} == {"failed"}


def test_a_server_without_programs_has_one_row_that_says_so(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise aclgrad.MethodNotServedError("the server does not serve ExecuteProgram")

    monkeypatch.setattr(programs, "send", refuse)
    checked = check(tmp_path, address, "--program")
    (row,) = failed(checked.rows)
    assert (checked.exit_code, row["check"], row["case"]) == (1, "program", "")
    assert row["message"] == f"aclgrad {aclgrad.__version__} of the server runs no programs; upgrade it"
