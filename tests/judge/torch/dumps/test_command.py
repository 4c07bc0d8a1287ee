"""`aclgrad judge`: what it says, what it leaves in its folder, and how it exits."""

import errno
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from aclgrad.judge.dumps import arriving, command
from aclgrad.judge.dumps.judging import Judge
from aclgrad.judge.dumps.recorded import Given
from aclgrad.judge.dumps.records import CallRow
from tests.judge.torch.recording import Recording
from tests.judge.torch.running import judge, plant, step


def test_a_right_dump_is_judged_whole(tmp_path: Path) -> None:
    found = judge(step(tmp_path / "dump"), tmp_path / "out")
    assert found.exit_code == 0, found.output
    assert found.output.splitlines()[0] == "10 calls: 10 judged, 0 not judged"
    assert set(found.verdicts.values()) == {"passed"}
    assert (tmp_path / "out" / "report.html").exists()
    assert [row["index"] for row in found.rows] == sorted(row["index"] for row in found.rows)


def test_the_first_wrong_call_in_the_order_of_execution_is_the_headline(tmp_path: Path) -> None:
    dump = step(tmp_path / "dump")
    # The backward pass of the layer before runs later, though its forward pass is the first.
    for tensor in ("linear.0.forward.output.0", "conv2d.0.backward.output.1"):
        plant(tmp_path / "dump", f"Functional.{tensor}", 1.01)
    found = judge(dump, tmp_path / "out")
    assert found.exit_code == 1
    assert "first wrong call: Functional.linear.0.forward, call 4 of 10" in found.output
    assert "all together are 1.01 times what is right" in found.output
    assert found.summary["first_wrong"] == {"place": "", "name": "Functional.linear.0.forward"}
    failed = {name for name, verdict in found.verdicts.items() if verdict == "failed"}
    assert failed == {"Functional.linear.0.forward", "Functional.conv2d.0.backward"}


def test_later_errors_of_wrong_inputs_are_marked(tmp_path: Path) -> None:
    torch.manual_seed(0)
    recording = Recording(tmp_path / "dump")
    x = torch.randn(40)
    wrong = recording.call("Functional.silu", x) * 1.01
    recording.call("Torch.exp", wrong)
    recording.call("Torch.exp", x)
    dump = recording.write()
    plant(tmp_path / "dump", "Functional.silu.0.forward.output.0", 1.01)
    plant(tmp_path / "dump", "Torch.exp.0.forward.output.0", 2.0)
    plant(tmp_path / "dump", "Torch.exp.1.forward.output.0", 2.0)
    rows = judge(dump, tmp_path / "out").rows
    assert [(row["verdict"], row["inputs_are_off"]) for row in rows] == [
        ("failed", False),
        ("failed", True),
        ("failed", False),
    ]


def test_a_call_that_is_not_judged_is_a_failure_if_all_are_required(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "dump")
    recording.call("Functional.relu", torch.randn(8))
    recording.call("Torch.bernoulli", torch.rand(8))
    dump = recording.write()
    found = judge(dump, tmp_path / "out")
    assert found.exit_code == 0
    assert "2 calls: 1 judged, 1 not judged" in found.output
    assert "Every call is right" not in found.output
    assert found.reasons == {"Torch.bernoulli.0.forward": "it draws random numbers"}
    assert judge(dump, tmp_path / "other", "--require-all").exit_code == 1


def test_a_dump_without_elements_is_of_no_use(tmp_path: Path) -> None:
    dump = step(tmp_path / "dump")
    content = json.loads(dump.read_text())
    dump.write_text(json.dumps(content).replace("data_name", "no_name"))
    found = judge(dump, tmp_path / "out")
    assert found.exit_code == 2
    assert 'task="tensor"' in found.output


def test_one_api_is_judged_alone(tmp_path: Path) -> None:
    dump = step(tmp_path / "dump")
    found = judge(dump, tmp_path / "out", "--api", "linear")
    assert list(found.verdicts) == ["Functional.linear.0.forward", "Functional.linear.0.backward"]
    nothing = judge(dump, tmp_path / "other", "--api", "conv3d")
    assert nothing.exit_code == 2
    assert "has no call of conv3d; it has adaptive_avg_pool2d, conv2d" in nothing.output


def test_dumps_are_found_at_any_depth_and_one_that_cannot_be_read_leaves_the_others(tmp_path: Path) -> None:
    places = ("step_1/actor_update/step0/rank0", "step_1/actor_update/step0/rank1", "step_2/rollout/step0/rank0")
    for place in places:
        step(tmp_path / "dump" / place)
    plant(tmp_path / "dump" / places[1], "Functional.relu.0.forward.output.0", 1.01)
    (tmp_path / "dump" / places[0] / "dump.json").write_text('{"data": {"Functional.relu.0.forward": {')
    found = judge(tmp_path / "dump", tmp_path / "out")
    assert sorted({row["place"] for row in found.rows}) == sorted(places)
    assert found.summary["first_wrong"] == {"place": places[1], "name": "Functional.relu.0.forward"}
    assert "cut off" in found.reasons["dump.json"]
    assert (found.exit_code, found.summary["calls"]) == (1, 21)


