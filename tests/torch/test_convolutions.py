"""Convolutions beyond the table: values, layers, paddings, memory formats, and what stays local."""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import aclgrad
import aclgrad.torch
from aclgrad.products import Product
from aclgrad.torch._account import CallSite
from aclgrad.torch.calls import record_sent_calls
from tools.serving import Server, write_host_config

from .conftest import RecordingClient
from .convolutions import FULL, ONE_OF_EACH, OPERATOR, OUTPUTS, close, convolution, exact
from .table import HALVES, Call, random

IMAGES, LAST = random(2, 4, 6, 5), torch.channels_last


@pytest.mark.parametrize("call", FULL, ids=str)
def test_gradients_are_those_of_float64(client: RecordingClient, call: Call) -> None:
    function, leaves = exact(call)
    expected = torch.autograd.grad((function(*leaves) ** 3).sum(), [each for each in leaves if each is not None])
    own = call.leaves()
    with aclgrad.torch.remote_backward(client, strict=True):
        output = call.bound()(*own)
    found = torch.autograd.grad((output**3).sum(), [each for each in own if each is not None])
    close(found, expected, 1e-5)
    assert client.called == [OPERATOR]


FROZEN = {(True, False, False): ("input",), (False, True, True): ("weight",), (False, False, True): ("input", "weight")}


@pytest.mark.parametrize("needed", FROZEN)
def test_values_that_do_not_matter_are_not_sent(client: RecordingClient, needed: tuple[bool, ...]) -> None:
    call = ONE_OF_EACH[1]
    with record_sent_calls() as sent, aclgrad.torch.remote_backward(client):
        found = call.gradients(call.leaves(needed))
    expected = call.gradients(call.leaves(needed))
    for mine, theirs in zip(found[1:], expected[1:], strict=True):
        assert (mine is None) == (theirs is None)
    close([each for each in found if each is not None], [each for each in expected if each is not None])
    (only,) = sent
    assert only.operator == OPERATOR
    assert tuple(name for name, each in only.inputs.items() if not each.any()) == FROZEN[needed]
    assert [only.gradients[each].dtype for each in only.gradients] == [np.float32] * sum(needed)


@pytest.mark.parametrize("mode", ["zeros", "reflect", "replicate", "circular"])
@pytest.mark.parametrize("module", [nn.Conv1d, nn.Conv2d, nn.Conv3d])
def test_layers_pad_in_all_modes(client: RecordingClient, module: type[Any], mode: str) -> None:
    axes = int(module.__name__[-2])
    layer = module(4, 6, 3, padding=1, padding_mode=mode)
    image = random(2, 4, *(5, 4, 6)[:axes])
    with aclgrad.torch.remote_backward(client, strict=True, allow=["pad"] if mode == "circular" else []) as remote:
        layer(image.requires_grad_()).pow(3).sum().backward()
    assert len(client.called) == (1 if mode in ("zeros", "circular") else 2)
    assert f"Conv{axes}d" in {site.layer for site in remote.account.calls}
    found = [image.grad, *(each.grad for each in layer.parameters())]
    wide, leaf = layer.double(), image.detach().double().requires_grad_()
    wide.zero_grad()
    wide(leaf).pow(3).sum().backward()
    close(found, [leaf.grad, *(each.grad for each in wide.parameters())])


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")
@pytest.mark.parametrize(("size", "kernel"), [((4, 9), (4,)), ((2, 4, 6, 5), (2, 3)), ((2, 4, 5, 3, 4), (1, 2, 4))])
def test_sides_that_differ_are_padded_as_pytorch_pads_them(
    client: RecordingClient, size: tuple[int, ...], kernel: tuple[int, ...]
) -> None:
    call = convolution(f"conv{len(kernel)}d", size, (3, 4, *kernel), padding="same")
    for change in (Tensor.clone, lambda each: each.to(memory_format=torch.channels_last) if each.dim() == 4 else each):
        own, theirs = ([change(call.input).requires_grad_(), *call.leaves()[1:]] for _ in range(2))
        expected, saved = recorded(call.bound(), theirs)
        with aclgrad.torch.remote_backward(client, strict=True) as remote:
            found, mine = recorded(call.bound(), own)
        assert torch.equal(found[0], expected[0])
        assert [each.stride() for each in found[:2]] == [each.stride() for each in expected[:2]]
        assert mine == saved
        close(found, expected)
        assert remote.account.calls == {CallSite(call.function, "", None): 1}


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")
def test_gradients_of_an_image_with_sides_that_differ_may_be_viewed(client: RecordingClient) -> None:
    """As a gradient penalty does; those of an image without a batch and of elements of vmap are no views either."""

    def penalised(image: Tensor, weight: Tensor) -> list[Tensor]:
        output = functional.conv2d(image, weight, padding="same")
        (first,) = torch.autograd.grad(output.pow(3).sum(), image, create_graph=True)
        (second,) = torch.autograd.grad(first.view(-1).norm(), image, create_graph=True)
        (third,) = torch.autograd.grad(second.view(-1).norm(), image)
        return [first.detach(), second.detach(), third.view_as(image)]

    for shape in ((2, 4, 6, 5), (4, 6, 5)):
        image, weight = random(*shape).requires_grad_(), random(3, 4, 2, 4, seed=2).requires_grad_()
        with aclgrad.torch.remote_backward(client, strict=True) as remote:
            found = penalised(image, weight)
        close(found, penalised(image.double(), weight.double()))
        assert {site.because for site in remote.account.calls} == {None}
    images, weight = random(3, 2, 4, 6, 5), random(3, 4, 2, 4, seed=2)

    def value(image: Tensor) -> Tensor:
        return functional.conv2d(image, weight, padding="same").pow(2).sum()

    with aclgrad.torch.remote_backward(client):
        mapped = torch.func.vmap(torch.func.grad(value), in_dims=1)(images.movedim(0, 1))
    close([mapped.view(images.shape)], [torch.stack([torch.func.grad(value)(each) for each in images])])


