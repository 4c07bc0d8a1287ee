"""Faults planted in the recorded results of every call of a table: found where they are, and nowhere else.

Each kind of fault is one that a wrong kernel makes.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from tests.judge.torch.dumps.table import CALLS
from tests.judge.torch.recording import Recording, tensors
from tests.judge.torch.running import judge

DTYPES: Final = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
Fault = Callable[[Tensor, Tensor | None], Tensor]
"""Makes a result wrong, given what the call before had in its place; returns an equal one if it cannot."""


def _one_percent(result: Tensor, _: Tensor | None) -> Tensor:
    return result * 1.01


def _one_element(result: Tensor, _: Tensor | None) -> Tensor:
    """One element in ten is larger than this."""
    wrong = result.clone().reshape(-1)
    place = int(wrong.abs().argsort()[wrong.numel() * 9 // 10])
    wrong[place] *= 1.1
    return wrong.reshape(result.shape)


def _sign(result: Tensor, _: Tensor | None) -> Tensor:
    return -result


def _nan(result: Tensor, _: Tensor | None) -> Tensor:
    wrong = result.clone().reshape(-1)
    wrong[wrong.numel() // 2] = float("nan")
    return wrong.reshape(result.shape)


def _stale_tail(result: Tensor, before: Tensor | None) -> Tensor:
    """The last quarter is what the call before left there."""
    wrong = result.clone().reshape(-1)
    start = wrong.numel() - wrong.numel() // 4
    is_alike = before is not None and before.shape == result.shape
    wrong[start:] = before.reshape(-1)[start:] if before is not None and is_alike else 0
    return wrong.reshape(result.shape)


def _rows_swapped(result: Tensor, _: Tensor | None) -> Tensor:
    if result.dim() == 0:
        return result
    wrong = result.clone()
    wrong[0], wrong[-1] = result[-1], result[0]
    return wrong


def _rounded_twice(result: Tensor, _: Tensor | None) -> Tensor:
    """What a kernel returns that has computed in bfloat16."""
    return result.to(torch.bfloat16).to(result.dtype)


FAULTS: Final[dict[str, Fault]] = {
    "one percent": _one_percent,
    "one element": _one_element,
    "sign": _sign,
    "NaN": _nan,
    "stale tail": _stale_tail,
    "rows swapped": _rows_swapped,
    "rounded twice": _rounded_twice,
}


SMALL: Final = ("one percent", "one element")
"""The faults nearest to the limits of bfloat16, so every function has them in both."""
LARGE: Final = ("sign", "NaN", "stale tail", "rows swapped")
"""One for each call, in turn: no limit of a function is near them."""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Every call of the table twice, with other values, in each dtype."""
    return {name: _recorded(tmp_path_factory.mktemp(name), dtype) for name, dtype in DTYPES.items()}


def _recorded(folder: Path, dtype: torch.dtype) -> Path:
    recording, generator = Recording(folder), torch.Generator().manual_seed(7)
    for call in CALLS:
        for _ in range(2):
            args, options = call.drawn(dtype, generator)
            outputs = [each for each in tensors(recording.call(call.api, *args, **options)) if each.requires_grad]
            gradients = [torch.randn(each.shape, generator=generator).to(each.dtype) for each in outputs]
            torch.autograd.backward(outputs, gradients)
    return recording.write()


def _planted(dump: Path, faults: tuple[str, ...]) -> list[str]:
    """Makes a result of every second call wrong, and returns the entries that are wrong in the order of execution.

    The first result that the fault changes is taken: an output of a forward entry, or a gradient of a backward entry.
    """
    entries, data = json.loads(dump.read_bytes())["data"], dump.parent / "dump_tensor_data"

    def results(name: str) -> dict[Path, Tensor]:
        paths = [data / each["data_name"] for each in entries[name].get("output", []) if each]
        return {path: torch.load(path, weights_only=True) for path in paths}

    wrong = []
    for place, name in enumerate(entries):
        api, number, half = name.rsplit(".", 2)
        if int(number) % 2 == 0:
            continue
        before = list(results(f"{api}.{int(number) - 1}.{half}").values())
        for index, (path, result) in enumerate(results(name).items()):
            fault = FAULTS[faults[place % len(faults)]]
            changed = fault(result, before[index]) if result.is_floating_point() else result
            if not torch.equal(changed, result):
                torch.save(changed.contiguous().clone(), path)
                wrong.append(name)
                break
    return wrong


def test_calls_that_are_right_pass(recorded: dict[str, Path], tmp_path: Path) -> None:
    found = judge(recorded["float16"], tmp_path / "out", "--require-all")
    assert found.exit_code == 0, found.output
    assert len(found.verdicts) == 4 * len(CALLS)
    assert set(found.verdicts.values()) == {"passed"}