def interrupted(judge_rows: Any, after: int) -> Any:
    count = 0

    def rows(self: Judge, given: Given) -> Iterator[CallRow]:
        nonlocal count
        for row in judge_rows(self, given):
            if count == after:
                raise KeyboardInterrupt
            count += 1
            yield row

    return rows


@pytest.mark.parametrize("after", [0, 4])
def test_an_interrupted_run_is_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    dump = step(tmp_path / "dump")
    plant(tmp_path / "dump", "Functional.conv2d.0.backward.output.1", 1.01)
    whole = judge(dump, tmp_path / "whole")
    monkeypatch.setattr(Judge, "rows", interrupted(Judge.rows, after))
    part = judge(dump, tmp_path / "out")
    assert part.exit_code == 130
    assert f"interrupted after {after} calls; --resume goes on where it ended" in part.output
    assert f"10 calls: {after} judged, {10 - after} not reached" in part.output
    assert "Every call is right" not in part.output + (tmp_path / "out" / "report.html").read_text()
    assert (part.summary["calls"], part.summary["judged"], part.summary["not_reached"]) == (10, after, 10 - after)
    monkeypatch.undo()
    with (tmp_path / "out" / "rows.jsonl").open("a") as file:
        file.write('{"index": 99, "na')
    resumed = judge(dump, tmp_path / "out", "--resume")
    assert resumed.exit_code == whole.exit_code == 1
    assert resumed.verdicts == whole.verdicts
    assert judge(dump, tmp_path / "out").exit_code == 2
    assert "other precision" in judge(dump, tmp_path / "out", "--resume", "--precision", "hf32").output


def test_a_full_disk_leaves_the_rows_so_far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dump, written = step(tmp_path / "dump"), 0

    def write_line(file: Any, fields: object, write: Any = command.write_line) -> None:
        nonlocal written
        if written == 3:
            raise OSError(errno.ENOSPC, "No space left on device", "rows.jsonl")
        written += 1
        write(file, fields)

    monkeypatch.setattr(command, "write_line", write_line)
    found = judge(dump, tmp_path / "out")
    assert found.exit_code == 2
    assert "No space left on device" in found.output
    monkeypatch.undo()
    resumed = judge(dump, tmp_path / "out", "--resume")
    assert resumed.exit_code == 0
    assert len(resumed.rows) == 10


def test_gradients_that_were_not_judged_after_an_interrupt_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dump = layers(tmp_path / "dump")

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(arriving, "_judged", interrupt)
    found = judge(dump, tmp_path / "out")
    assert found.exit_code == 130
    assert "4 calls: 4 judged, 0 not judged" in found.output
    said = "interrupted after 4 calls, before the gradients that arrive at other calls: these are not judged"
    assert f"{said}; --resume goes on where it ended" in found.output
    assert "No call so far is wrong" in found.output
    assert said in found.summary["message"]
    assert "No call so far is wrong" in (tmp_path / "out" / "report.html").read_text()
    monkeypatch.undo()
    assert judge(dump, tmp_path / "out", "--resume").exit_code == 0


def layers(folder: Path) -> Path:
    """Records a linear layer whose gradient of the input is only where it arrives."""
    torch.manual_seed(0)
    recording = Recording(folder)
    x, w, b = (torch.randn(shape, requires_grad=True) for shape in ((2, 5, 8), (6, 8), (6,)))
    recording.call("Functional.linear", recording.call("Functional.silu", x), w, b).sum().backward()
    return recording.write()


def test_an_interrupt_waits_for_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def render(*args: Any, real: Any = command.render) -> str:
        signal.raise_signal(signal.SIGINT)
        page: str = real(*args)
        return page

    monkeypatch.setattr(command, "render", render)
    found = judge(step(tmp_path / "dump"), tmp_path / "out")
    assert found.exit_code == 130
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["report.html", "rows.jsonl", "run.json"]
    assert "Every call is right" in (tmp_path / "out" / "report.html").read_text()
    assert found.summary["end"] == "complete"


@pytest.mark.parametrize(
    ("file", "content"),
    [
        *(("run.json", each) for each in ("[]", '{"dumps": {', "", "7", "[" * 100_000, "\0")),
        *(("rows.jsonl", each) for each in ("[]", '{"index": Infinity}', "[" * 100_000, '{"index": 1, "place": ""}')),
    ],
)
def test_a_broken_file_of_an_earlier_run_is_named(tmp_path: Path, file: str, content: str) -> None:
    dump, path = step(tmp_path / "dump"), tmp_path / "out" / file
    judge(dump, tmp_path / "out", "--api", "relu")
    path.write_text(f"{content}\n")
    found = judge(dump, tmp_path / "out", "--resume", "--api", "relu")
    assert found.exit_code == 2
    (line,) = found.output.splitlines()
    place = path if file == "run.json" else f"line 1 of {path}"
    assert line.startswith(f"aclgrad judge: {place} is not ")
    assert line.endswith("; give another folder")


def test_a_dump_of_empty_tensors_is_judged(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "dump")
    recording.call("Functional.relu", torch.empty(0, 4))
    found = judge(recording.write(), tmp_path / "out")
    assert found.exit_code == 0, found.output
    assert found.verdicts == {"Functional.relu.0.forward": "passed"}
