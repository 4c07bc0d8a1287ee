"""Dumps of several versions and modes, and files that are no dumps, or are made to take time and memory."""

import json
import os
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from aclgrad.judge.msprobe.dump import DumpError, Entry, EntryError, TensorInfo, find_dumps, read_dump, tensors
from tests.judge.msprobe.writing import DUMPS, both, call, tensor, write, written

TENSOR = tensor()
CALL = both("Functional.relu.0", call(TENSOR), [TENSOR])


def saved(folder: Path, text: str) -> Path:
    (folder / "dump.json").write_text(text)
    return folder / "dump.json"


@pytest.mark.parametrize(
    ("name", "calls", "with_backward"),
    [("8.3.3", 2, 2), ("md5", 2, 2), ("mix", 1, 1), ("L0", 1, 1), ("edges", 6, 4), ("types", 9, 9)],
)
def test_dumps_of_other_modes_are_read(tmp_path: Path, name: str, calls: int, with_backward: int) -> None:
    dump = read_dump(written(tmp_path, name))
    assert (len(dump.entries), sum(entry.backward is not None for entry in dump.entries)) == (calls, with_backward)


def test_calls_of_msprobe_s_own_dump_are_in_the_order_of_their_forward_passes() -> None:
    entries = read_dump(DUMPS / "statistics" / "dump.json").entries
    assert (len(entries), sum(entry.backward is not None for entry in entries)) == (28, 26)
    names = [entry.name for entry in entries]
    assert names[:3] == ["Functional.conv2d.0", "Tensor.add_.0", "Functional.batch_norm.0"]
    assert names[-1] == "Tensor.__add__.0"


def test_a_call_tells_its_arguments(tmp_path: Path) -> None:
    dump = read_dump(written(tmp_path, "types"))
    assert dump.tensor_folder == tmp_path / "types" / "dump_tensor_data", "wherever it was written"
    (entry,) = (each for each in dump.entries if each.name == "Functional.layer_norm.0")
    assert (entry.prefix, entry.api) == ("Functional", "layer_norm")
    assert [list(tensors(each)) != [] for each in entry.args] == [True, False]
    assert entry.kwargs["bias"] is None
    (weight,) = tensors(entry.kwargs["weight"])
    name = "Functional.layer_norm.0.forward.kwargs.weight.pt"
    assert weight == TensorInfo("float32", (6,), True, (1.0, 1.0), name)
    assert len(entry.outputs) == len(entry.grad_outputs) == 1


