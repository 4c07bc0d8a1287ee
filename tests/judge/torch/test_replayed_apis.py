"""Every function of a dump that a server differentiates is replayed, in each of its spellings."""

from pathlib import Path
from typing import Any, Final

import pytest
import torch
from torch.nn import functional

import aclgrad.torch
from aclgrad.bridges.products import COMPOSITES
from aclgrad.judge.replay import command
from aclgrad.judge.replay.calls import PyTorchCall, ServerGradients
from aclgrad.judge.replay.jobs import served_apis
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.spec import OperatorKind
from tests.judge.torch.recording import Recording
from tests.judge.torch.running import drawn, replay
from tests.torch.conftest import RecordingClient
from tools.serving import Server

Call = tuple[list[Any], torch.Tensor, dict[str, Any]]


def is_in_place(name: str) -> bool:
    return name.endswith("_") and not name.endswith("__")


def call(output: tuple[int, ...], *args: Any, **options: Any) -> Call:
    return list(args), drawn(*output), options


def rows() -> torch.Tensor:
    return drawn(3, 8, grad=True)


def heads(queries: int = 5) -> torch.Tensor:
    return drawn(2, 3, queries, 4, grad=True)


def planes() -> torch.Tensor:
    return drawn(2, 4, 6, 6, grad=True)


def parameter(size: int = 8) -> torch.Tensor:
    return drawn(size, grad=True)


def elementwise(*args: Any, **options: Any) -> Call:
    return call((3, 8), rows(), *args, **options)


SOFTMAX: Final = {
    f"{prefix}.{name}": elementwise(-1)
    for prefix in ("Functional", "Torch", "Tensor")
    for name in ("softmax", "log_softmax")
}
OF_EACH_ELEMENT: Final = {
    f"{prefix}.{name}{underscore}": elementwise()
    for name in ("relu", "sigmoid", "tanh")
    for prefix in ("Functional", "Torch", "Tensor")
    for underscore in ("", "_")
    if (prefix, underscore) != ("Functional", "_") or name == "relu"
}


KEPT: Final = {
    "celu": (0.7,),
    "elu": (0.7,),
    "hardtanh": (-0.5, 0.7),
    "selu": (),
    "hardshrink": (0.3,),
    "hardsigmoid": (),
    "logsigmoid": (),
    "mish": (),
    "relu6": (),
    "softplus": (2.0, 1.0),
    "softshrink": (0.3,),
}
"""Activations by the arguments behind the input."""
LIMITED: Final = {
    **{f"Functional.{name}": elementwise(*args) for name, args in KEPT.items()},
    **{f"Functional.{name}_": elementwise(*KEPT[name]) for name in ("celu", "elu", "hardtanh", "selu")},
    **{f"Torch.{name}{each}": elementwise(*KEPT[name]) for name in ("celu", "selu") for each in ("", "_")},
    **dict.fromkeys(("Torch.hardshrink", "Tensor.hardshrink"), elementwise(0.3)),
    **{f"{prefix}.prelu": elementwise(parameter()) for prefix in ("Functional", "Torch", "Tensor")},
    **{f"NPU.npu_{name}": elementwise() for name in ("mish", "silu")},
    "Functional.glu": call((3, 4), rows(), dim=-1),
}


def share(*shape: int) -> torch.Tensor:
    return drawn(*shape).sigmoid()


