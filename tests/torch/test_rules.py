"""What a product does not compute stays local, or is refused, in the forward pass."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch.nn import functional

import aclgrad
import aclgrad.torch
from aclgrad.products import Product
from tools.serving import Server, write_host_config

from .conftest import RecordingClient


def volume(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(1, 2, 4, 6, 6, generator=torch.Generator().manual_seed(1)).to(dtype)


@pytest.fixture(scope="module")
def client_of_310p(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RecordingClient]:
    config = write_host_config(tmp_path_factory.mktemp("host"), product=Product.ATLAS_INFERENCE)
    with Server("--acl-config", config) as server, RecordingClient(server.address) as client:
        yield client


REFUSED = (
    (lambda each: functional.adaptive_avg_pool3d(each, 2), volume(torch.float64), "is float64 for"),
    (lambda each: functional.pad(each, (-1, 0, 0, 1, 1, 1), "replicate"), volume(), "padding"),
    (lambda each: functional.pad(each, (-1, 0, 0, 1, 1, 1), "reflect"), volume(), "padding"),
    (lambda each: functional.pad(each, (8, 0, 1, 1), "replicate"), volume(torch.bfloat16)[0], "for bfloat16 send"),
    (lambda each: functional.interpolate(each, scale_factor=1.5), volume()[0, :, :, 1:], "uses the scale"),
    (lambda each: functional.max_pool2d(each, 2, dilation=2), volume()[0], "no dilation"),
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


def test_the_rules_are_those_of_the_servers_product(client: RecordingClient, client_of_310p: RecordingClient) -> None:
    def pooled(input: torch.Tensor, size: int, client: aclgrad.Client) -> None:
        aclgrad.torch.adaptive_avg_pool3d(input, size, client=client).sum().backward()

    input = volume().requires_grad_()
    for size in (1, 2):
        pooled(input, size, client)
    pooled(input, 1, client_of_310p)
    with pytest.raises(aclgrad.InvalidFieldError, match="product 310P has no other kernel"):
        pooled(input, 2, client_of_310p)
    with aclgrad.torch.remote_backward(client_of_310p) as remote:
        functional.adaptive_avg_pool3d(input.bfloat16(), 1)
        functional.batch_norm(input, None, None, training=True).sum().backward()
    reasons = {place.function: place.because for place in remote.account.calls}
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
    monkeypatch.setattr("aclgrad._client.served.FRESH_S", 0.0)
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