def test_nan_and_empty_tensors_and_names_of_four_parts_are_read(tmp_path: Path) -> None:
    (entry,) = read_dump(written(tmp_path, "L0")).entries
    assert (entry.name, entry.prefix, entry.api) == ("torchvision.ops.roi_align.0", "torchvision.ops", "roi_align")
    entries = {entry.name: entry for entry in read_dump(written(tmp_path, "edges")).entries}
    (nan,) = tensors(entries["Functional.pad.0"].args)
    assert nan.bounds[0] != nan.bounds[0]
    (empty,) = tensors(entries["Functional.pad.1"].args)
    assert (empty.shape, empty.size_bytes, empty.bounds) == ((0, 3, 4), 0, (None, None))
    assert entries["Functional.avg_pool2d.1"].outputs == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is cut off: the process ended before stop()"),
        ('{"task": "tensor", "data": {"Functional.pad.0.forward": {"input_args": [', "is cut off"),
        ('{"data": {"Functional.pad.0.forward": {"Max": Infini', "is cut off"),
        ('{"data": {"Functional.pad.0.for', "is cut off"),
        ("PK\x03\x04 this is an archive", "is not JSON as msprobe writes it"),
        ('{"data": {"a": 1,,} and then a good deal of other text}', "is not JSON as msprobe writes it"),
        ("[1, 2]", "has no data; name the dump.json of a dump, not its stack.json"),
        ("{}", "has no data"),
        ('{"data": []}', "has no data"),
        ('{"data": {}}', 'holds no call; dump again with level="L1"'),
        (json.dumps({"framework": "mindspore", "data": CALL}), "is of 'mindspore'; only calls of PyTorch"),
    ],
)
def test_what_is_no_dump_tells_how_to_make_one(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(DumpError) as raised:
        read_dump(saved(tmp_path, content))
    assert message in str(raised.value)
    assert str(tmp_path) in str(raised.value)


def test_every_cut_of_a_dump_is_told_as_one_and_checksums_tell_what_to_set(tmp_path: Path) -> None:
    with pytest.raises(DumpError, match='summary_mode "statistics" or "md5" instead of "xor"'):
        read_dump(written(tmp_path, "xor"))
    text = written(tmp_path, "mix").read_text()
    for end in range(0, len(text) - 1, 7):
        with pytest.raises(DumpError, match="is cut off"):
            read_dump(saved(tmp_path, text[:end]))


@pytest.mark.parametrize("path", ["none", "none/dump.json", "dump.json/dump.json"])
def test_a_path_to_nothing_is_named(tmp_path: Path, path: str) -> None:
    write(tmp_path, CALL)
    with pytest.raises(DumpError, match="There is no file"):
        read_dump(tmp_path / path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "dump.json")
    with pytest.raises(DumpError, match="There is no file"):
        read_dump(tmp_path / "dump.json")


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = write(tmp_path, CALL)
    os.truncate(path, 2**40)
    with pytest.raises(DumpError, match="has 1 TiB, more than 256 MiB"):
        read_dump(path)


HOSTILE = [
    '{"data": ' + "[" * 10**6,
    '{"data": ' + '{"a":' * 10**6,
    '{"data": {"a": ' + "9" * 10**6 + "}}",
    '{"data": ' + "[" * 900 + "]" * 900 + "}",
]


@pytest.mark.parametrize("content", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_files_are_refused_at_once(tmp_path: Path, content: str) -> None:
    path = saved(tmp_path, content)
    tracemalloc.start()
    start = time.process_time()
    with pytest.raises(DumpError):
        read_dump(path)
    assert time.process_time() - start < 1
    assert tracemalloc.get_traced_memory()[1] < 100 * 2**20
    tracemalloc.stop()


@pytest.mark.parametrize(
    "name",
    [
        "relu.0",
        "a.b.c.d.0",
        "Functional.relu.x",
        "Functional.re lu.0",
        "Functional.relu\n.0",
        "=cmd.relu.0",
        "F." + "x" * 300,
    ],
)
def test_names_of_another_form_are_no_calls(tmp_path: Path, name: str) -> None:
    other = {f"{name}.{half}": CALL[f"Functional.relu.0.{half}"] for half in ("forward", "backward")}
    dump = read_dump(write(tmp_path, CALL | other))
    assert [entry.name for entry in dump.entries] == ["Functional.relu.0"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"dtype": "torch.float8_e4m3fn"},
            "dtype float8_e4m3fn cannot be replayed; those that can are float32, float16",
        ),
        ({"dtype": "os.system"}, "dtype os.system cannot"),
        ({"dtype": None}, "dtype None cannot"),
        ({"shape": None}, "no list of sizes"),
        ({"shape": [-1]}, "no list of sizes"),
        ({"shape": [True]}, "no list of sizes"),
        ({"shape": [1.5]}, "no list of sizes"),
        ({"shape": [1] * 9}, "has 9 dimensions; 8 is the most"),
        ({"data_name": "../a.pt"}, "no name of a .pt or .npy file"),
        ({"data_name": "/etc/passwd.pt"}, "no name of a .pt or .npy file"),
        ({"data_name": "..\\a.pt"}, "no name of a .pt or .npy file"),
        ({"data_name": "a\0.pt"}, "no name of a .pt or .npy file"),
        ({"data_name": "a.pkl"}, "no name of a .pt or .npy file"),
        ({"data_name": ".."}, "no name of a .pt or .npy file"),
        ({"data_name": 3}, "no name of a .pt or .npy file"),
    ],
)
def test_a_broken_tensor_is_its_calls_problem(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    broken = {"Functional.relu.1.forward": {"input_args": [TENSOR | change], "input_kwargs": {}}}
    _, entry = read_dump(write(tmp_path, CALL | broken)).entries
    with pytest.raises(EntryError) as raised:
        list(tensors(entry.args))
    assert message in str(raised.value)


@pytest.mark.parametrize("raw", [None, 3, [], "text", {"input_args": {}, "input_kwargs": [], "output": 3}])
def test_a_broken_call_is_its_own_problem(raw: Any) -> None:
    entry = Entry("Functional.relu.0", raw, {"input": 3})
    for name in ("args", "kwargs", "outputs", "grad_outputs"):
        with pytest.raises(EntryError, match=r"is no (list|object) in dump\.json"):
            getattr(entry, name)


def test_lists_are_not_followed_without_end() -> None:
    nested: Any = []
    for _ in range(100):
        nested = [nested]
    with pytest.raises(EntryError, match="nested deeper than 32"):
        list(tensors(nested))


def test_sizes_may_be_of_any_magnitude() -> None:
    (info,) = tensors(TENSOR | {"shape": [10**12] * 8})
    assert info.size_bytes == 4 * 10**96


def test_steps_and_ranks_are_found_in_their_order(tmp_path: Path) -> None:
    folders = ["step2/rank0", "step10/rank0", "step10/rank11", "step10/rank2", "step0/proc77", "step1/rank"]
    for folder in folders:
        (tmp_path / folder / "dump_tensor_data").mkdir(parents=True)
        write(tmp_path / folder, CALL)
    (tmp_path / "step3" / "rank0").mkdir(parents=True)
    found = find_dumps(tmp_path)
    order = ["step0/proc77", "step1/rank", "step2/rank0", "step10/rank0", "step10/rank2", "step10/rank11"]
    assert [each.folder.as_posix() for each in found] == order
    assert all(each.path == tmp_path / each.folder / "dump.json" for each in found)
    assert [each.folder.as_posix() for each in find_dumps(tmp_path / "step10")] == ["rank0", "rank2", "rank11"]
    path = tmp_path / "step2/rank0/dump.json"
    assert find_dumps(path) == find_dumps(path.parent) == [(path, Path())]
    with pytest.raises(DumpError, match=r"neither .*dump\.json nor another"):
        find_dumps(tmp_path / "step3/rank0")


def test_links_to_steps_are_followed_once(tmp_path: Path) -> None:
    """Links that lead around the folder, in a circle or to a step that was found do not."""
    for folder in ("runs/step0/rank0", "runs/step1", "chosen/step2"):
        (tmp_path / folder).mkdir(parents=True)
        write(tmp_path / folder, CALL)
    chosen = tmp_path / "chosen"
    (tmp_path / "runs/step0/circle").symlink_to(tmp_path / "runs/step0")
    for name, leads_to in (
        ("step0", "runs/step0"),
        ("step1", "runs/step1"),
        ("above", "."),
        ("latest", "chosen/step2"),
    ):
        (chosen / name).symlink_to(tmp_path / leads_to)
    assert [each.folder.as_posix() for each in find_dumps(chosen)] == ["step0/rank0", "step1", "step2"]
