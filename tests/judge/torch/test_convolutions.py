"""Convolutions that a server differentiates: each gradient has its own limit, and what is planted in one is found."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from aclgrad.judge.bundles import read
from aclgrad.judge.dumps.products import to_float16, to_hf32
from aclgrad.judge.replay.sent import limit_of
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.products import Product
from aclgrad.testing import _compute, serve
from aclgrad.tolerances import arguments_of
from aclgrad.torch import compare_backward
from aclgrad.torch.calls import SentCall
from tests.judge.torch.recording import Recording
from tests.judge.torch.running import Ran, drawn, replay
from tests.torch.conftest import RecordingClient
from tests.wrong_servers import changed, of_gradients
from tools.serving import Server

OPERATOR = "convolution_backward"
SPEC = OPERATORS[OPERATOR]
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
Change = Callable[[np.ndarray], np.ndarray]


def dump(folder: Path, dtype: torch.dtype = torch.float32) -> Path:
    """Records convolutions whose gradients have shapes of their own."""
    recording = Recording(folder)

    def add(output: tuple[int, ...], api: str, input: Any, weight: Any, *rest: Any, **options: Any) -> None:
        tensors = (drawn(*each, dtype=dtype, grad=True) for each in (input, weight))
        recording.differentiate(drawn(*output, dtype=dtype), api, *tensors, *rest, **options)

    bias = drawn(12, dtype=dtype, grad=True)
    add((4, 12, 10, 9), "Functional.conv2d", (4, 16, 10, 9), (12, 16, 3, 3), bias, padding="same")
    add((2, 6, 7), "Torch.conv1d", (2, 8, 14), (6, 4, 4), None, [2], [1], groups=2)
    add((5, 7, 8), "Functional.conv2d", (3, 9, 10), (5, 3, 3, 3))
    add((2, 4, 12, 10), "Functional.conv_transpose2d", (2, 6, 6, 5), (6, 4, 2, 2), None, 2)
    add((1, 4, 3, 4, 4), "Torch.conv3d", (1, 2, 4, 5, 6), (4, 2, 2, 2, 3), None, 1, "valid")
    return recording.write()


NAMES = {
    f"{call}{what}"
    for call in ("conv2d.0", "conv1d.0", "conv2d.1", "conv_transpose2d.0", "conv3d.0")
    for what in (" gradient of input", " gradient of weight", ".forward output")
} | {"conv2d.0 gradient of bias"}


def failed(ran: Ran) -> set[str]:
    return {name for name, verdict in ran.sides("server").items() if verdict == "failed"}


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_convolution_is_computed_and_right(server: Server, tmp_path: Path, dtype: torch.dtype) -> None:
    ran = replay(dump(tmp_path / "dump", dtype), server, tmp_path / "out")
    assert ran.exit_code == 0, ran.output
    sides = ran.sides("server")
    assert sides.keys() == NAMES
    # msprobe's own limit for bfloat16 is PyTorch's error or less.
    assert set(sides.values()) <= ({"passed", "noted"} if dtype == torch.bfloat16 else {"passed"})


def of_shape(shape: tuple[int, ...], change: Change) -> Change:
    return lambda array: change(array) if array.shape == shape else array


def scaled(array: np.ndarray) -> np.ndarray:
    return (array.astype(np.float32) * 1.01).astype(array.dtype)


def one_cell(array: np.ndarray) -> np.ndarray:
    array = array.copy()
    array.flat[np.abs(array.astype(np.float32)).argmax()] *= array.dtype.type(1.01)
    return array


PLANTED = {
    "conv2d.0 gradient of input": (4, 16, 10, 9),
    "conv2d.0 gradient of weight": (12, 16, 3, 3),
    "conv2d.0 gradient of bias": (12,),
    "conv2d.1 gradient of input": (1, 3, 9, 10),
    "conv_transpose2d.0 gradient of weight": (6, 4, 2, 2),
}
"""Gradients, and their shapes as they are sent."""


@pytest.mark.parametrize(
    ("name", "dtype", "change"),
    [
        *((name, torch.float32, change) for name in PLANTED for change in (scaled, one_cell)),
        # A factor does not stand out of a few elements with 8 bits.
        *((name, dtype, scaled) for name in PLANTED for dtype in DTYPES[1:] if "bias" not in name),
    ],
)
def test_a_planted_error_of_one_gradient_is_found(
    server: Server, tmp_path: Path, name: str, dtype: torch.dtype, change: Change
) -> None:
    with changed(server.address, of_gradients(OPERATOR, of_shape(PLANTED[name], change))) as wrong:
        ran = replay(dump(tmp_path / "dump", dtype), wrong, tmp_path / "out", "--bundle", str(tmp_path / "worst.zip"))
    assert failed(ran) == {name}
    (step,) = read(tmp_path / "worst.zip").judged.program.steps
    assert step.operator == OPERATOR


@pytest.mark.parametrize(("product", "rounding", "is_sound"), [("910B", to_hf32, False), ("310P", to_float16, True)])
def test_operands_that_are_rounded_without_being_asked_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, product: str, rounding: Any, is_sound: bool
) -> None:
    """The 310P has nothing else than float16."""
    right = _compute.define

    def define(name: str, inputs: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
        rounded = {
            key: rounding(torch.from_numpy(np.array(each))).numpy() if isinstance(each, np.ndarray) else each
            for key, each in inputs.items()
        }
        found = right(name, rounded, attributes)
        if name != OPERATOR:
            return found
        return *found[:2], right(name, inputs, attributes)[2]

    recording = Recording(tmp_path / "dump")
    tensors = (drawn(*each, grad=True) for each in ((4, 16, 10, 9), (12, 16, 3, 3), (12,)))
    recording.differentiate(drawn(4, 12, 8, 7), "Functional.conv2d", *tensors)
    monkeypatch.setattr(_compute, "define", define)
    with serve(product=product) as server:
        ran = replay(recording.write(), server.target, tmp_path / "out")
    own = {"conv2d.0.forward output", "conv2d.0 gradient of input", "conv2d.0 gradient of weight"}
    assert (failed(ran), ran.exit_code) == ((set(), 0) if is_sound else (own, 1))


@pytest.mark.parametrize("product", [Product.ATLAS_A2, Product.ATLAS_INFERENCE])
@pytest.mark.parametrize("mode", [None, 1])
def test_the_limit_is_that_of_the_gradient_and_of_the_mode(product: Product, mode: int | None) -> None:
    shapes = {"grad_output": (2, 6, 8, 8), "input": (2, 4, 8, 8), "weight": (6, 4, 3, 3)}
    inputs = {name: np.random.default_rng(0).standard_normal(shape, np.float32) for name, shape in shapes.items()}
    attributes = {"padding": (1,), "cube_math_type": mode}
    gradients = {"grad_input": inputs["input"], "grad_weight": inputs["weight"]}
    call = SentCall(OPERATOR, inputs, attributes, gradients)
    whole = SPEC.tolerance(arguments_of(SPEC, inputs, attributes), product, "float32")
    for name, of in (("input", ("grad_output", "weight")), ("weight", ("grad_output", "input"))):
        limit = limit_of([call], name, gradients[f"grad_{name}"], product)
        assert limit.tolerance == whole.of(f"grad_{name}")
        assert set(limit.rounded) == set(of)
        inputs[of[1]].flat[0] = 1e6
        is_half = product is Product.ATLAS_INFERENCE
        assert bool(limit.excess) is is_half
        inputs[of[1]].flat[0] = 0
    relative = {each: whole.of(each).relative for each in gradients}
    exact = SPEC.tolerance(arguments_of(SPEC, inputs, {"padding": (1,)}), Product.ATLAS_A2, "float32")
    assert all((relative[each] > 2**-12) is not (relative[each] == exact.of(each).relative) for each in relative)


def test_every_convolution_of_a_step_is_compared(client: RecordingClient, server: Server) -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3, stride=2, groups=8, bias=False),
        nn.ConvTranspose2d(8, 4, 2, stride=2),
    )
    images = drawn(2, 3, 9, 9)

    def step(found: compare_backward) -> compare_backward:
        with found:
            (model(images) ** 2).sum().backward()
        return found

    right = step(compare_backward(client))
    assert not right.failed, str(right)
    sites = {site.function: site.because for site in right.calls() if "conv" in site.function}
    assert sites == {"conv2d": None, "conv_transpose2d": None}
    # Of the first layer, whose input needs none, weight and bias alone.
    assert {row.case for row in right.rows if row.operator == "conv2d"} == {
        "Sequential.0 weight", "Sequential.0 bias", "Sequential.2 input", "Sequential.2 weight",
    }  # fmt: skip
    change = of_gradients(OPERATOR, of_shape((8, 1, 3, 3), one_cell))
    with changed(server.address, change) as address, RecordingClient(address) as wrong:
        found = step(compare_backward(wrong))
    assert {(row.operator, row.case) for row in found.failed} == {("conv2d", "Sequential.2 weight")}