CLASSES: Final = torch.tensor([1, 7, 0])
WORDS: Final = [drawn(9, 2, 5).log_softmax(-1).requires_grad_(), torch.tensor([[1, 2, 2], [3, 4, 0]]), [9, 8], [3, 2]]
LOSSES: Final = {
    **{
        f"Functional.{name}": call((), rows(), drawn(3, 8), None, None, "sum")
        for name in ("l1_loss", "mse_loss", "smooth_l1_loss")
    },
    "Functional.binary_cross_entropy": call((), share(3, 8).requires_grad_(), share(3, 8), share(8)),
    "Functional.binary_cross_entropy_with_logits": call(
        (3, 8), rows(), share(3, 8), share(8), reduction="none", pos_weight=share(8)
    ),
    "Functional.cross_entropy": call((), rows(), CLASSES, share(8), None, -100, None, "mean", 0.1),
    "Functional.nll_loss": call((), rows(), CLASSES, share(8), ignore_index=0),
    "Functional.kl_div": call((), rows(), share(3, 8), reduction="batchmean"),
    "Torch.kl_div": call((3, 8), rows(), drawn(3, 8), 0, log_target=True),
    "Functional.ctc_loss": call((2,), *WORDS, reduction="none"),
    "Torch.ctc_loss": call((), *WORDS, 0, 1, True),
    "NPU.npu_cross_entropy_loss": call((3,), rows(), CLASSES, reduction="none"),
}
DROPOUTS: Final = {
    "Functional.dropout": elementwise(0.3, True),
    "NPU._npu_dropout": elementwise(0.3),
    **{f"Torch.{name}": elementwise(0.3, True) for name in ("dropout", "dropout_", "native_dropout")},
}


def matrices(*shapes: tuple[int, ...]) -> list[torch.Tensor]:
    return [drawn(*each, grad=True) for each in shapes]


ADDED: Final = {
    f"{name}{underscore}": call((*batch, 3, 5), *matrices((*batch, 3, 5), *operands), beta=0.5, alpha=2.0)
    for name, batch, operands in (
        ("addmm", (), ((3, 4), (4, 5))),
        ("baddbmm", (2,), ((2, 3, 4), (2, 4, 5))),
        ("addbmm", (), ((2, 3, 4), (2, 4, 5))),
    )
    for underscore in ("", "_")
}
PRODUCTS: Final = {
    "matmul": call((2, 3, 5), *matrices((2, 3, 4), (4, 5))),
    "mm": call((3, 5), *matrices((3, 4), (4, 5))),
    "bmm": call((2, 3, 5), *matrices((2, 3, 4), (2, 4, 5))),
    "mv": call((3,), *matrices((3, 4), (4,))),
    "dot": call((), *matrices((4,), (4,))),
    "vdot": call((), *matrices((4,), (4,))),
    "inner": call((3, 2), *matrices((3, 4), (2, 4))),
    "outer": call((3, 4), *matrices((3,), (4,))),
    "ger": call((3, 4), *matrices((3,), (4,))),
}
OF_PRODUCTS: Final = {
    **{f"{prefix}.{name}": each for name, each in PRODUCTS.items() for prefix in ("Torch", "Tensor")},
    **{f"Tensor.{name}": each for name, each in ADDED.items()},
    **{f"Torch.{name}": each for name, each in ADDED.items() if not name.endswith("_")},
    **dict.fromkeys(("Torch.spmm", "Torch.dsmm"), PRODUCTS["mm"]),
    **dict.fromkeys(("Tensor.__matmul__", "Tensor.__rmatmul__"), call((4, 4), *matrices((4, 4), (4, 4)))),
    **dict.fromkeys(("Functional.linear", "NPU.npu_linear"), call((2, 3, 5), *matrices((2, 3, 4), (5, 4), (5,)))),
    **dict.fromkeys(
        ("Functional.bilinear", "Torch.bilinear"), call((2, 5), *matrices((2, 3), (2, 4), (5, 3, 4), (5,)))
    ),
    "Torch.einsum": call((2, 5), "bi,bj,kij->bk", *matrices((2, 3), (2, 4), (5, 3, 4))),
    "Torch.tensordot": call((2, 5), *matrices((2, 3, 4), (3, 4, 5)), dims=2),
}


def convolved(axes: int, *args: Any, transposed: bool = False) -> Call:
    """Returns a call with two groups, steps of 2 and a padding of 1."""
    sizes, kernel = (6, 5, 4)[:axes], (3, 2, 3)[:axes]
    input, weight = drawn(2, 4, *sizes, grad=True), drawn(4, 2, *kernel, grad=True)
    output = torch.convolution(input, weight, None, [2] * axes, [1] * axes, [1] * axes, transposed, [0] * axes, 2)
    return [input, weight, drawn(4, grad=True), *args], drawn(*output.shape), {}


