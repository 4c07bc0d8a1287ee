"""Convolutions in transforms: derivatives of any order, vmap and torch.compile."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import aclgrad
import aclgrad.torch
from aclgrad.torch._tensors import number_of
from aclgrad.torch.calls import record_sent_calls

from .conftest import RecordingClient
from .convolutions import FULL, ONE_OF_EACH, OPERATOR, close, exact
from .table import Call, random


@pytest.mark.parametrize("call", FULL, ids=str)
def test_derivatives_of_any_order_come_from_the_server(client: RecordingClient, call: Call) -> None:
    def third(function: Callable[..., Tensor], leaves: list[Any]) -> list[Tensor]:
        value = function(*leaves).pow(3).sum() / 100
        given, found = [each for each in leaves if each is not None], []
        for _ in range(3):
            each = torch.autograd.grad(value, given, create_graph=True, allow_unused=True, materialize_grads=True)
            found.extend(gradient.detach() for gradient in each)
            value = sum(gradient.square().sum() for gradient in each) / 100
        return found

    with aclgrad.torch.remote_backward(client, strict=True) as remote:
        found = third(call.bound(), call.leaves())
    close(found, third(*exact(call)), 1e-3)
    assert {site.function: site.whose for site in remote.account.calls} == {
        call.function: "remote", f"{call.function}_backward": "remote"
    }  # fmt: skip
    assert "100.0% of" in str(remote)
    assert set(client.called) == {OPERATOR}


@pytest.mark.parametrize("call", ONE_OF_EACH, ids=str)
@pytest.mark.parametrize(("of", "again"), [((0,), 1), ((1,), 2), ((0, 1, 2), 3)])
def test_gradients_of_gradients_go_in_one_message(
    client: RecordingClient, call: Call, of: tuple[int, ...], again: int
) -> None:
    """However many calls that is; autograd comes to the convolution itself before and after."""

    def penalised(function: Callable[..., Tensor], leaves: list[Any]) -> tuple[Tensor, ...]:
        found = torch.autograd.grad(function(*leaves).pow(2).sum(), [leaves[each] for each in of], create_graph=True)
        return torch.autograd.grad(sum(each.pow(2).sum() for each in found), leaves)

    with record_sent_calls() as sent, aclgrad.torch.remote_backward(client, strict=True):
        found = penalised(call.bound(), call.leaves())
    close(found, penalised(*exact(call)))
    assert client.called == [OPERATOR] * 3
    assert [each.operator for each in sent] == [OPERATOR] * (2 + again)


def by_element(function: Callable[..., Any], in_dims: Sequence[int | None], tensors: Sequence[Tensor]) -> list[Tensor]:
    """Returns what vmap would return of a function of three elements."""
    found = [
        function(*[each if dim is None else each.select(dim, k) for each, dim in zip(tensors, in_dims, strict=True)])
        for k in range(3)
    ]
    return [torch.stack(each) for each in zip(*found, strict=True)]


VMAPS = (
    ((0,), (0, None, None), 1),
    ((1, 2), (0, None, None), 1),
    ((0, 1, 2), (2, None, None), 1),
    ((0, 1), (0, 1, 0), 1),
    ((1,), (None, 0, None), 1),
    ((0, 2), (None, None, 0), 1),
)
"""What gradients are taken by, the mapped axes, and how many calls that makes of three elements."""


@pytest.mark.parametrize("call", ONE_OF_EACH, ids=str)
@pytest.mark.parametrize(("by", "in_dims", "calls"), VMAPS)
def test_vmap_makes_one_call(
    client: RecordingClient, call: Call, by: tuple[int, ...], in_dims: tuple[int | None, ...], calls: int
) -> None:
    wide = call.in_dtype(torch.float64)
    mapped = [
        each if dim is None else torch.stack([each, -each, each * 0.9], dim)
        for each, dim in zip(wide.values, in_dims, strict=True)
    ]
    local, remote = wide.bound(), call.bound(getattr(aclgrad.torch, call.function), client=client)
    expected = by_element(torch.func.grad(lambda *each: local(*each).pow(3).sum(), by), in_dims, mapped)
    gradient = torch.func.grad(lambda *each: remote(*each).pow(3).sum(), by)
    narrow = [each.float() for each in mapped]
    close(torch.vmap(gradient, in_dims)(*narrow), expected)
    assert len(client.called) == calls
    none = [each if dim is None else each.narrow(dim, 0, 0) for each, dim in zip(narrow, in_dims, strict=True)]
    assert [each.shape for each in torch.vmap(gradient, in_dims)(*none)] == [(0, *call.values[k].shape) for k in by]


def test_gradients_of_each_sample_and_of_an_ensemble(client: RecordingClient) -> None:
    images, weights = random(3, 5, 2, 8, 8), random(4, 6, 2, 3, 3, seed=2)

    def loss(weight: Tensor, image: Tensor, **more: Any) -> Tensor:
        function = aclgrad.torch.conv2d if more else functional.conv2d
        return function(image, weight, padding=1, **more).pow(3).sum()

    remote = partial(loss, client=client)
    of_samples = torch.vmap(torch.func.grad(remote), (None, 0))
    found = torch.vmap(of_samples, (0, None))(weights, images)
    assert client.called == [OPERATOR]
    expected = [[torch.func.grad(loss)(each, image) for image in images.double()] for each in weights.double()]
    close([found], [torch.stack([torch.stack(each) for each in expected])])
    found, expected = (
        torch.func.jacrev(torch.func.grad(each, (0, 1)), (0, 1))(weights[0, :1].to(dtype), images[0, :1].to(dtype))
        for each, dtype in ((remote, torch.float32), (loss, torch.float64))
    )
    close(list(chain(*found)), list(chain(*expected)))


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
def test_a_compiled_network_with_its_channels_last(client: RecordingClient) -> None:
    network = nn.Sequential(nn.Conv2d(4, 6, (3, 2), padding="same"), nn.ReLU(), nn.ConvTranspose2d(6, 3, 2, stride=2))
    network = network.to(memory_format=torch.channels_last)
    images = random(2, 4, 6, 5).to(memory_format=torch.channels_last)
    network(images).pow(2).sum().backward()
    expected = [each.grad for each in network.parameters()]
    network.zero_grad()
    compiled = torch.compile(network, backend="aot_eager", fullgraph=True)
    with aclgrad.torch.remote_backward(client, strict=True) as remote:
        compiled(images).pow(2).sum().backward()
    close([each.grad for each in network.parameters()], expected, 1e-5)
    assert client.called == [OPERATOR, "threshold_backward", OPERATOR]
    assert {site.because for site in remote.account.calls} == {None}


@pytest.mark.parametrize("call", ONE_OF_EACH, ids=str)
def test_the_fake_kernel_has_the_types_of_the_gradients(client: RecordingClient, call: Call) -> None:
    input, weight, _ = call.values
    output, transposed = call.bound()(*call.values), "transpose" in call.function
    lists = [list(call.options[name]) for name in ("stride", "padding", "dilation")]
    attributes = [None, *lists, transposed, list(call.options.get("output_padding", [0])), call.options["groups"], None]
    form = {4: torch.channels_last, 5: torch.channels_last_3d}.get(input.dim(), torch.contiguous_format)
    for wanted in ([True, True, True], [True, False, True], [False, True, False]):
        values = [output, input.contiguous(memory_format=form), weight, *attributes, wanted, number_of(client)]
        tests = ("test_schema", "test_faketensor")
        torch.library.opcheck(torch.ops.aclgrad.convolution_backward, tuple(values), test_utils=tests)


@pytest.mark.parametrize("call", ONE_OF_EACH, ids=str)
def test_gradients_of_meta_tensors_are_meta_tensors(client: RecordingClient, call: Call) -> None:
    leaves = [each.to("meta").requires_grad_() for each in call.values]
    with aclgrad.torch.remote_backward(client, strict=True):
        found = torch.autograd.grad(call.bound()(*leaves).pow(2).sum(), leaves, create_graph=True)
        again = torch.autograd.grad(sum(each.pow(2).sum() for each in found), leaves)
    assert [(each.shape, each.is_meta) for each in (*found, *again)] == [(each.shape, True) for each in leaves] * 2
    assert client.called == []
