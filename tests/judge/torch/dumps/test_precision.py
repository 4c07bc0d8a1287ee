"""Products of float32 whose operands a card has rounded: noted as what they are, and still judged."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from aclgrad.judge.dumps.apis import OTHERS
from aclgrad.judge.dumps.judging import Judge
from aclgrad.judge.dumps.products import to_hf32
from aclgrad.judge.dumps.recorded import Source
from aclgrad.judge.dumps.records import TRAINING, CallRow
from aclgrad.judge.findings.rows import Verdict
from aclgrad.judge.msprobe.dump import find_dumps
from tests.judge.torch.recording import Recording


def by_hf32(tensor: Tensor) -> Tensor:
    """Rounds to 1 + 11 bits, ties to even, by plain arithmetic."""
    mantissa, exponent = torch.frexp(tensor.double())
    return torch.ldexp((mantissa * 2**12).round(), exponent - 12).float()


def by_float16(tensor: Tensor) -> Tensor:
    return tensor.half().float()


ROUNDINGS = {"hf32": by_hf32, "float16": by_float16}


def convolution(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return functional.conv2d(x, w, b, padding=1)


def product(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return torch.addmm(b, x, w)


SPREAD = {"padding": [1, 0], "output_padding": [0, 1], "stride": [2, 2], "dilation": [1, 1], "groups": 2}


def spread(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return functional.conv_transpose2d(x, w, b, **SPREAD)


CALLS = {
    "Functional.conv2d": (convolution, (2, 16, 9, 9), (8, 16, 3, 3), (8,), {"padding": 1}),
    "Functional.conv_transpose2d": (spread, (2, 16, 9, 9), (16, 4, 3, 3), (8,), SPREAD),
    "NPU.npu_conv_transpose2d": (spread, (2, 16, 9, 9), (16, 4, 3, 3), (8,), SPREAD),
    "Torch.addmm": (product, (24, 64), (64, 32), (32,), {}),
}


def rounded_dump(folder: Path, api: str, rounding: Callable[[Tensor], Tensor], factor: float = 1.0) -> Path:
    """Records a call whose results are those of rounded operands, summed in float64, times a factor."""
    function, *shapes, options = CALLS[api]
    torch.manual_seed(3)
    # Of this size float16 has fewer bits than HF32; the two are alike for numbers near 1.
    x, w, b = (
        (torch.randn(shape) * scale).requires_grad_() for shape, scale in zip(shapes, (1, 1e-6, 1e-6), strict=True)
    )
    recording = Recording(folder)
    args = (b, x, w) if api == "Torch.addmm" else (x, w, b)
    output = recording.call(api, *args, function=OTHERS.get(api), **options)
    given = torch.randn(output.shape)
    output.backward(given)
    recording.write()

    def exact(*tensors: Tensor) -> list[Tensor]:
        return [each.detach().double().requires_grad_() for each in tensors]

    of_rounded = exact(*map(rounding, (x, w)), b)
    result = function(*of_rounded)
    wide_given = rounding(given).double()
    grad_x, grad_w, _ = torch.autograd.grad(result, of_rounded, wide_given)
    replaced = {"forward.output.0": result, "backward.output.0": grad_x, "backward.output.1": grad_w}
    if api == "Torch.addmm":
        replaced = {"forward.output.0": result, "backward.output.1": grad_x, "backward.output.2": grad_w}
    for name, tensor in replaced.items():
        path = folder / "dump_tensor_data" / f"{api}.0.{name}.pt"
        torch.save((tensor.detach() * factor).float().contiguous(), path)
    return folder


def rows_of(folder: Path, precision: str) -> list[CallRow]:
    source = Source.of(find_dumps(folder)[0])
    judge = Judge(precision)
    return [row for call in source.calls() if not isinstance(call, CallRow) for row in judge.rows(call)]


@pytest.mark.parametrize("api", CALLS)
@pytest.mark.parametrize("precision", ROUNDINGS)
def test_a_product_of_rounded_operands_is_noted_unless_it_is_wrong(tmp_path: Path, api: str, precision: str) -> None:
    rows = rows_of(rounded_dump(tmp_path / "right", api, ROUNDINGS[precision]), "auto")
    assert [row.verdict for row in rows] == [Verdict.NOTED, Verdict.NOTED]
    # The operands of a gradient of the weight are near 1, where both precisions are alike.
    (output,) = rows[0].tensors
    assert output.sides[TRAINING].message.startswith("as in HF32" if precision == "hf32" else "as in float16")
    rows = rows_of(rounded_dump(tmp_path / "wrong", api, ROUNDINGS[precision], 1.01), "auto")
    assert [row.verdict for row in rows] == [Verdict.FAILED, Verdict.FAILED]


@pytest.mark.parametrize(
    ("asked", "made", "verdict"),
    [
        ("float32", "hf32", Verdict.FAILED),
        ("hf32", "hf32", Verdict.NOTED),
        ("hf32", "float16", Verdict.FAILED),
        ("float16", "float16", Verdict.NOTED),
        ("float16", "hf32", Verdict.FAILED),
    ],
)
def test_the_precision_that_is_asked_for_is_the_only_one(
    tmp_path: Path, asked: str, made: str, verdict: Verdict
) -> None:
    rows = rows_of(rounded_dump(tmp_path, "Functional.conv2d", ROUNDINGS[made]), asked)
    assert {row.verdict for row in rows} == {verdict}


def test_hf32_rounds_as_plain_arithmetic_does() -> None:
    torch.manual_seed(0)
    values = torch.randn(10000) * 10.0 ** torch.randint(-30, 30, (10000,))
    assert torch.equal(to_hf32(values), by_hf32(values))


AVERAGES = {
    "Functional.avg_pool2d": ((3, 2, 1), functional.avg_pool2d),
    "Functional.adaptive_avg_pool2d": (((5, 3),), functional.adaptive_avg_pool2d),
}


def averaged(folder: Path, api: str, factor: float) -> Path:
    """Records averages, and their gradient as a convolution of FLOAT16 has it, times a factor."""
    arguments, function = AVERAGES[api]
    torch.manual_seed(5)
    x = torch.randn(2, 3, 9, 8, requires_grad=True)
    recording = Recording(folder)
    output = recording.call(api, x, *arguments)
    given = torch.randn(output.shape)
    output.backward(given)
    recording.write()
    wide = x.detach().double().requires_grad_()
    (gradient,) = torch.autograd.grad(function(wide, *arguments), wide, by_float16(given).double())
    path = folder / "dump_tensor_data" / f"{api}.0.backward.output.0.pt"
    torch.save(by_float16((gradient * factor * (1 + 2**-12)).float()).contiguous(), path)
    return folder


@pytest.mark.parametrize("api", AVERAGES)
@pytest.mark.parametrize(
    ("precision", "factor", "verdict"),
    [
        ("auto", 1.0, Verdict.NOTED),
        ("float16", 1.0, Verdict.NOTED),
        ("auto", 1.01, Verdict.FAILED),
        ("auto", 1.0015, Verdict.FAILED),
        ("float32", 1.0, Verdict.FAILED),
        ("hf32", 1.0, Verdict.FAILED),
    ],
)
def test_gradients_of_averages_in_float16_are_noted(
    tmp_path: Path, api: str, precision: str, factor: float, verdict: Verdict
) -> None:
    rows = rows_of(averaged(tmp_path, api, factor), precision)
    assert [row.verdict for row in rows] == [Verdict.PASSED, verdict]


def test_an_attention_of_rounded_operands_is_noted(tmp_path: Path) -> None:
    torch.manual_seed(1)
    recording = Recording(tmp_path)
    q, k, v = (torch.randn(2, 3, 10, 16) for _ in range(3))
    recording.call("Functional.scaled_dot_product_attention", q, k, v)
    recording.write()
    weights = torch.softmax(by_hf32(q * 0.5).double() @ by_hf32(k * 0.5).double().transpose(-1, -2), -1)
    result = by_hf32(weights.float()).double() @ by_hf32(v).double()
    name = "Functional.scaled_dot_product_attention.0.forward.output.0.pt"
    torch.save(result.float().contiguous(), tmp_path / "dump_tensor_data" / name)
    (row,) = rows_of(tmp_path, "auto")
    assert row.verdict is Verdict.NOTED
