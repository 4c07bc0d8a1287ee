"""Results in bfloat16 of kernels that round an intermediate result to bfloat16, too: wrong, though not by much."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from tests.torch.recording import Recording
from tests.torch.running import judge


def _drawn(*shape: int, seed: int = 3) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(torch.bfloat16)


def _rounded(value: Tensor) -> Tensor:
    return value.to(torch.bfloat16).float()


_ROWS: Final = _drawn(6, 40).float()
_WEIGHT, _BIAS = _drawn(40, 12, seed=4).float(), _drawn(12, seed=5).float()
_IMAGE, _KERNEL, _OFFSET = _drawn(2, 4, 8, 9).float(), _drawn(6, 4, 3, 3, seed=4).float(), _drawn(6, seed=5).float()
_QUERY, _KEY, _VALUE = (_drawn(2, 3, 9, 8, seed=seed).float() for seed in (3, 4, 5))
_SCALE, _SHIFT = _drawn(40, seed=4).float(), _drawn(40, seed=5).float()


def _softmax(scores: Tensor) -> Tensor:
    return torch.softmax(_rounded(scores), -1)


def _halves(rows: Tensor) -> Tensor:
    return _rounded(rows[:, :20] @ _WEIGHT[:20]) + _rounded(rows[:, 20:] @ _WEIGHT[20:])


CASES: Final[dict[str, tuple[str, tuple[Any, ...], Callable[[], Tensor]]]] = {
    "a product before its bias": (
        "Functional.linear",
        (_ROWS, _WEIGHT.T, _BIAS),
        lambda: _rounded(_ROWS @ _WEIGHT) + _BIAS,
    ),
    "a product before its sum": ("Torch.addmm", (_BIAS, _ROWS, _WEIGHT), lambda: _rounded(_ROWS @ _WEIGHT) + _BIAS),
    "the halves of a product": ("Torch.matmul", (_ROWS, _WEIGHT), lambda: _halves(_ROWS)),
    "the halves of each product": ("Torch.bmm", (_ROWS[None], _WEIGHT[None]), lambda: _halves(_ROWS)[None]),
    "the halves of a sum": (
        "Tensor.sum",
        (_ROWS, 1),
        lambda: _rounded(_ROWS[:, :20].sum(1)) + _rounded(_ROWS[:, 20:].sum(1)),
    ),
    "a convolution before its bias": (
        "Functional.conv2d",
        (_IMAGE, _KERNEL, _OFFSET),
        lambda: _rounded(functional.conv2d(_IMAGE, _KERNEL)) + _OFFSET[:, None, None],
    ),
    "the scores of attention": (
        "Functional.scaled_dot_product_attention",
        (_QUERY, _KEY, _VALUE),
        lambda: _softmax(_QUERY @ _KEY.mT / 8**0.5) @ _VALUE,
    ),
    "a sigmoid": ("Functional.silu", (_ROWS,), lambda: _ROWS * _rounded(torch.sigmoid(_ROWS))),
    "a row before scale and shift": (
        "Functional.layer_norm",
        (_ROWS, [40], _SCALE, _SHIFT),
        lambda: _rounded(functional.layer_norm(_ROWS, [40])) * _SCALE + _SHIFT,
    ),
}


@pytest.mark.parametrize("rounded", CASES)
def test_an_intermediate_result_that_is_rounded_is_found(rounded: str, tmp_path: Path) -> None:
    api, args, wrong = CASES[rounded]
    recording = Recording(tmp_path / "dump")
    recording.call(api, *(each.to(torch.bfloat16) if isinstance(each, Tensor) else each for each in args))
    dump = recording.write()
    assert judge(dump, tmp_path / "right").exit_code == 0
    torch.save(
        wrong().to(torch.bfloat16).contiguous(), tmp_path / "dump" / "dump_tensor_data" / f"{api}.0.forward.output.0.pt"
    )
    found = judge(dump, tmp_path / "wrong")
    assert found.verdicts == {f"{api}.0.forward": "failed"}
