"""`aclgrad replay` and `aclgrad judge` of dumps that the real msprobe makes, beside its own check and comparison."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import aclgrad
from aclgrad.judge.replay import command
from tests.frameworks.replaying import acc_check, compared, details_of, dump_steps, judged, judged_rows, replay, rows_of
from tests.judge.torch.running import judge
from tools.serving import Server

CONFIGS = {"tensor": {"task": "tensor", "tensor": {"scope": [], "list": [], "data_mode": ["all"]}}}
CONFIGS["statistics"] = {"task": "statistics", "statistics": {"scope": [], "list": [], "summary_mode": "statistics"}}
FLOAT32, BFLOAT16, ODD = "step0", "step2", "step3"
ORDER = ("pass", "warning", "error")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture(scope="module", params=CONFIGS)
def dump(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a dump of four steps."""
    folder = tmp_path_factory.mktemp(request.param) / "dump"
    dump_steps(folder, CONFIGS[request.param])
    return folder


@pytest.fixture(scope="module")
def replayed(server: Server, dump: Path) -> Path:
    """The folder of a replay with the tables of PyTorch beside those of the server."""
    return replay(server, dump, dump.parent / "replayed")


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("step", "least"), [(FLOAT32, 60), (BFLOAT16, 60), (ODD, 7)])
def test_statuses_are_those_of_acc_check(replayed: Path, dump: Path, step: str, least: int, tmp_path: Path) -> None:
    ours = details_of(replayed, step)
    theirs, server = acc_check(dump, step), judged(rows_of(ours))
    local, reference = rows_of(ours.parent / "local" / ours.name), rows_of(theirs)
    # msprobe skips the backward pass of calls with several outputs, and calls with keywords alone.
    both = {name for name in server if name in reference and reference[name]["Status"] != "SKIP"}
    assert len(both) > least
    assert {name: local[name]["Status"] for name in both} == {name: reference[name]["Status"] for name in both}
    for name in both:
        mine, other = (ORDER.index(each[name]["Status"]) for each in (server, reference))
        # Kernels of PyTorch add in half precision, where a server does not.
        assert mine == other if step == FLOAT32 else mine <= other, name
    verdicts = compared(ours, theirs, tmp_path / "ours_as_card")
    assert {name: verdicts[name] for name in both if verdicts[name] != "pass"} == {}
    if step == FLOAT32:
        verdicts = compared(theirs, ours, tmp_path / "ours_as_gpu")
        # Its limit for layer norm is 1.2 times the other side's error, and PyTorch's own error is larger than that.
        assert {name for name in both if verdicts[name] != "pass" and ".layer_norm." not in name} == set()


def test_every_served_function_is_compared(replayed: Path) -> None:
    found = {name.split(".")[1] for name in judged(rows_of(details_of(replayed, FLOAT32)))}
    assert found >= {
        *("adaptive_avg_pool2d", "adaptive_avg_pool3d", "avg_pool2d", "batch_norm", "grid_sample", "interpolate"),
        *("layer_norm", "max_pool2d", "max_pool2d_with_indices", "max_unpool2d", "max_unpool3d", "pad"),
    }
    rows = judged_rows(replayed)
    assert not [row for row in rows if row["verdict"] == "failed"]


def test_the_local_tables_are_the_other_side(replayed: Path, tmp_path: Path) -> None:
    ours = details_of(replayed, FLOAT32)
    verdicts = compared(ours, ours.parent / "local" / ours.name, tmp_path / "compared")
    assert {verdicts[name] for name in judged(rows_of(ours))} == {"pass"}


def test_one_percent_is_an_error_to_both(
    server: Server, dump: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Wrong(aclgrad.Client):
        def execute(self, name: str, *args: Any, **options: Any) -> Any:
            found = super().execute(name, *args, **options)
            return found * found.dtype.type(1.01) if name == "avg_pool2d_backward" else found

    monkeypatch.setattr(command, "Client", Wrong)
    ours = details_of(replay(server, dump / FLOAT32, tmp_path / "out", exit_code=1))
    verdicts = compared(ours, ours.parent / "local" / ours.name, tmp_path / "compared")
    wrong = {name for name in judged(rows_of(ours)) if ".avg_pool2d." in name}
    assert wrong
    assert {name for name, verdict in verdicts.items() if verdict == "error"} == wrong
    failed = [row for row in judged_rows(tmp_path / "out") if row["verdict"] == "failed"]
    assert {row["name"].split(".")[1] for row in failed} == {"avg_pool2d"}
    verdicts = [{side: each["verdict"] for side, each in row["tensors"][0]["sides"].items()} for row in failed]
    assert all(each["server"] == "failed" and each.get("training", "passed") == "passed" for each in verdicts)


def test_complex_gradients_are_judged_though_acc_check_compares_none(replayed: Path) -> None:
    """With their elements: acc_check draws no complex numbers."""
    tensors = [each for row in judged_rows(replayed) for each in row["tensors"] if each["dtype"] == "complex64"]
    sides = [each["sides"] for each in tensors if "server" in each["sides"]]
    wanted = [{"training": "passed", "server": "passed"}] if "tensor" in replayed.parts[-2] else []
    assert [{name: side["verdict"] for name, side in each.items()} for each in sides] == wanted


def test_judge_finds_no_right_result_wrong(dump: Path, tmp_path: Path) -> None:
    if "statistics" in str(dump):
        pytest.skip("a dump without elements")
    found = judge(dump, tmp_path / "out")
    failed = {name for name, verdict in found.verdicts.items() if verdict == "failed"}
    # torchvision's kernel for a CPU adds up in float16.
    assert all(name.startswith("torchvision.ops.roi_align") for name in failed), found.output
    assert found.summary["judged"] >= 0.95 * found.summary["calls"]