CONVOLUTIONS: Final = {
    **{
        f"{prefix}.conv{axes}d": convolved(axes, 2, 1, 1, 2) for prefix in ("Functional", "Torch") for axes in (1, 2, 3)
    },
    **{
        f"{prefix}.conv_transpose{axes}d": convolved(axes, 2, 1, 0, 2, transposed=True)
        for prefix in ("Functional", "Torch")
        for axes in (1, 2, 3)
    },
    **{
        name: convolved(axes, [2] * axes, 1, [1] * axes, 2)
        for name, axes in (("NPU.npu_conv2d", 2), ("NPU.npu_conv3d", 3), ("NPU.npu_convolution", 1))
    },
    **{
        f"NPU.{name}": convolved(2, [1, 1], [0, 0], [2, 2], [1, 1], 2, transposed=True)
        for name in ("npu_conv_transpose2d", "npu_convolution_transpose")
    },
    "Torch.convolution": convolved(2, [2, 2], [1, 1], [1, 1], True, [0, 0], 2, transposed=True),
    "Torch._convolution": convolved(2, [2, 2], [1, 1], [1, 1], False, [0, 0], 2, False, False, True, True),
}
GRID: Final = torch.rand(2, 5, 3, 2, generator=torch.Generator().manual_seed(2)) * 2 - 1
INDICES: Final = torch.tensor([[1, 0, 4], [2, 2, 3]])
PLACES: Final = torch.tensor([[[[0, 3], [8, 11]]]])
CALLS: Final[dict[str, Call]] = {
    **OF_PRODUCTS,
    **CONVOLUTIONS,
    **SOFTMAX,
    **OF_EACH_ELEMENT,
    **LIMITED,
    **LOSSES,
    **DROPOUTS,
    "Functional.gelu": elementwise(approximate="tanh"),
    "Functional.hardswish": elementwise(True),
    "Functional.leaky_relu": elementwise(0.2, inplace=True),
    "Functional.leaky_relu_": elementwise(0.2),
    "Functional.silu": elementwise(inplace=True),
    **{
        f"{prefix}.threshold{underscore}": elementwise(0.1, 0.0)
        for prefix in ("Functional", "Torch")
        for underscore in ("", "_")
    },
    "NPU.npu_swiglu": call((3, 4), rows(), dim=-1),
    "Functional.layer_norm": call((3, 8), rows(), [8], parameter(), parameter(), 1e-5),
    "Torch.layer_norm": call((3, 8), rows(), [8], parameter(), parameter(), 1e-5, True),
    "NPU.npu_rms_norm": call((3, 8), rows(), parameter(), epsilon=1e-5),
    **{f"{prefix}.rms_norm": call((3, 8), rows(), [8], parameter(), 1e-5) for prefix in ("Functional", "Torch")},
    "Functional.group_norm": call((2, 4, 6, 6), planes(), 2, parameter(4), parameter(4), 1e-5),
    "Torch.group_norm": call((2, 4, 6, 6), planes(), 2, parameter(4), parameter(4), 1e-5, False),
    "Functional.batch_norm": call((2, 4, 6, 6), planes(), None, None, parameter(4), parameter(4), True, 0.1, 1e-5),
    "Torch.batch_norm": call((2, 4, 6, 6), planes(), parameter(4), parameter(4), None, None, True, 0.1, 1e-5, False),
    "Functional.embedding": call((2, 3, 8), INDICES, drawn(5, 8, grad=True), 2, None, 2.0, False, False),
    "Torch.embedding": call((2, 3, 8), drawn(5, 8, grad=True), INDICES, -1, True),
    "Functional.scaled_dot_product_attention": call((2, 3, 5, 4), heads(), heads(7), heads(7), is_causal=True),
    "NPU.npu_fusion_attention": call((2, 3, 5, 4), heads(), heads(7), heads(7), 3, "BNSD", scale=0.3),
    "NPU.npu_rotary_mul": call((2, 3, 5, 4), heads(), *(drawn(1, 1, 5, 4, grad=True) for _ in range(2))),
    "Functional.grid_sample": call((2, 4, 5, 3), planes(), GRID.clone().requires_grad_(), "nearest", "border", False),
    "Torch.grid_sampler": call((2, 4, 5, 3), planes(), GRID.clone().requires_grad_(), 0, 2, True),
    "Functional.adaptive_avg_pool2d": call((2, 4, 3, 2), planes(), [3, 2]),
    "Functional.adaptive_avg_pool3d": call((1, 2, 2, 3, 3), drawn(1, 2, 4, 6, 6, grad=True), [2, 3, 3]),
    "Functional.avg_pool2d": call((2, 4, 3, 3), planes(), 2),
    "Functional.max_pool2d": call((2, 4, 3, 3), planes(), 2, 2, 0, 1, False),
    "Functional.max_pool2d_with_indices": call((2, 4, 3, 3), planes(), 2),
    "Torch.max_pool2d": call((2, 4, 3, 3), planes(), 2),
    "Functional.max_unpool2d": call((1, 1, 4, 4), drawn(1, 1, 2, 2, grad=True), PLACES, 2),
    "Functional.max_unpool3d": call(
        (1, 1, 4, 4, 4), drawn(1, 1, 2, 2, 2, grad=True), PLACES.expand(1, 2, 2, 2)[None], 2
    ),
    **{
        f"Functional.{name}": call((2, 4, 12, 12), planes(), scale_factor=2)
        for name in ("interpolate", "upsample", "upsample_nearest")
    },
    "Functional.upsample_bilinear": call((2, 4, 12, 12), planes(), scale_factor=2),
    "torchvision.ops.roi_align": call(
        (1, 4, 2, 2), planes(), torch.tensor([[0, 0, 0, 5.0, 5.0]]), [2, 2], 1.0, 2, True
    ),
}
PADS: Final = {
    f"Functional.pad.{number}": call(
        tuple(3 + axis + 2 * (axis >= 2) for axis in range(2 + axes)),
        drawn(*(3 + axis for axis in range(2 + axes)), grad=True), [1] * (2 * axes), mode,
    )
    for number, (mode, axes) in enumerate((mode, axes) for mode in ("replicate", "reflect") for axes in (1, 2, 3))
}  # fmt: skip
POINTS: Final = torch.rand(1, 2, 3, 2, 3, generator=torch.Generator().manual_seed(3)) * 2 - 1
VOLUMES: Final = {
    "Functional.grid_sample.1": call(
        (1, 2, 2, 3, 2), drawn(1, 2, 3, 4, 5, grad=True), POINTS.clone().requires_grad_(), "bilinear", "zeros", False
    ),
}
PIXELS: Final = {
    "Functional.nll_loss.1": call((), drawn(2, 4, 3, 2, grad=True), torch.tensor([[[1, 3], [0, 2], [1, 1]]] * 2)),
    "Functional.interpolate.1": call((2, 4, 7, 9), planes(), (7, 9), mode="bilinear"),
}
BIASED: Final = {
    "Functional.scaled_dot_product_attention.1": call((2, 3, 5, 4), heads(), heads(7), heads(7), drawn(5, 7)),
}
ALONE: Final = {"Torch.native_dropout"}
"""Functions that a block leaves to PyTorch."""
OF_TWO: Final = {"Functional.bilinear", "Torch.bilinear"}
"""Functions that are two products."""
ELSEWHERE: Final = {"cross_entropy_loss_grad", "gelu_backward", "max_pool2d_with_indices_backward"}
"""The gradients of functions for which the bridge takes another operator of this product."""