def recorded(function: Callable[..., Tensor], leaves: list[Any]) -> tuple[list[Tensor], list[Any]]:
    """Returns output and gradients, and the shapes and strides of what is saved for them."""
    saved: list[Any] = []

    def pack(tensor: Tensor) -> Tensor:
        saved.append((tensor.shape, tensor.stride()))
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = function(*leaves)
    output.sum().backward()
    return [output.detach(), *(each.grad for each in leaves)], saved


def test_transposed_layers_take_the_size_of_their_result(client: RecordingClient) -> None:
    layer, leaf = nn.ConvTranspose2d(4, 3, 3, stride=2, padding=1), IMAGES.clone().requires_grad_()
    with aclgrad.torch.remote_backward(client, strict=True):
        output = layer(leaf, output_size=(12, 9))
        output.pow(3).sum().backward()
    wide, image = nn.ConvTranspose2d(4, 3, 3, stride=2, padding=1).double(), IMAGES.double().requires_grad_()
    wide.load_state_dict(layer.state_dict())
    wide(image, output_size=(12, 9)).pow(3).sum().backward()
    close([leaf.grad, layer.weight.grad], [image.grad, wide.weight.grad])
    assert output.shape[2:] == (12, 9)
    assert client.called == [OPERATOR]


def test_lazy_layers(client: RecordingClient) -> None:
    network = nn.Sequential(nn.LazyConv2d(3, 2), nn.LazyConvTranspose2d(2, 2))
    with aclgrad.torch.remote_backward(client, strict=True) as remote:
        network(IMAGES).sum().backward()
    assert {site.layer for site in remote.account.calls} == {"Sequential.0", "Sequential.1"}
    assert client.wanted == [list(OUTPUTS), list(OUTPUTS[1:])]


@pytest.mark.parametrize("function", [torch.convolution, torch._convolution])  # noqa: SLF001 - what a trace calls
@pytest.mark.parametrize("transposed", [False, True])
def test_the_function_that_all_are_made_of(client: RecordingClient, function: Any, transposed: bool) -> None:
    window = [1, 2], [1, 0], [1, 1], transposed, [0, 1 if transposed else 0], 2
    flags = (False, False, True, True) if function is not torch.convolution else ()
    leaves = [IMAGES.clone(), random(4, 2, 3, 2, seed=2), random(4, seed=3)]
    with aclgrad.torch.remote_backward(client, strict=True) as remote:
        found = recorded(lambda *each: function(*each, *window, *flags), [each.requires_grad_() for each in leaves])[0]
    wide = [each.detach().double().requires_grad_() for each in leaves]
    close(found, recorded(lambda *each: function(*each, *window, *flags), wide)[0])
    name = "conv_transpose2d" if transposed else "conv2d"
    assert remote.account.calls == {CallSite(name, "", None): 1}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("call", [each for each in FULL if each.values[1].dim() == each.input.dim() == 4], ids=str)
