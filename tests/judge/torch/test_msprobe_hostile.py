"""Dumps that are broken anywhere: only DumpError or skipped calls, at once, and without memory."""

import copy
import json
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aclgrad.judge.msprobe.dump import DumpError, EntryError, read_dump
from aclgrad.judge.msprobe.values import Values, read_values

from .dumped import FILE, call, info

DUMP: Final = {
    "task": "tensor",
    "level": "L1",
    "framework": "pytorch",
    "dump_data_dir": "elsewhere/dump_tensor_data",
    "data": {
        "Functional.relu.0.forward": call(info(data_name=FILE), inplace={"type": "bool", "value": False}),
        "Functional.pad.0.forward": call(
            info(), [{"type": "int", "value": 1}] * 2, mode={"type": "str", "value": "reflect"}
        ),
        "Torch.add.0.forward": call(
            info(dtype="torch.int64"),
            info(dtype="torch.bool", Min=False, Max=True),
            shape={"type": "torch.Size", "value": [2, 3]},
        ),
        "Torch.add.0.backward": {"input": [info()], "output": [info(), None]},
        "Functional.pad.0.backward": {"input": [info()], "output": [info()]},
        "Functional.relu.0.backward": {"input": [info()], "output": [info()]},
    },
}
TEXTS: Final = [
    "../../etc/passwd",
    "/dev/zero",
    "..",
    FILE,
    "torch.float8_e5m2",
    "torch.load",
    "torch.Tensor",
    "slice",
    "\x1b[2J",
    "=1+1",
]
NUMBERS: Final = [10**12, 10**30, -1, 0, 2**31, 2**63, float("nan"), float("inf"), -float("inf"), 1e300, 0.5]
LEAVES = st.sampled_from([*TEXTS, *NUMBERS, None, True, False, [], {}]) | st.text(max_size=8) | st.integers()
VALUES = st.recursive(
    LEAVES | st.sampled_from([info(), info(data_name=FILE), info(shape=[10**6] * 8)]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["type", "value", "shape", "dtype"]), inner)
    ),
    max_leaves=6,
)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yields every list and object in a value, with each of its indices or keys."""
    for key in range(len(value)) if isinstance(value, list) else list(value) if isinstance(value, dict) else []:
        yield value, key
        yield from places(value[key])


@st.composite
def hostile(draw: st.DrawFn) -> str:
    """Returns a dump with up to three members replaced, or cut, or with other text in it."""
    dump = copy.deepcopy(DUMP)
    for _ in range(draw(st.integers(0, 3))):
        holder, key = draw(st.sampled_from(list(places(dump))))
        holder[key] = copy.deepcopy(draw(VALUES))
    text = json.dumps(dump)
    at = draw(st.integers(0, len(text)) | st.just(len(text)))
    return (
        text[:at]
        + draw(st.sampled_from(["", "", "[" * 3000, '{"a":' * 3000, "9" * 5000, "\0"]))
        + text[at:] * draw(st.booleans())
    )


def largest_memory() -> int:
    """Returns the most that this process has had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("dump")
    (path / "dump_tensor_data").mkdir()
    torch.save(torch.ones(2, 3), path / "dump_tensor_data" / FILE)
    return path


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(text=hostile())
def test_a_dump_that_is_broken_anywhere_costs_its_calls(folder: Path, text: str) -> None:
    (folder / "dump.json").write_text(text)
    before, start = largest_memory(), time.process_time()
    try:
        dump = read_dump(folder / "dump.json")
    except DumpError:
        dump = None
    for entry, values in read_values(dump, max_bytes=2**20) if dump else ():
        assert isinstance(values, (Values, EntryError)), entry
    assert time.process_time() - start < 1
    assert largest_memory() - before < 100 * 2**20


def test_the_unbroken_dump_has_arguments_for_every_call(folder: Path) -> None:
    (folder / "dump.json").write_text(json.dumps(DUMP))
    found = [values for _, values in read_values(read_dump(folder / "dump.json"))]
    assert [type(values) for values in found] == [Values] * 3
