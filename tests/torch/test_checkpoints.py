"""Gradient checkpointing: both forms take gradients from the server; test_table.py has what each function saves."""

from collections import Counter
from copy import deepcopy
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop

import aclgrad
import aclgrad.torch
from aclgrad.torch import _missed_calls

from .conftest import RecordingClient

INPUT = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(1))


def model() -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.ReflectionPad2d(1), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1),
        nn.Upsample(scale_factor=2), nn.AvgPool2d(2),
    )  # fmt: skip


@pytest.mark.parametrize("is_reentrant", [True, False], ids=["reentrant", "hooks"])
@pytest.mark.parametrize("is_within", [True, False], ids=["backward_within", "backward_after"])
@pytest.mark.parametrize("is_nested", [True, False], ids=["nested", "single"])
def test_a_checkpoint_takes_its_gradients_from_the_server(
    client: RecordingClient, *, is_reentrant: bool, is_within: bool, is_nested: bool
) -> None:
    def run(network: nn.Module, input: Tensor) -> Tensor:
        if is_nested:
            inner = partial(checkpoint, network, use_reentrant=is_reentrant)
            return checkpoint(inner, input, use_reentrant=is_reentrant)
        return checkpoint(network, input, use_reentrant=is_reentrant)

    network, expected = model(), model()
    input, same = INPUT.clone().requires_grad_(), INPUT.clone().requires_grad_()
    expected(same).square().sum().backward()
    with aclgrad.torch.remote_backward(client, strict=True) as remote:
        loss = run(network, input).square().sum()
        if is_within:
            loss.backward()
    if not is_within:
        loss.backward()
    assert len(client.called) == len(network)
    if is_within or not is_reentrant:
        assert Counter(site.whose for site in remote.account.calls.elements()) == {"remote": len(network)}
    torch.testing.assert_close(input.grad, same.grad)
    for found, each in zip(network.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(found.grad, each.grad)


def test_a_reentrant_checkpoint_is_computed_again_within_all_blocks(client: RecordingClient) -> None:
    network = nn.Sequential(nn.MaxPool2d(2), nn.MaxPool2d(2, dilation=2))
    with aclgrad.torch.remote_backward(client) as outer, aclgrad.torch.remote_backward(client) as inner:
        loss = checkpoint(network, INPUT.clone().requires_grad_(), use_reentrant=True).sum()
    loss.backward()
    assert {site.whose for site in inner.account.calls} == {"remote", "local"}
    assert not outer.account.calls
    assert client.called == ["max_pool2d_with_mask_backward"]


COMPILED = {
    # Without the block it saves tensors of other shapes, or (the second) others of the same shapes.
    "other_shapes": lambda: nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU()),
    "alike": lambda: nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.SiLU(), nn.SiLU(), nn.AvgPool2d(2)),
}


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize("is_within", [True, False], ids=["backward_within", "backward_after"])
@pytest.mark.parametrize("is_nested", [True, False], ids=["nested", "single"])
@pytest.mark.parametrize("name", COMPILED)
def test_a_compiled_checkpoint_is_computed_again_within_a_block(
    client: RecordingClient, name: str, *, is_within: bool, is_nested: bool
) -> None:
    torch.manual_seed(3)
    network = COMPILED[name]()
    wide = deepcopy(network).double()
    input, same = INPUT.clone().requires_grad_(), INPUT.double().requires_grad_()
    wide(same).square().sum().backward()
    compiled = torch.compile(network, fullgraph=True, backend="aot_eager")
    inner = partial(checkpoint, compiled, use_reentrant=False) if is_nested else compiled
    with aclgrad.torch.remote_backward(client, strict=True) as remote:
        loss = checkpoint(inner, input, use_reentrant=False).square().sum()
        if is_within:
            loss.backward()
    if not is_within:
        loss.backward()
    assert len(client.called) == len(network)
    assert Counter(site.whose for site in remote.account.calls.elements()) == {"remote": len(network)}
    for found, each in zip((input, *network.parameters()), (same, *wide.parameters()), strict=True):
        torch.testing.assert_close(found.grad, each.grad.float())


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
def test_what_a_compiled_checkpoint_keeps_local_is_told_once(
    client: RecordingClient, caplog: pytest.LogCaptureFixture
) -> None:
    network = nn.Sequential(nn.MaxPool2d(2), nn.MaxPool2d(2, dilation=2))
    compiled = torch.compile(network, backend="aot_eager")
    with caplog.at_level("INFO", "aclgrad.torch"), aclgrad.torch.remote_backward(client) as remote:
        with set_checkpoint_early_stop(False):  # computed again to the end
            loss = checkpoint(compiled, INPUT.clone().requires_grad_(), use_reentrant=False).sum()
        loss.backward()
    assert Counter(site.whose for site in remote.account.calls.elements()) == {"remote": 1, "local": 1}
    assert len(caplog.records) == 1


class KeptElsewhere(torch.autograd.Function):
    """Runs its function without a gradient, as a reentrant checkpoint, and keeps it under another name."""

    @staticmethod
    def forward(ctx: Any, function: nn.Module, input: Tensor) -> Tensor:
        ctx.function = function
        return function(input)


def test_a_checkpoint_that_keeps_its_function_elsewhere_is_told_as_local(
    client: RecordingClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a release of PyTorch might that changes its reentrant checkpoint."""
    monkeypatch.setattr(_missed_calls, "_REENTRANT", KeptElsewhere.forward.__code__)
    input = INPUT.clone().requires_grad_()
    with aclgrad.torch.remote_backward(client) as remote:
        output = KeptElsewhere.apply(nn.MaxPool2d(2), input)
    assert [site.because for site in remote.account.calls] == [
        "a reentrant checkpoint records no gradient here; give it use_reentrant=False"
    ]
    torch.testing.assert_close(output, nn.MaxPool2d(2)(INPUT))
    with (
        aclgrad.torch.remote_backward(client, strict=True),
        pytest.raises(aclgrad.InvalidFieldError, match=r"max_pool2d .*would stay local: .*use_reentrant=False"),
    ):
        KeptElsewhere.apply(nn.MaxPool2d(2), input)
    assert client.called == []
