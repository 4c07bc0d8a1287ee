"""Arguments of dumped calls: from files that msprobe wrote, and random as acc_check draws them."""

import hashlib
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from aclgrad.judge.msprobe.dump import Dump, Entry, EntryError, read_dump
from aclgrad.judge.msprobe.values import Values, first_random, read_values
from tests.judge.msprobe.writing import DUMPS, written

from .dumped import call, dump_of, info, made, tensors, values_of

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
OF_FILES: dict[str, Callable[..., Any]] = {
    "Functional.avg_pool2d.0": functional.avg_pool2d,
    "Functional.pad.1": functional.pad,
    "Functional.adaptive_avg_pool3d.0": functional.adaptive_avg_pool3d,
    "Functional.max_pool2d.1": functional.max_pool2d,
}


@pytest.mark.parametrize("name", OF_FILES)
def test_arguments_of_files_give_the_outputs_of_the_dump(name: str) -> None:
    dump = read_dump(DUMPS / "tensor" / "dump.json")
    ((entry, values),) = read_values(dump, lambda entry: entry.name == name)
    assert isinstance(values, Values)
    output = OF_FILES[name](*values.args, **values.kwargs)
    output = output[0] if isinstance(output, tuple) else output
    output.backward(values.grad_output)

    def dumped(place: str) -> Tensor:
        tensor: Tensor = torch.load(dump.tensor_folder / f"{entry.name}.{place}.pt", weights_only=True)
        return tensor

    assert [each.requires_grad for each in values.args[:2] if isinstance(each, Tensor)] == [True]
    assert not values.grad_output.requires_grad
    assert torch.equal(output, dumped("forward.output.0"))
    assert torch.equal(values.args[0].grad, dumped("backward.output.0"))


def without_files(raw: Any) -> Any:
    if isinstance(raw, dict):
        return {key: without_files(value) for key, value in raw.items() if key != "data_name"}
    return [without_files(each) for each in raw] if isinstance(raw, list) else raw


def test_arguments_that_are_no_tensors_are_rebuilt(tmp_path: Path) -> None:
    text = json.loads(written(tmp_path, "types").read_text())
    (tmp_path / "dump.json").write_text(json.dumps(without_files(text)))
    calls = {entry.api: values for entry, values in read_values(read_dump(tmp_path / "dump.json"))}
    assert calls["softmax"].kwargs == {"dim": -1, "dtype": torch.float64}
    assert calls["interpolate"].kwargs == {"size": torch.Size([12, 12])}
    assert calls["avg_pool2d"].kwargs["kernel_size"] == [2, 2]
    assert calls["avg_pool2d"].kwargs["stride"] is None
    assert calls["adaptive_avg_pool2d"].args[1] == [None, 3]
    assert calls["silu"].kwargs == {"inplace": True}
    assert (calls["layer_norm"].args[1], calls["layer_norm"].kwargs["eps"]) == (torch.Size([6]), 1e-5)
    assert calls["layer_norm"].kwargs["weight"].requires_grad


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        ({"type": "slice", "value": [None, 3, 2]}, slice(None, 3, 2)),
        ({"type": "ellipsis", "value": "..."}, ...),
        ({"type": "str", "value": "replicate"}, "replicate"),
        ({"type": "numpy.float32", "value": 2.5}, 2.5),
        ({"type": "torch.device", "value": "npu:3"}, torch.device("cpu")),
        ([[None], [{"type": "int", "value": 2}]], [[None], [2]]),
    ],
)
def test_values_of_every_type(tmp_path: Path, raw: Any, value: Any) -> None:
    assert made(dump_of(tmp_path, call(info(), raw))).args[1] == value


@pytest.mark.parametrize(
    "raw",
    [
        {"type": "torch.dtype", "value": "torch.os"},
        {"type": "torch.Size", "value": "ab"},
        {"type": "slice", "value": [1, 2, 3, 4]},
        {"type": "int", "value": [1]},
        {"type": "builtins.eval", "value": "1"},
        {},
        7,
    ],
    ids=str,
)
def test_other_values_skip_the_call(tmp_path: Path, raw: Any) -> None:
    with pytest.raises(EntryError, match="An argument"):
        made(dump_of(tmp_path, call(info(), raw)))


def digests() -> dict[str, str]:
    """Returns what acc_check drew for each call of the dump of statistics."""
    drawn: dict[str, str] = json.loads((DUMPS / "statistics" / "drawn.json").read_text())
    return drawn


def digest(drawn: list[Tensor]) -> str:
    """The dump has neither bfloat16 nor strides."""
    return hashlib.sha256(b"".join(each.numpy().tobytes() for each in drawn)).hexdigest()[:16]


def test_random_arguments_are_those_of_acc_check() -> None:
    dump = read_dump(DUMPS / "statistics" / "dump.json")
    theirs = digests()
    for entry, values in read_values(dump):
        ours = tensors(values)
        if entry.name == "Functional.max_pool2d.1":
            ours = ours[:-1]  # acc_check does not draw a gradient for a tuple
        if entry.api != "conv2d":
            assert digest(ours) == theirs[entry.name], entry.name