def test_every_operator_and_every_spelling_is_replayed(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A function that a block reroutes and an operator that no call has fail here."""
    # PyTorch's own name of what is functional.threshold, and a function that stays local by name.
    others = {"Functional._threshold", "Torch.chain_matmul"}
    assert CALLS.keys() | {"Functional.pad"} == served_apis().keys() - others
    dump = Recording(tmp_path / "dump")
    named = {**{f"{api}.0": each for api, each in CALLS.items()}, **PADS, **VOLUMES, **PIXELS, **BIASED}
    for name, (args, grad_output, options) in named.items():
        api = name.rpartition(".")[0]
        function = None if name in PADS else served_apis()[api].function
        dump.differentiate(grad_output, api, *args, function=function, **options)
    called: list[str] = []

    class Noting(RecordingClient):
        def __init__(self, target: str, **options: Any) -> None:
            super().__init__(target, **options)
            self.called = called

    monkeypatch.setattr(command, "Client", Noting)
    found = replay(dump.write(), server, tmp_path / "out")
    assert found.exit_code == 0, found.output
    told = {row["name"]: row for row in found.rows}
    assert {name: row["message"] for name, row in told.items() if row["verdict"] not in ("passed", "noted")} == {}
    unserved = {name: row["unserved"] for name, row in told.items() if row["unserved"]}
    assert {name for name in unserved if name.endswith(".backward")} == set()
    assert all(each.startswith("no operator computes this function: aten::") for each in unserved.values())
    assert told.keys() == {f"{name}.{each}" for name in named for each in ("forward", "backward")}
    assert found.summary["served"] == {"forward": len(named) - len(unserved), "backward": len(named)}
    assert found.summary["on_the_server_alone"] == 0
    gradients = {name for name, spec in OPERATORS.items() if spec.kind is OperatorKind.GRADIENT}
    composites = {*COMPOSITES, "cross_entropy_backward", "dropout_do_mask"}
    assert set(called) & (gradients | composites) == gradients - ELSEWHERE | composites


@pytest.mark.parametrize("name", [name for name in CALLS if is_in_place(name) and name not in DROPOUTS])
def test_a_function_in_place_has_the_gradient_of_what_its_argument_was(client: RecordingClient, name: str) -> None:
    """It is what msprobe's files have. acc_check itself takes that of the result."""
    api = served_apis()[name]
    (input, *args), grad_output, options = CALLS[name]
    before = input.detach().clone()
    recorded = PyTorchCall(api.function, api.remote, (input, *args), options, grad_output)
    own = name.removesuffix("_").split(".")[1]
    out_of_place = getattr(functional, own, None) or getattr(torch, own)
    (expected,) = torch.autograd.grad(out_of_place(input, *args, **options), input, grad_output)
    # PyTorch takes the gradient of ELU's result.
    tolerance = 1e-6 if "elu_" in name and "relu" not in name else 0
    torch.testing.assert_close(recorded.gradients()["0"], expected, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(
        ServerGradients.of(recorded, client).gradients["0"], expected.numpy(), rtol=1e-5, atol=1e-6
    )
    assert torch.equal(input, before)


@pytest.mark.parametrize(
    "name", [name for name in CALLS if name.startswith(("Functional.", "Torch.", "Tensor.")) and name not in ALONE]
)
def test_every_spelling_is_rerouted_in_a_block(client: RecordingClient, name: str) -> None:
    args, grad_output, options = CALLS[name]
    leaves = [each for each in args if isinstance(each, torch.Tensor) and each.requires_grad]
    is_changed = is_in_place(name) or options.get("inplace")

    def gradients() -> tuple[torch.Tensor, ...]:
        torch.manual_seed(0)
        # A call in place takes no leaf.
        own = [each.clone() if isinstance(each, torch.Tensor) else each for each in args]
        result = served_apis()[name].function(*own, **options)
        assert not is_changed or result is own[0]
        first = result[0] if isinstance(result, tuple) else result
        return (first.detach(), *torch.autograd.grad(first, leaves, grad_output))

    with aclgrad.torch.remote_backward(client, strict=True):
        found = gradients()
    torch.testing.assert_close(found, gradients(), rtol=1e-4, atol=1e-5)
    assert len(client.called) == (2 if name in OF_TWO else 1)
