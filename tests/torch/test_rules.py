"""What no operator, or not that of the product, computes stays local or is refused, in the forward pass."""

from pathlib import Path

import pytest
import torch
from torch.nn import functional

import aclgrad
import aclgrad.torch
from aclgrad.products import Product
from tools.serving import Server, write_host_config

from .conftest import RecordingClient
from .table import random


def volume(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(1, 2, 4, 6, 6, generator=torch.Generator().manual_seed(1)).to(dtype)


REFUSED = (
    (lambda each: functional.adaptive_avg_pool3d(each, 2), volume(torch.float64), "is float64 for"),
    (lambda each: functional.pad(each, (-1, 0, 0, 1, 1, 1), "replicate"), volume(), "padding"),
    (lambda each: functional.pad(each, (-1, 0, 0, 1, 1, 1), "reflect"), volume(), "padding"),
    (lambda each: functional.pad(each, (8, 0, 1, 1), "replicate"), volume(torch.bfloat16)[0], "for bfloat16 send"),
    (lambda each: functional.avg_pool2d(each, 2), volume(torch.float64)[0], "no product takes float64"),
)


@pytest.mark.parametrize(("function", "input", "because"), REFUSED)
def test_what_no_product_computes_is_told_in_the_forward_pass(
    client: RecordingClient, function: object, input: torch.Tensor, because: str
) -> None:
    local, leaf = input.clone().requires_grad_(), input.clone().requires_grad_()
    function(local).sum().backward()
    with aclgrad.torch.remote_backward(client) as remote:
        output = function(leaf)
        assert len(remote.account.calls) == 1
    assert because in next(iter(remote.account.calls)).because
    output.sum().backward()
    assert client.called == []
    torch.testing.assert_close(leaf.grad, local.grad)
    with (
        aclgrad.torch.remote_backward(client, strict=True),
        pytest.raises(aclgrad.InvalidFieldError, match=f"would stay local: .*{because}"),
    ):
        function(leaf)


def test_the_rules_are_those_of_the_servers_product(client: RecordingClient, tmp_path: Path) -> None:
    def pooled(input: torch.Tensor, size: int, client: aclgrad.Client) -> None:
        aclgrad.torch.adaptive_avg_pool3d(input, size, client=client).sum().backward()

    input = volume().requires_grad_()
    for size in (1, 2):
        pooled(input, size, client)
    config = write_host_config(tmp_path, product=Product.ATLAS_INFERENCE)
    with Server("--acl-config", config) as server, aclgrad.Client(server.address) as other:
        pooled(input, 1, other)
        with pytest.raises(aclgrad.InvalidFieldError, match="product 310P has no other kernel"):
            pooled(input, 2, other)
        with aclgrad.torch.remote_backward(other) as remote:
            functional.adaptive_avg_pool3d(input.bfloat16(), 1)
            functional.batch_norm(input, None, None, training=True).sum().backward()
    reasons = {site.function: site.because for site in remote.account.calls}
    assert "the server follows the rules of product 310P" in reasons["adaptive_avg_pool3d"]
    assert "batch_norm_backward" in reasons["batch_norm"]


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
def test_a_compiled_call_that_no_product_computes_is_refused_when_it_runs(client: RecordingClient) -> None:
    compiled = torch.compile(lambda each: functional.adaptive_avg_pool3d(each, 2), backend="aot_eager")
    with aclgrad.torch.remote_backward(client), pytest.raises(aclgrad.InvalidFieldError, match="is float64") as caught:
        compiled(volume(torch.float64).requires_grad_())
    assert caught.value.operator == "adaptive_avg_pool3d_backward"
    assert client.called == []


def test_the_rules_follow_a_server_that_comes_back_with_another_card(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The product 950 has one of the two operators for max pooling, which others do not need."""
    monkeypatch.setattr("aclgrad.bridges.served_operators.FRESH_S", 0.0)
    config = write_host_config(tmp_path, product=Product.ASCEND_950)
    images = volume()[0].requires_grad_()
    with Server() as server:
        client = RecordingClient(server.address)
        with aclgrad.torch.remote_backward(client):
            pooled = functional.max_pool2d(images, 2)
            functional.max_pool2d(images, 2).sum().backward()
    with client, Server("--acl-config", config, listen=[server.address]):
        client.wait_until_ready(20)
        pooled.sum().backward()
    assert client.called == ["max_pool2d_with_mask_backward", "max_pool2d_with_indices_backward"]
    local = images.detach().requires_grad_()
    (2 * functional.max_pool2d(local, 2)).sum().backward()
    torch.testing.assert_close(images.grad, local.grad)


def test_a_leaf_is_not_overwritten(client: RecordingClient) -> None:
    leaf = torch.ones(3, requires_grad=True)
    with aclgrad.torch.remote_backward(client), pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        functional.silu(leaf, inplace=True)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_what_softmax_leaves_local(client: RecordingClient, name: str) -> None:
    function, rows = getattr(functional, name), random(2, 3).requires_grad_()
    with aclgrad.torch.remote_backward(client) as block:
        function(rows.double(), 1).sum().backward()
        with pytest.warns(UserWarning, match="Implicit dimension"):
            function(rows).sum().backward()
    because = {site.because for site in block.account.calls if site.function == name}
    assert because == {"no product takes float64", "the operator takes an axis, and dim is None"}
    assert client.called == []


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_what_torchs_own_softmax_takes_alone_stays_local(client: RecordingClient, name: str) -> None:
    rows, out = random(2, 3), torch.zeros(2, 3)
    with aclgrad.torch.remote_backward(client):
        assert getattr(torch, name)(rows, 1, out=out) is out
        getattr(torch, name)(rows.requires_grad_(), axis=1).sum().backward()
    torch.testing.assert_close(out, getattr(torch, name)(rows, 1))
    assert client.called == []


def test_places_that_there_are_not_are_refused_as_by_pytorch(client: RecordingClient) -> None:
    rows = random(4, 5).requires_grad_()
    with aclgrad.torch.remote_backward(client):
        for function in (functional.softmax, functional.log_softmax):
            with pytest.raises(IndexError):
                function(rows, 2)
        with pytest.raises(IndexError):
            functional.embedding(torch.tensor([9]), rows)
    assert client.called == []


def test_an_axis_without_halves_is_refused(client: RecordingClient) -> None:
    with pytest.raises(aclgrad.InvalidFieldError, match="no equal halves of 3"):
        aclgrad.torch.swiglu(torch.ones(2, 3), client=client)