@pytest.mark.parametrize(
    ("dtype", "faults"),
    [("float32", LARGE), ("float32", ("rounded twice",))]
    + [(dtype, (fault,)) for dtype in ("float32", "bfloat16") for fault in SMALL],
)
def test_faults_are_found_where_they_are(
    recorded: dict[str, Path], dtype: str, faults: tuple[str, ...], tmp_path: Path
) -> None:
    shutil.copytree(recorded[dtype].parent, tmp_path / "dump")
    planted = _planted(tmp_path / "dump" / "dump.json", faults)
    assert len(planted) > 1.5 * len(CALLS)
    found = judge(tmp_path / "dump", tmp_path / "out")
    assert found.exit_code == 1
    verdicts = {name: "failed" if name in planted else "passed" for name in found.verdicts}
    # Cards round within GLU and attention, so that one element of few digits is only noted.
    rounded = ("Functional.glu", "Functional.scaled_dot_product_attention")
    for name in verdicts if (dtype, faults) == ("bfloat16", ("one element",)) else ():
        if name.startswith(rounded) and found.verdicts[name] == "noted":
            verdicts[name] = "noted"
    assert found.verdicts == verdicts
    assert found.summary["first_wrong"]["name"] == planted[0]


def _drawn(*shape: int, seed: int = 3) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(torch.bfloat16)


def _by_bfloat16(value: Tensor) -> Tensor:
    return value.to(torch.bfloat16).float()


_ROWS: Final = _drawn(6, 40).float()
_WEIGHT, _BIAS = _drawn(40, 12, seed=4).float(), _drawn(12, seed=5).float()
_IMAGE, _KERNEL, _OFFSET = _drawn(2, 4, 8, 9).float(), _drawn(6, 4, 3, 3, seed=4).float(), _drawn(6, seed=5).float()
_QUERY, _KEY, _VALUE = (_drawn(2, 3, 9, 8, seed=seed).float() for seed in (3, 4, 5))
_SCALE, _SHIFT = _drawn(40, seed=4).float(), _drawn(40, seed=5).float()


def _softmax(scores: Tensor) -> Tensor:
    return torch.softmax(_by_bfloat16(scores), -1)


def _halves(rows: Tensor) -> Tensor:
    return _by_bfloat16(rows[:, :20] @ _WEIGHT[:20]) + _by_bfloat16(rows[:, 20:] @ _WEIGHT[20:])


CASES: Final[dict[str, tuple[str, tuple[Any, ...], Callable[[], Tensor]]]] = {
    "a product before its bias": (
        "Functional.linear",
        (_ROWS, _WEIGHT.T, _BIAS),
        lambda: _by_bfloat16(_ROWS @ _WEIGHT) + _BIAS,
    ),
    "a product before its sum": ("Torch.addmm", (_BIAS, _ROWS, _WEIGHT), lambda: _by_bfloat16(_ROWS @ _WEIGHT) + _BIAS),
    "the halves of a product": ("Torch.matmul", (_ROWS, _WEIGHT), lambda: _halves(_ROWS)),
    "the halves of each product": ("Torch.bmm", (_ROWS[None], _WEIGHT[None]), lambda: _halves(_ROWS)[None]),
    "the halves of a sum": (
        "Tensor.sum",
        (_ROWS, 1),
        lambda: _by_bfloat16(_ROWS[:, :20].sum(1)) + _by_bfloat16(_ROWS[:, 20:].sum(1)),
    ),
    "a convolution before its bias": (
        "Functional.conv2d",
        (_IMAGE, _KERNEL, _OFFSET),
        lambda: _by_bfloat16(functional.conv2d(_IMAGE, _KERNEL)) + _OFFSET[:, None, None],
    ),
    "the scores of attention": (
        "Functional.scaled_dot_product_attention",
        (_QUERY, _KEY, _VALUE),
        lambda: _softmax(_QUERY @ _KEY.mT / 8**0.5) @ _VALUE,
    ),
    "a sigmoid": ("Functional.silu", (_ROWS,), lambda: _ROWS * _by_bfloat16(torch.sigmoid(_ROWS))),
    "a row before scale and shift": (
        "Functional.layer_norm",
        (_ROWS, [40], _SCALE, _SHIFT),
        lambda: _by_bfloat16(functional.layer_norm(_ROWS, [40])) * _SCALE + _SHIFT,
    ),
}


def test_an_intermediate_result_that_is_rounded_is_found(tmp_path: Path) -> None:
    """Kernels that round an intermediate result to bfloat16, too, are wrong, though not by much."""
    recording, names = Recording(tmp_path / "dump"), {}
    for api, args, wrong in CASES.values():
        given = [each.to(torch.bfloat16) if isinstance(each, Tensor) else each for each in args]
        recording.call(api, *given)
        recording.call(api, *given, function=lambda *_, wrong=wrong: wrong().to(torch.bfloat16).contiguous())
        names |= {f"{api}.0.forward": "passed", f"{api}.1.forward": "failed"}
    assert judge(recording.write(), tmp_path / "out").verdicts == names
