"""`aclgrad replay` of what the real msprobe dumps with other settings, of calls whose entries are unlike others."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.frameworks.replaying import acc_check, details_of, dump_steps, judged, judged_rows, replay, rows_of
from tools.serving import Server

ALL = {"scope": [], "list": [], "data_mode": ["all"]}
MODES: dict[str, dict[str, Any]] = {
    "tensor": {"task": "tensor", "tensor": ALL},
    "md5": {"task": "statistics", "statistics": {**ALL, "summary_mode": "md5"}},
    "mixed": {"task": "statistics", "statistics": {**ALL, "summary_mode": "statistics", "tensor_list": ["pool2d"]}},
    "inputs alone": {"task": "tensor", "tensor": {**ALL, "data_mode": ["input"]}},
}
STEP = "step0"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folders of dumps in each mode, and of two ranks."""
    folders = {mode: tmp_path_factory.mktemp("mode") / "dump" for mode in (*MODES, "ranks")}
    with ThreadPoolExecutor(2) as runs:
        made = [runs.submit(dump_steps, folders[mode], config, "odd") for mode, config in MODES.items()]
        for each in made:
            each.result()
        ranks = [{"RANK": rank, "WORLD_SIZE": "2"} for rank in "01"]
        made = [runs.submit(dump_steps, folders["ranks"], MODES["tensor"], "odd", **rank) for rank in ranks]
        for each in made:
            each.result()
    return folders


@pytest.mark.timeout(600)
@pytest.mark.parametrize("mode", ["tensor", "md5", "mixed"])
def test_statuses_are_those_of_acc_check(server: Server, dumps: dict[str, Path], mode: str, tmp_path: Path) -> None:
    ours = details_of(replay(server, dumps[mode], tmp_path), STEP)
    reference = rows_of(acc_check(dumps[mode], STEP))
    local = judged(rows_of(ours.parent / "local" / ours.name))
    assert set(local) == {f"Functional.{call}.backward.output.0" for call in JUDGED}
    assert {name: row["Status"] for name, row in local.items()} == {name: reference[name]["Status"] for name in local}


JUDGED = (
    *("avg_pool2d.0", "avg_pool2d.1", "max_pool2d.0", "max_pool2d.1"),
    *("interpolate.0", "pad.0", "layer_norm.0", "layer_norm.1"),
)
"""All but what acc_check leaves out: tensors that are empty or complex."""


def test_inputs_alone_are_enough(server: Server, dumps: dict[str, Path], tmp_path: Path) -> None:
    found, whole = (details_of(replay(server, dumps[mode], tmp_path / mode)) for mode in ("inputs alone", "tensor"))
    assert rows_of(found) == rows_of(whole)


def test_each_rank_has_tables(server: Server, dumps: dict[str, Path], tmp_path: Path) -> None:
    out = replay(server, dumps["ranks"], tmp_path / "ranks")
    whole = rows_of(details_of(replay(server, dumps["tensor"], tmp_path / "whole")))
    for rank in ("rank0", "rank1"):
        assert rows_of(details_of(out, f"{STEP}/{rank}")) == whole


def test_complex_gradients_are_judged_though_acc_check_compares_none(
    server: Server, dumps: dict[str, Path], tmp_path: Path
) -> None:
    out = replay(server, dumps["tensor"], tmp_path)
    assert rows_of(details_of(out))["Functional.pad.2.backward.output.0"]["Status"] == "SKIP"
    complex_tensors = [each for row in judged_rows(out) for each in row["tensors"] if each["dtype"] == "complex64"]
    sides = [each["sides"] for each in complex_tensors if "server" in each["sides"]]
    assert [{name: side["verdict"] for name, side in each.items()} for each in sides] == [
        {"training": "passed", "server": "passed"}
    ]
