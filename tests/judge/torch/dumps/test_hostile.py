"""`aclgrad judge` of dumps that are broken, or that somebody made to do harm."""

import json
import pickle
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
import torch

from tests.judge.torch.recording import Recording
from tests.judge.torch.running import judge, step

_OUTPUT: Final = "Functional.relu.0.forward.output.0.pt"
_INPUT: Final = "Functional.relu.0.forward.input.0.pt"


class Harm:
    def __reduce__(self) -> Any:
        return Path.write_text, (Path("harmed"), "harmed")


@pytest.mark.parametrize("file", [_INPUT, _OUTPUT])
def test_a_broken_file_is_the_problem_of_its_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    monkeypatch.chdir(tmp_path)
    dump = step(tmp_path / "dump")
    (tmp_path / "dump" / "dump_tensor_data" / file).write_bytes(pickle.dumps(Harm()))
    found = judge(dump, tmp_path / "out")
    # Not 0: what the file hides may be the wrong result.
    assert found.exit_code == 2, found.output
    assert "the dump is damaged: files of " in found.output
    assert "Functional.relu.0.forward" in found.reasons
    assert file in found.reasons["Functional.relu.0.forward"]
    others = {verdict for name, verdict in found.verdicts.items() if "relu" not in name}
    assert others == {"passed"}
    assert not (tmp_path / "harmed").exists()


def changed(dump: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    content = json.loads(dump.read_text())
    change(content["data"])
    dump.write_text(json.dumps(content))
    return dump


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Functional.relu_of_next_year", "has no such function"),
        ("Torch.save", "does not compute with tensors alone"),
        ("Torch.load", "does not compute with tensors alone"),
        ("Torch.compile", "does not compute with tensors alone"),
        ("Torch.set_num_threads", "does not compute with tensors alone"),
        ("Torch.from_file", "does not compute with tensors alone"),
        ("Aten.from_file", "reads a file"),
        ("Distributed.all_reduce", "a collective"),
        ("NPU.npu_anchor_response_flags", "a function of torch_npu"),
        ("MyFunction.apply", "no function of PyTorch"),
        ("os.system", "no function of PyTorch"),
    ],
)
def test_what_cannot_be_run_is_named(tmp_path: Path, name: str, reason: str) -> None:
    def change(data: dict[str, Any]) -> None:
        data[f"{name}.0.forward"] = data.pop("Functional.relu.0.forward")
        del data["Functional.relu.0.backward"]

    found = judge(changed(step(tmp_path / "dump"), change), tmp_path / "out")
    assert found.exit_code == 0, found.output
    assert reason in found.reasons[f"{name}.0.forward"]
    assert found.summary["judged"] == 8


def test_arguments_that_ask_for_any_memory_are_the_problem_of_their_calls(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "dump")
    x = torch.randn(1, 1, 4, 4)
    for _ in range(3):
        recording.call("Functional.pad", x, [1, 1])
    recording.call("Functional.interpolate", x, [4, 4])
    recording.call("Tensor.repeat_interleave", x, torch.tensor([1, 1, 1, 1]), 3)
    recording.call("Functional.relu", x)

    def change(data: dict[str, Any]) -> None:
        data["Functional.pad.0.forward"]["input_args"][1] = [{"type": "int", "value": 2**40}] * 2
        data["Functional.pad.1.forward"]["input_args"][1] = [{"type": "int", "value": 2**70}] * 2
        data["Functional.pad.2.forward"]["input_args"][1] = [{"type": "int", "value": 2**20}] * 6
        data["Functional.interpolate.0.forward"]["input_args"][1] = [{"type": "int", "value": 2**20}] * 2

    dump = changed(recording.write(), change)
    huge = torch.full((4,), 2**38)
    torch.save(huge, tmp_path / "dump" / "dump_tensor_data" / "Tensor.repeat_interleave.0.forward.input.1.pt")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = judge(dump, tmp_path / "out")
    assert found.exit_code == 0, found.output
    assert found.verdicts["Functional.relu.0.forward"] == "passed"
    assert set(found.reasons) == set(found.verdicts) - {"Functional.relu.0.forward"}
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**18, "KiB"
    assert resource.getrlimit(resource.RLIMIT_DATA)[0] == resource.RLIM_INFINITY


def test_what_a_dump_says_is_printed_as_one_line_of_text(tmp_path: Path) -> None:
    evil = "\x1b[2J\x9b1m\ud800\nrow"

    def change(data: dict[str, Any]) -> None:
        data["Functional.conv2d.0.forward"]["input_kwargs"] = {"padding": {"type": "str", "value": evil}}
        data[f"Functional.{evil}.0.forward"] = {}

    found = judge(changed(step(tmp_path / "dump"), change), tmp_path / "out")
    assert found.exit_code == 0, found.output
    assert "\x1b" not in found.output
    page = (tmp_path / "out" / "report.html").read_text("utf-8", errors="surrogateescape")
    assert "\x1b" not in page
    json.loads((tmp_path / "out" / "rows.jsonl").read_text().splitlines()[0])
