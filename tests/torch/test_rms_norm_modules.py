"""RMSNorm modules that a model has written itself: their own outputs, with gradients of one operator."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import aclgrad
import aclgrad.torch
from aclgrad.torch import _missed_calls

from .conftest import RecordingClient
from .rms_norms import (
    ALONE,
    SERVED,
    DetachedRMSNorm,
    FrozenRMSNorm,
    GatedRMSNorm,
    LimitedRMSNorm,
    LlamaRMSNorm,
    OwnRMSNorm,
)
from .table import HALVES, grad_output_of, random

WIDTH = 24


def module_of(kind: type[nn.Module], **options: Any) -> Any:
    module = kind(WIDTH)
    with torch.no_grad():
        module.weight.add_(random(WIDTH, seed=3) * 0.1)
    return module.to(**options)


def step(module: nn.Module, dtype: torch.dtype = torch.float32, run: Callable[..., Tensor] | None = None) -> Any:
    module.zero_grad()
    input = random(2, 5, WIDTH).to(dtype).requires_grad_()
    output = (module if run is None else run)(input)
    output.backward(grad_output_of(output))
    return output.detach(), input.grad, *(each.grad for each in module.parameters())


def close(found: Any, expected: Any, dtype: torch.dtype = torch.float32) -> None:
    torch.testing.assert_close(found[0], expected[0], rtol=0, atol=0)
    error = HALVES.get(dtype, 1e-5)
    for one, other in zip(found[1:], expected[1:], strict=True):
        torch.testing.assert_close(one, other, rtol=error, atol=error * 10)


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES])
@pytest.mark.parametrize("kind", SERVED)
def test_one_operator_has_its_gradients(client: RecordingClient, kind: type[nn.Module], dtype: torch.dtype) -> None:
    module = module_of(kind, dtype=dtype)
    expected = step(module, dtype)
    for _ in range(2):
        client.called.clear()
        with aclgrad.torch.remote_backward(client, strict=True) as remote:
            found = step(module, dtype)
        close(found, expected, dtype)
        assert client.called == ["rms_norm_grad"]
        ((site, count),) = remote.account.calls.items()
        assert (site.function, site.layer, site.whose, count) == ("rms_norm", kind.__name__, "remote", 1)
    assert "forward" not in vars(module)
    assert kind.forward.__name__ == "forward"
    assert not hasattr(kind.forward, "__wrapped__")


def test_a_wide_weight_has_a_wide_output(client: RecordingClient) -> None:
    module = module_of(LlamaRMSNorm)
    expected = step(module, torch.bfloat16)
    with aclgrad.torch.remote_backward(client, strict=True):
        found = step(module, torch.bfloat16)
    assert client.called == ["rms_norm_grad"]
    assert (found[0].dtype, found[1].dtype, found[2].dtype) == (torch.float32, torch.bfloat16, torch.float32)
    close(found, expected, torch.bfloat16)


@pytest.mark.parametrize("kind", ALONE)
def test_another_function_stays_as_it_is(client: RecordingClient, kind: type[nn.Module]) -> None:
    module = kind(WIDTH)
    expected = step(module)
    with aclgrad.torch.remote_backward(client, strict=True) as remote:
        for _ in range(2):
            close(step(module), expected)
    assert client.called == []
    ((site, count),) = remote.account.left_alone.items()
    assert (site.function, count) == (kind.__name__, 2)
    assert f"2 local {kind.__name__} {kind.__name__} plain arithmetic: it" in " ".join(str(remote).split())
    assert not remote.account.calls


def test_a_module_may_be_another_function_of_some_inputs(client: RecordingClient) -> None:
    module, small = module_of(LimitedRMSNorm), random(2, 5, WIDTH)
    for input, called in ((small, ["rms_norm_grad"]), (small * 100, []), (small, ["rms_norm_grad"])):
        given = input.clone().requires_grad_()
        (expected,) = torch.autograd.grad(module(given).pow(3).sum(), given)
        client.called.clear()
        with aclgrad.torch.remote_backward(client):
            (found,) = torch.autograd.grad(module(given).pow(3).sum(), given)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
        assert client.called == called


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES])
@pytest.mark.parametrize("kind", [DetachedRMSNorm, FrozenRMSNorm])
def test_another_gradient_stays_as_it_is(client: RecordingClient, kind: type[nn.Module], dtype: torch.dtype) -> None:
    module, input = module_of(kind, dtype=dtype), random(2, 5, WIDTH).to(dtype).requires_grad_()
    (expected,) = torch.autograd.grad(module(input).float().pow(3).sum(), input)
    with aclgrad.torch.remote_backward(client) as remote:
        (found,) = torch.autograd.grad(module(input).float().pow(3).sum(), input)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    assert client.called == []
    ((site, _),) = remote.account.left_alone.items()
    assert site.because == "its gradient is not that of root mean square normalisation"


def test_extra_arguments_and_calls_of_super(client: RecordingClient) -> None:
    gated, own = module_of(GatedRMSNorm), module_of(OwnRMSNorm)
    gate = random(2, 5, WIDTH, seed=4)
    expected = [step(gated, run=lambda input: gated(input, gate)), step(own)]
    with aclgrad.torch.remote_backward(client) as remote:
        found = [step(gated, run=lambda input: gated(input, gate))]
        assert "rms_norm_grad" not in client.called
        found.append(step(own))
    # The part that it calls is a normalisation.
    assert client.called.count("rms_norm_grad") == 1
    for one, other in zip(found, expected, strict=True):
        close(one, other)
    assert {site.function for site in remote.account.left_alone} == {"GatedRMSNorm", "OwnRMSNorm"}


def test_frozen_parts(client: RecordingClient) -> None:
    module = module_of(LlamaRMSNorm).requires_grad_(requires_grad=False)
    expected = step(module)
    with aclgrad.torch.remote_backward(client, strict=True):
        found = step(module)
        assert module(random(3, WIDTH)).grad_fn is None
    assert client.wanted == [["dx"]]
    close(found[:2], expected[:2])
    module.requires_grad_()
    client.wanted.clear()
    with aclgrad.torch.remote_backward(client, strict=True):
        module(random(3, WIDTH)).sum().backward()
    assert client.wanted == [["dgamma"]]


def test_hooks_see_the_output(client: RecordingClient) -> None:
    module, seen = module_of(LlamaRMSNorm), []
    module.register_forward_hook(lambda module, args, output: seen.append(output) or output * 2)
    module.register_full_backward_hook(lambda module, given, found: seen.append(found[0]))
    expected = step(module)
    with aclgrad.torch.remote_backward(client, strict=True):
        found = step(module)
    close(found, expected)
    assert client.called == ["rms_norm_grad"]
    assert len(seen) == 4
    torch.testing.assert_close(seen[3], seen[1])


@pytest.mark.parametrize("is_reentrant", [True, False], ids=["reentrant", "hooks"])
@pytest.mark.parametrize("is_within", [True, False], ids=["backward_within", "backward_after"])
def test_checkpoints(client: RecordingClient, *, is_reentrant: bool, is_within: bool) -> None:
    module = module_of(LlamaRMSNorm)
    expected = step(module)
    input = random(2, 5, WIDTH).requires_grad_()
    module.zero_grad()
    with aclgrad.torch.remote_backward(client, strict=True):
        output = checkpoint(module, input, use_reentrant=is_reentrant)
        if is_within:
            output.backward(grad_output_of(output))
    if not is_within:
        output.backward(grad_output_of(output))
    close((output.detach(), input.grad, module.weight.grad), expected)
    assert client.called == ["rms_norm_grad"]


NETWORKS = {
    "alone": lambda norm: nn.Sequential(norm),
    "first": lambda norm: nn.Sequential(norm, nn.Linear(WIDTH, WIDTH)),
    "middle": lambda norm: nn.Sequential(nn.Linear(WIDTH, WIDTH), norm, nn.Linear(WIDTH, WIDTH)),
    "last": lambda norm: nn.Sequential(nn.Linear(WIDTH, WIDTH), norm),
}


@pytest.mark.parametrize("is_warm", [True, False], ids=["warm", "cold"])
@pytest.mark.parametrize("is_within", [True, False], ids=["backward_within", "backward_after"])
@pytest.mark.parametrize("kind", [LlamaRMSNorm, DetachedRMSNorm, nn.RMSNorm])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_checkpoint_saves_the_same_again(
    client: RecordingClient, name: str, kind: type[nn.Module], *, is_within: bool, is_warm: bool
) -> None:
    network = NETWORKS[name](module_of(kind))
    expected = step(network)
    network.zero_grad()
    with aclgrad.torch.remote_backward(client) as remote:
        if is_warm:
            network(random(2, 5, WIDTH))
        client.called.clear()
        input = random(2, 5, WIDTH).requires_grad_()
        output = checkpoint(network, input, use_reentrant=False)
        if is_within:
            output.backward(grad_output_of(output))
    if not is_within:
        output.backward(grad_output_of(output))
    close((output.detach(), input.grad, *(each.grad for each in network.parameters())), expected)
    assert client.called.count("rms_norm_grad") == (kind is not DetachedRMSNorm)
    assert len(client.called) == len(network) - (kind is DetachedRMSNorm)
    assert {site.function for site in remote.account.left_alone} <= {"DetachedRMSNorm"}


def test_a_checkpoint_that_keeps_its_function_elsewhere(client: RecordingClient, monkeypatch: Any) -> None:
    """It would compute the module again without a block, where it saves other tensors."""
    monkeypatch.setattr(_missed_calls, "_CHECKPOINT", None)
    module = module_of(LlamaRMSNorm)
    expected = step(module)
    with aclgrad.torch.remote_backward(client) as remote:
        found = step(module, run=lambda input: checkpoint(module, input, use_reentrant=False))
    close(found, expected)
    assert client.called == []
    ((site, _),) = remote.account.left_alone.items()
    assert "a checkpoint may compute it again" in site.because


def test_transforms(client: RecordingClient) -> None:
    module = module_of(LlamaRMSNorm)
    input = random(3, 4, WIDTH)

    def loss(weights: dict[str, Tensor], input: Tensor) -> Tensor:
        return torch.func.functional_call(module, weights, (input,)).pow(3).sum()

    weights = {"weight": module.weight.detach()}
    gradients = torch.func.vmap(torch.func.grad(loss), (None, 0))
    expected = gradients(weights, input)
    with aclgrad.torch.remote_backward(client, strict=True):
        found = gradients(weights, input)
    assert set(client.called) == {"rms_norm_grad"}
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
def test_a_compiled_module_is_plain_arithmetic(client: RecordingClient) -> None:
    module = module_of(LlamaRMSNorm)
    compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
    expected = step(module)
    for _ in range(2):
        with aclgrad.torch.remote_backward(client):
            close(step(module, run=compiled), expected)
    assert client.called == []


def test_what_comes_next_draws_the_same_numbers(client: RecordingClient) -> None:
    module = module_of(LlamaRMSNorm)
    state = torch.get_rng_state()
    with aclgrad.torch.remote_backward(client):
        step(module)
    assert torch.equal(torch.get_rng_state(), state)


def test_a_second_derivative_is_refused(client: RecordingClient) -> None:
    module, input = module_of(LlamaRMSNorm), random(3, WIDTH).requires_grad_()
    with aclgrad.torch.remote_backward(client):
        (gradient,) = torch.autograd.grad(module(input).pow(3).sum(), input, create_graph=True)
        with pytest.raises(aclgrad.InvalidFieldError, match="no second derivative"):
            gradient.sum().backward()