def test_calls_that_are_not_wanted_change_nothing_for_the_others() -> None:
    dump = read_dump(DUMPS / "statistics" / "dump.json")
    every = {entry.name: tensors(values) for entry, values in read_values(dump)}
    for name in ("Functional.interpolate.1", "Tensor.__add__.0"):
        ((entry, values),) = read_values(dump, lambda entry, name=name: entry.name == name)
        assert entry.name == name
        assert all(map(torch.equal, tensors(values), every[name]))


def test_the_users_generator_stays_as_it_is() -> None:
    state = torch.get_rng_state()
    assert len(values_of(read_dump(DUMPS / "statistics" / "dump.json"))) == 28
    assert torch.equal(torch.get_rng_state(), state)


def random(dtype: torch.dtype, *shape: int) -> Tensor:
    """Returns acc_check's formula, drawn by PyTorch's own generator, between -0.3 and 2.7 or 3 and 9."""
    if dtype is torch.bool:
        return torch.randint(0, 2, shape) > 0
    low, high = (-0.3, 2.7) if dtype.is_floating_point else (3, 9)
    if dtype.is_floating_point:
        drawn = torch.rand(shape, dtype=dtype) * (high - low) + low
    else:
        drawn = torch.randint(low, high + 1, shape, dtype=dtype)
    drawn.view(-1)[0], drawn.view(-1)[-1] = low, high
    return drawn


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.int32, torch.uint8, torch.bool], ids=str)
def test_numbers_are_drawn_between_their_ends(tmp_path: Path, dtype: torch.dtype) -> None:
    ends = {"Min": -0.3, "Max": 2.7} if dtype in FLOATS else {"Min": 3.0, "Max": 9}
    ends = {"Min": False, "Max": True} if dtype is torch.bool else ends
    values = made(dump_of(tmp_path, call(info(dtype=str(dtype), shape=[5, 7], **ends))))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1234)
        assert torch.equal(values.args[0], random(dtype, 5, 7))
        given = torch.rand(2, 3) * 2.0 - 1.0
        given.view(-1)[0], given.view(-1)[-1] = -1.0, 1.0
        assert torch.equal(values.grad_output, given)
    assert values.args[0].requires_grad == (dtype in FLOATS)


NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("low", "high", "rows"),
    [
        (NAN, NAN, [[NAN] * 3] * 2),
        (-2.0, INF, [[INF] * 3, [-2.0] * 3]),
        (-INF, -INF, [[-INF] * 3] * 2),
    ],
)
def test_ends_that_are_not_finite_fill_the_tensor(
    tmp_path: Path, low: float, high: float, rows: list[list[float]]
) -> None:
    values = made(dump_of(tmp_path, call(info(Min=low, Max=high))))
    torch.testing.assert_close(values.args[0].detach(), torch.tensor(rows), equal_nan=True)


def test_an_end_without_limit_starts_at_the_lowest_number(tmp_path: Path) -> None:
    values = made(dump_of(tmp_path, call(info(shape=[50], Min=-INF, Max=1.0))))
    first, *rest, last = values.args[0].tolist()
    assert (first, last) == (-INF, 1.0)
    assert torch.finfo(torch.float32).min <= min(rest) < torch.finfo(torch.float32).min / 2


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
def test_empty_tensors_need_no_ends(tmp_path: Path, dtype: str) -> None:
    values = made(dump_of(tmp_path, call(info(dtype=f"torch.{dtype}", shape=[0, 3], Min=None, Max=None))))
    assert values.args[0].shape == (0, 3)


@pytest.mark.parametrize(
    "broken",
    [
        info(Min=None),
        info(dtype="torch.complex64"),
        info(dtype="torch.int64", Min=NAN, Max=NAN),
        info(dtype="torch.int64", Min=0, Max=10**400),
        info(dtype="torch.int32", Min=-INF, Max=3),
        info(shape=[], Min=0.0, Max=INF),
    ],
    ids=range(6),
)
def test_numbers_that_cannot_be_drawn_skip_the_call(tmp_path: Path, broken: dict[str, Any]) -> None:
    first, second = values_of(dump_of(tmp_path, call(broken), call(info())))
    assert isinstance(first, EntryError)
    assert isinstance(second, Values)


@pytest.mark.parametrize("shape", [[10**12], [10**6] * 8, [2**14, 2**14 + 1]])
def test_nothing_is_drawn_beyond_the_limit(tmp_path: Path, shape: list[int]) -> None:
    start = time.process_time()
    first, second = values_of(dump_of(tmp_path, call(info(shape=shape)), call(info())))
    assert isinstance(second, Values)
    assert "more than 1 GiB. acc_check draws them, so the random numbers of later calls differ" in str(first)
    assert time.process_time() - start < 0.5


def test_the_limit_is_that_of_all_tensors_of_a_call(tmp_path: Path) -> None:
    dump = dump_of(tmp_path, call(info(), info(), weight=info()))
    assert isinstance(made(dump, max_bytes=4 * 24), Values)
    with pytest.raises(EntryError, match="The tensors take 96 B, more than 95 B"):
        made(dump, max_bytes=4 * 24 - 1)


def test_the_first_call_that_draws_itself_is_known(tmp_path: Path) -> None:
    names = ["relu", "random_crop", "layer_norm", "bernoulli_", "dropout"]
    entries = tuple(Entry(f"Tensor.{name}.0", call(info()), None) for name in names)
    found = first_random(Dump(tmp_path, entries))
    assert found
    assert found.api == "bernoulli_"
    assert first_random(Dump(tmp_path, entries[:3])) is None
