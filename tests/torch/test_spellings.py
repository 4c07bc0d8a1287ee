"""Spellings of activations and of scaling beside the rows of the table: modules, forms in place, and names of torch."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import aclgrad
import aclgrad.torch
from aclgrad.torch._gemm import HOOKED

from .conftest import RecordingClient
from .losses import classes
from .table import grad_output_of, random

ROWS, IMAGES = 2 * random(6, 5), random(2, 3, 5, 4)
Function = Callable[[Tensor], Tensor]
IN_PLACE: dict[str, tuple[Function, str]] = {
    "elu_": (lambda each: functional.elu_(each, 0.7), "elu_backward"),
    "elu": (lambda each: functional.elu(each, 0.7, inplace=True), "elu_backward"),
    "celu_": (lambda each: torch.celu_(each, 0.7), "elu_backward"),
    "CELU": (nn.CELU(0.7, inplace=True), "elu_backward"),
    "selu_": (torch.selu_, "elu_backward"),
    "SELU": (nn.SELU(inplace=True), "elu_backward"),
    "hardtanh_": (lambda each: functional.hardtanh_(each, -0.5, 0.7), "hardtanh_backward"),
    "Hardtanh": (nn.Hardtanh(inplace=True), "hardtanh_backward"),
    "ReLU6": (nn.ReLU6(inplace=True), "hardtanh_backward"),
    "Hardsigmoid": (nn.Hardsigmoid(inplace=True), "hardsigmoid_backward"),
    "Mish": (nn.Mish(inplace=True), "mish_backward"),
}
APART: dict[str, tuple[Function, str]] = {
    "Softplus": (nn.Softplus(2, 3), "softplus_backward"),
    "LogSigmoid": (nn.LogSigmoid(), "log_sigmoid_backward"),
    "Hardshrink": (nn.Hardshrink(0.3), "hardshrink_backward"),
    "a method": (lambda each: each.hardshrink(0.3), "hardshrink_backward"),
    "Softshrink": (nn.Softshrink(0.3), "softshrink_backward"),
    "GLU": (nn.GLU(0), "glu_backward"),
    "torch.celu": (torch.celu, "elu_backward"),
    "torch.selu": (torch.selu, "elu_backward"),
    "torch.prelu": (lambda each: torch.prelu(each, torch.full((5,), 0.1)), "prelu_backward"),
    "a method with a weight": (lambda each: each.prelu(torch.tensor(0.1)), "prelu_backward"),
}


def gradients(function: Function, input: Tensor) -> list[Tensor]:
    leaf = input.clone().requires_grad_()
    output = function(leaf)
    output.backward(grad_output_of(output))
    return [output.detach(), leaf.grad]


def compare(client: RecordingClient, function: Function, input: Tensor) -> None:
    with aclgrad.torch.remote_backward(client, strict=True):
        found = gradients(function, input)
    expected = gradients(function, input)
    torch.testing.assert_close(found[0], expected[0], rtol=0, atol=0)
    torch.testing.assert_close(found[1], expected[1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", IN_PLACE)
def test_forms_in_place_return_what_they_change(client: RecordingClient, name: str) -> None:
    function, operator = IN_PLACE[name]

    def changed(each: Tensor) -> Tensor:
        copy = each * 1
        result = function(copy)
        assert result is copy
        return result

    compare(client, changed, ROWS)
    assert client.called == [operator]


@pytest.mark.parametrize("name", APART)
def test_modules_and_names_of_torch(client: RecordingClient, name: str) -> None:
    function, operator = APART[name]
    compare(client, function, ROWS)
    assert client.called == [operator]


def test_the_weight_of_prelu_is_trained_and_has_derivatives(client: RecordingClient) -> None:
    def penalty(input: Tensor, weight: Tensor) -> list[Tensor]:
        leaves = [each.clone().requires_grad_() for each in (input, weight)]
        first = torch.autograd.grad(functional.prelu(*leaves).pow(3).sum(), leaves, create_graph=True)
        return [*first, *torch.autograd.grad(sum(each.square().sum() for each in first), leaves)]

    for weight in (random(3).abs(), random(1).abs()):
        with aclgrad.torch.remote_backward(client):
            found = penalty(IMAGES, weight)
        torch.testing.assert_close(found, penalty(IMAGES, weight), rtol=1e-4, atol=1e-4)
    assert client.called == ["prelu_backward"] * 4
    assert client.wanted == [["grad_input", "grad_weight"]] * 4


@pytest.mark.parametrize(("function", "input"), [
    (functional.glu, random(3, 5)), (functional.glu, random()), (lambda each: functional.celu(each, 0.0), ROWS),
    (lambda each: functional.hardtanh(each, 1.0, -1.0), ROWS),
    (lambda each: functional.prelu(each, torch.ones(3)), ROWS),
    (lambda each: functional.softshrink(each, -0.1), ROWS),
    (lambda each: functional.leaky_relu_(each * 1, -0.1).sum().backward(), ROWS),
    (lambda each: functional.elu(each, None), ROWS), (lambda each: torch.sigmoid(each, out=torch.empty(6, 5)), ROWS),
    (lambda each: functional.interpolate(each, (4,), mode="bilinear"), IMAGES),
    (lambda each: functional.interpolate(each, (7.0, 3), mode="bilinear"), IMAGES),
])  # fmt: skip
def test_what_pytorch_refuses_is_refused_alike(client: RecordingClient, function: Function, input: Tensor) -> None:
    with pytest.raises(Exception) as expected:  # noqa: PT011 - of any kind
        function(input.clone().requires_grad_())
    with aclgrad.torch.remote_backward(client), pytest.raises(type(expected.value)) as found:
        function(input.clone().requires_grad_())
    assert str(found.value) == str(expected.value)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("name", ["dropout", "elu", "mish", "softplus", "hardtanh", "silu"])
@pytest.mark.parametrize("layout", [torch.jagged, torch.strided], ids=str)
def test_nested_tensors_stay_local(client: RecordingClient, name: str, layout: torch.layout) -> None:
    def values(leaf: Tensor) -> Any:
        torch.manual_seed(7)
        nested = torch.nested.as_nested_tensor([leaf[:1], leaf[1:]], layout=layout)
        try:
            found = getattr(functional, name)(nested)
        except (NotImplementedError, RuntimeError) as error:
            return str(error)
        return torch.cat(found.unbind())

    with aclgrad.torch.remote_backward(client) as block:
        found = values(ROWS.clone().requires_grad_())
    expected = values(ROWS.clone().requires_grad_())
    assert type(found) is type(expected)
    assert found == expected if isinstance(found, str) else torch.equal(found, expected)
    because = {site.because for site in block.account.calls if site.function == name}
    assert because <= {"the operators take dense tensors, not nested"}


SCALED: dict[str, Function] = {
    "Upsample": nn.Upsample(scale_factor=2, mode="bilinear"),
    "UpsamplingBilinear2d": nn.UpsamplingBilinear2d(scale_factor=1.7),
    "a size of one": lambda each: functional.interpolate(each, 1, mode="bilinear", align_corners=True),
    "smaller": lambda each: functional.interpolate(each, scale_factor=(0.4, 0.5), mode="bilinear"),
    "the kernel with a size": lambda each: torch._C._nn.upsample_bilinear2d(each, (7, 3), True),  # noqa: SLF001
    "the kernel with a list": lambda each: torch._C._nn.upsample_bilinear2d(each, None, False, [2.0, 3.0]),  # noqa: SLF001
    "the kernel with none": lambda each: torch._C._nn.upsample_bilinear2d(each, (7, 3), False, None, None),  # noqa: SLF001
    "channels last": lambda each: functional.interpolate(
        each.to(memory_format=torch.channels_last), (8, 7), mode="bilinear"
    ),
}


@pytest.mark.parametrize("name", SCALED)
def test_bilinear_scaling(client: RecordingClient, name: str) -> None:
    compare(client, SCALED[name], IMAGES)
    assert client.called == ["upsample_bilinear2d_backward_v2"]


LOCAL: dict[str, Function] = {
    "another ratio": lambda each: functional.interpolate(each, scale_factor=1.3, mode="bilinear"),
    "antialias": lambda each: functional.interpolate(each, (3, 2), mode="bilinear", antialias=True),
    "a scale beside the size": lambda each: torch._C._nn.upsample_bilinear2d(each, (7, 3), False, 1.5, 0.8),  # noqa: SLF001
    "bicubic": lambda each: functional.interpolate(each, (3, 2), mode="bicubic"),
}


@pytest.mark.parametrize("name", LOCAL)
def test_scalings_that_no_operator_differentiates(client: RecordingClient, name: str) -> None:
    with aclgrad.torch.remote_backward(client) as block:
        found = gradients(LOCAL[name], IMAGES)
    torch.testing.assert_close(found, gradients(LOCAL[name], IMAGES), rtol=0, atol=0)
    assert client.called == []
    (site,) = block.account.calls
    assert (site.whose, "interpolate" in site.function or "bilinear" in site.function) == ("local", True)


LABELS, SHARES = classes((6, 5)), ROWS.sigmoid()
CHECKPOINTED: dict[str, Function] = {
    "cross_entropy": lambda each: functional.cross_entropy(each, LABELS),
    "with smoothing": lambda each: functional.cross_entropy(
        each, LABELS, torch.arange(1.0, 6), ignore_index=2, label_smoothing=0.1
    ),
    "of pixels": lambda each: functional.cross_entropy(each.T[None], LABELS[None], label_smoothing=0.1),
    "nll_loss": lambda each: functional.nll_loss(each, LABELS),
    "l1_loss": lambda each: functional.l1_loss(each, SHARES),
    "kl_div": lambda each: functional.kl_div(each, SHARES, reduction="sum"),
    "prelu": lambda each: functional.prelu(each, torch.full((5,), 0.1)),
    "glu": lambda each: functional.glu(each, 0),
}


LOCAL_THERE: dict[str, Function] = {
    "weighted mse_loss": lambda each: functional.mse_loss(each, SHARES, weight=SHARES),
    "kl_div of logarithms": lambda each: functional.kl_div(each, ROWS * 0.9, reduction="sum", log_target=True),
    "kl_div of its own": lambda each: functional.kl_div(each, each.sigmoid(), reduction="sum"),
    "kl_div of rows": lambda each: functional.kl_div(each, SHARES[0], reduction="sum"),
    "elu_": lambda each: functional.elu_(each, 0.7),
    "CELU": nn.CELU(0.7, inplace=True),
    "SELU": nn.SELU(inplace=True),
}


def checkpointed(function: Function, input: Tensor) -> Any:
    return checkpoint(lambda each: function(each * 1).square().sum(), input, use_reentrant=False)


@pytest.mark.parametrize("name", LOCAL_THERE)
def test_a_checkpoint_keeps_what_saves_other_tensors_local(client: RecordingClient, name: str) -> None:
    leaf, own = (ROWS.clone().requires_grad_() for _ in range(2))
    with aclgrad.torch.remote_backward(client) as block:
        loss = checkpointed(LOCAL_THERE[name], leaf)
    loss.backward()
    checkpointed(LOCAL_THERE[name], own).backward()
    torch.testing.assert_close(leaf.grad, own.grad, rtol=1e-4, atol=1e-5)
    assert HOOKED in {site.because for site in block.account.calls}


@pytest.mark.parametrize("name", CHECKPOINTED)
def test_a_checkpoint_is_computed_again_without_a_block(client: RecordingClient, name: str) -> None:
    leaf, own = (ROWS.clone().requires_grad_() for _ in range(2))
    with aclgrad.torch.remote_backward(client, strict=True):
        loss = checkpointed(CHECKPOINTED[name], leaf)
    loss.backward()
    checkpointed(CHECKPOINTED[name], own).backward()
    torch.testing.assert_close(leaf.grad, own.grad, rtol=1e-4, atol=1e-5)
    assert len(client.called) == 1