@pytest.mark.parametrize("last", ["input", "weight", "both"])
def test_gradients_have_the_memory_format_that_pytorch_gives_them(
    client: RecordingClient, call: Call, last: str, dtype: torch.dtype
) -> None:
    def gradients(block: Any) -> tuple[Tensor, ...]:
        leaves = [each for each in call.in_dtype(dtype).leaves() if each is not None]
        given = [
            each.contiguous(memory_format=LAST) if each.dim() == 4 and last in (name, "both") else each
            for name, each in zip(call.tensors, leaves, strict=False)
        ]
        with block:
            output = call.bound()(*given, *([] if call.values[2] is not None else [None]))
        return output.detach(), *torch.autograd.grad(output.float().pow(2).sum(), given)

    found, expected = gradients(aclgrad.torch.remote_backward(client, strict=True)), gradients(nullcontext())
    for form in (LAST, torch.contiguous_format):
        mine, theirs = ([each.is_contiguous(memory_format=form) for each in those[:3]] for those in (found, expected))
        assert mine == theirs
    close(found, expected, HALVES.get(dtype, 1e-5))


def test_the_rules_are_those_of_the_servers_product(tmp_path: Path) -> None:
    """The 310P has no bfloat16, no third axis, and no zero channels."""
    config = write_host_config(tmp_path, product=Product.ATLAS_INFERENCE)
    with Server("--acl-config", config) as server, RecordingClient(server.address) as client:
        with aclgrad.torch.remote_backward(client) as remote:
            for call in ONE_OF_EACH:
                call.gradients(call.leaves())
                call.in_dtype(torch.bfloat16).gradients(call.in_dtype(torch.bfloat16).leaves())
        reasons = {(site.function, site.because) for site in remote.account.calls if site.because is not None}
        assert len(client.called) == 4
        assert {name for name, because in reasons if "three axes" in because} == {"conv3d", "conv_transpose3d"}
        assert {name for name, because in reasons if "bfloat16" in because} == {each.function for each in ONE_OF_EACH}


WEIGHT = random(3, 4, 3, 3, seed=2)
LOCAL = {
    "float64": (lambda each: functional.conv2d(each.double(), WEIGHT.double()), "no product takes float64"),
    "complex": (lambda each: functional.conv2d(each + 0j, WEIGHT + 0j), "no product takes complex64"),
    "mkldnn": (lambda each: functional.conv2d(each.to_mkldnn(), WEIGHT).to_dense(), "dense tensors, not torch._mkldnn"),
    "tbc": (lambda each: torch.conv_tbc(each[0], random(3, 5, 2), random(2)), "there is no operator for conv_tbc"),
    "channels": (lambda each: functional.conv2d(each[:, :0], WEIGHT[:, :0]), "has 0 channels"),
}


@pytest.mark.parametrize("name", LOCAL)
def test_what_no_product_computes_stays_local(client: RecordingClient, name: str) -> None:
    function, because = LOCAL[name]
    leaf, same = IMAGES.clone().requires_grad_(), IMAGES.clone().requires_grad_()
    function(same).abs().sum().backward()
    with aclgrad.torch.remote_backward(client) as remote:
        function(leaf).abs().sum().backward()
    assert because in " ".join(site.because or "" for site in remote.account.calls)
    torch.testing.assert_close(leaf.grad, same.grad)
    assert client.called == []


@pytest.mark.parametrize(
    "function",
    [
        lambda each: functional.conv2d(each, WEIGHT.half()),
        lambda each: functional.conv2d(each, WEIGHT, random(3).double()),
        lambda each: functional.conv2d(each, WEIGHT, random(4)),
        lambda each: functional.conv2d(each, WEIGHT, stride=0),
        lambda each: functional.conv2d(each, WEIGHT, stride=[1, 2, 3]),
        lambda each: functional.conv2d(each, WEIGHT, padding="same", stride=2),
        lambda each: functional.conv2d(each, WEIGHT, padding="full"),
        lambda each: functional.conv2d(each, WEIGHT[..., :0]),
        lambda each: functional.conv2d(each, WEIGHT, dilation=9),
        lambda each: functional.conv2d(each, WEIGHT, groups=3),
        lambda each: functional.conv1d(each, WEIGHT),
        lambda each: functional.conv2d(each[0, 0], WEIGHT),
        lambda each: functional.conv_transpose2d(each, WEIGHT),
        lambda each: functional.conv_transpose2d(each, WEIGHT.mT.transpose(0, 1), output_padding=1),
        lambda each: torch.convolution(each[0], WEIGHT, None, [1], [0], [1], False, [0], 1),
    ],
)
def test_what_pytorch_refuses_is_refused_in_its_words(
    client: RecordingClient, function: Callable[[Tensor], Tensor]
) -> None:
    with pytest.raises((RuntimeError, ValueError)) as theirs:
        function(IMAGES.clone().requires_grad_())
    with aclgrad.torch.remote_backward(client), pytest.raises(type(theirs.value)) as caught:
        function(IMAGES.clone().requires_grad_())
    assert str(caught.value) == str(theirs.value)
