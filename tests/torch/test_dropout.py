"""Dropout draws what PyTorch draws, and its gradient is the card's, of the same elements."""

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import aclgrad
import aclgrad.torch
from aclgrad.bridges.served_operators import ServedOperators, served_by
from aclgrad.torch import _operations

from .conftest import RecordingClient
from .table import HALVES, grad_output_of, random

ROWS = random(9, 131)
Function = Callable[[Tensor], Tensor]


def drawn(function: Function, input: Tensor, block: Any = None) -> tuple[Tensor, Tensor, Tensor]:
    """Returns output and gradient, and the next number of the generator."""
    torch.manual_seed(7)
    leaf = input.clone().requires_grad_()
    if block is None:
        output = function(leaf)
        output.backward(grad_output_of(output))
    else:
        with block:
            output = function(leaf)
            output.backward(grad_output_of(output))
    return output.detach(), leaf.grad, torch.rand(())


FUNCTIONS: dict[str, Function] = {
    "dropout": partial(functional.dropout, p=0.3),
    "in place": lambda each: functional.dropout(each * 1, 0.3, inplace=True),
    "torch.dropout": lambda each: torch.dropout(each, 0.3, True),
    "torch.dropout_": lambda each: torch.dropout_(each * 1, 0.3, True),
    "Dropout": nn.Dropout(0.3),
    "all": partial(functional.dropout, p=1.0),
}
INPUTS = {
    "rows": ROWS,
    "a scalar": random(),
    "one bit more than a block": random(129),
    "a view": random(6, 5, 4).mT,
    "channels last": random(2, 3, 4, 5).to(memory_format=torch.channels_last),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("of", INPUTS)
def test_dropout_is_pytorchs_to_the_bit(client: RecordingClient, name: str, of: str) -> None:
    found = drawn(FUNCTIONS[name], INPUTS[of], aclgrad.torch.remote_backward(client, strict=True))
    expected = drawn(FUNCTIONS[name], INPUTS[of])
    for index in (0, 2):
        torch.testing.assert_close(found[index], expected[index], rtol=0, atol=0)
    torch.testing.assert_close(found[1], expected[1], rtol=1e-6, atol=0)
    assert client.called == ["dropout_do_mask"]


@pytest.mark.parametrize("dtype", HALVES)
def test_halves_have_the_factor_of_the_card(client: RecordingClient, dtype: torch.dtype) -> None:
    """Which rounds what is kept to the dtype, and then divides."""
    function = partial(functional.dropout, p=0.1)
    found = drawn(function, ROWS.to(dtype), aclgrad.torch.remote_backward(client, strict=True))
    expected = drawn(function, ROWS.to(dtype))
    torch.testing.assert_close(found[0], expected[0], rtol=0, atol=0)
    torch.testing.assert_close(found[1], expected[1], rtol=HALVES[dtype], atol=0)
    grad_output = grad_output_of(expected[0])
    kept = torch.tensor(0.9).to(dtype).float()
    own = torch.where(expected[0] != 0, grad_output.float() / kept, 0)
    torch.testing.assert_close(found[1].float(), own, rtol=torch.finfo(dtype).eps, atol=0)


@pytest.mark.parametrize(
    "function",
    [
        lambda each: functional.dropout(each, 0.0),
        lambda each: functional.dropout(each, 0.4, training=False),
        lambda each: functional.dropout(each[:0], 0.4),
        nn.Dropout(0.4).eval(),
    ],
)
def test_what_drops_nothing_is_no_call(client: RecordingClient, function: Function) -> None:
    found = drawn(function, ROWS, block := aclgrad.torch.remote_backward(client, strict=True))
    torch.testing.assert_close(found, drawn(function, ROWS), rtol=0, atol=0)
    assert client.called == []
    assert not block.account.calls


def in_a_thread(each: Tensor) -> Tensor:
    found: list[Tensor] = []
    thread = threading.Thread(target=lambda: found.append(functional.dropout(each, 0.3)))
    thread.start()
    thread.join()
    return found[0]


STAY_LOCAL: dict[str, tuple[Function, Tensor]] = {
    "float64": (FUNCTIONS["dropout"], ROWS.double()),
    "in place": (FUNCTIONS["in place"], ROWS.double()),
    "another thread": (in_a_thread, ROWS),
    "forward mode": (lambda each: torch.func.jvp(FUNCTIONS["dropout"], (each,), (each.detach(),))[0], ROWS),
    "a tensor": (lambda each: functional.dropout(each, torch.tensor(0.3)), ROWS),
}


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")
@pytest.mark.parametrize("name", STAY_LOCAL)
def test_what_stays_local_is_drawn_once(client: RecordingClient, name: str) -> None:
    function, input = STAY_LOCAL[name]
    found = drawn(function, input, block := aclgrad.torch.remote_backward(client))
    torch.testing.assert_close(found, drawn(function, input), rtol=0, atol=0)
    assert client.called == []
    assert {site.whose for site in block.account.calls} <= {"local"}


def test_a_product_without_the_operator_draws_once(monkeypatch: pytest.MonkeyPatch, client: RecordingClient) -> None:
    served = ServedOperators(served_by(client).operators - {"dropout_do_mask"}, None)
    monkeypatch.setattr(_operations, "served_by", lambda _: served)
    found = drawn(FUNCTIONS["dropout"], ROWS, block := aclgrad.torch.remote_backward(client))
    torch.testing.assert_close(found, drawn(FUNCTIONS["dropout"], ROWS), rtol=0, atol=0)
    assert client.called == []
    assert {site.whose for site in block.account.calls} == {"local"}


@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan")])
def test_a_probability_that_is_none_is_refused_as_by_pytorch(client: RecordingClient, p: float) -> None:
    with (
        aclgrad.torch.remote_backward(client),
        pytest.raises((ValueError, RuntimeError), match="dropout probability has to be between 0 and 1"),
    ):
        functional.dropout(ROWS.clone().requires_grad_(), p)
    with pytest.raises(aclgrad.InvalidFieldError, match="dropout has a gradient that no operator computes"):
        aclgrad.torch.dropout(ROWS, p, client=client)


@pytest.mark.parametrize("use_reentrant", [False, True])
@pytest.mark.parametrize("is_open", [False, True])
def test_a_checkpoint_draws_the_same_again(client: RecordingClient, use_reentrant: bool, is_open: bool) -> None:
    def computed(leaf: Tensor) -> Tensor:
        result: Tensor = checkpoint(lambda each: functional.dropout(each, 0.3) ** 2, leaf, use_reentrant=use_reentrant)
        return result

    torch.manual_seed(7)
    leaf = ROWS.clone().requires_grad_()
    with aclgrad.torch.remote_backward(client, strict=True):
        output = computed(leaf)
        if is_open:
            output.sum().backward()
    if not is_open:
        output.sum().backward()
    torch.manual_seed(7)
    own = ROWS.clone().requires_grad_()
    computed(own).sum().backward()
    torch.testing.assert_close(leaf.grad, own.grad, rtol=1e-6, atol=0)
    assert client.called == ["dropout_do_mask"]


def test_derivatives_of_any_order(client: RecordingClient) -> None:
    def third(leaf: Tensor) -> Tensor:
        torch.manual_seed(7)
        output = functional.dropout(leaf, 0.3).pow(4).sum()
        for _ in range(2):
            (gradient,) = torch.autograd.grad(output, leaf, create_graph=True)
            output = gradient.square().sum()
        return torch.autograd.grad(output, leaf)[0]

    leaf = (ROWS * 0.1).requires_grad_()
    with aclgrad.torch.remote_backward(client):
        found = third(leaf)
    torch.testing.assert_close(found, third(leaf), rtol=1e-4, atol=1e-6)
    assert set(client.called) == {"dropout_do_mask"}


@pytest.mark.parametrize("randomness", ["different", "same"])
def test_vmap_draws_as_for_pytorch(client: RecordingClient, randomness: str) -> None:
    def drawn(each: Tensor) -> Tensor:
        torch.manual_seed(7)
        return torch.func.vmap(torch.func.grad(loss), randomness=randomness)(each)

    def loss(each: Tensor) -> Tensor:
        return functional.dropout(each, 0.3).square().sum()

    with aclgrad.torch.remote_backward(client):
        found = drawn(ROWS)
    torch.testing.assert_close(found, drawn(ROWS), rtol=1e-6, atol=0)
    assert client.called == ["dropout_do_mask"] * len(ROWS)


@pytest.mark.parametrize("randomness", ["different", "same"])
def test_vmap_draws_for_one_input_as_for_pytorch(client: RecordingClient, randomness: str) -> None:
    def sampled() -> Tensor:
        torch.manual_seed(7)
        found: Tensor = torch.func.vmap(lambda each: functional.dropout(leaf, 0.3) * each, randomness=randomness)(
            torch.arange(1.0, 4)
        )
        return found

    leaf = random(2, 3, 4, 5).to(memory_format=torch.channels_last).requires_grad_()
    with aclgrad.torch.remote_backward(client, strict=True):
        found = sampled()
    expected = sampled()
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    own = torch.autograd.grad(expected, leaf, torch.ones_like(expected))
    torch.testing.assert_close(torch.autograd.grad(found, leaf, torch.ones_like(found)), own)
    assert set(client.called) == {"dropout_do_mask"}


def test_a_jacobian_is_of_one_drawing(client: RecordingClient) -> None:
    def jacobian() -> Tensor:
        torch.manual_seed(7)
        found: Tensor = torch.func.jacrev(partial(functional.dropout, p=0.3))(ROWS[0, :5])
        return found

    with aclgrad.torch.remote_backward(client):
        found = jacobian()
    torch.testing.assert_close(found, jacobian(), rtol=1e-6, atol=0)
    assert set(client.called) == {"dropout_do_mask"}


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
def test_a_compiled_dropout_has_the_gradient_of_what_it_kept(client: RecordingClient) -> None:
    @torch.compile(backend="aot_eager", fullgraph=True)
    def both(each: Tensor) -> tuple[Tensor, Tensor]:
        return functional.dropout(each, 0.3), functional.dropout(each, 0.3)

    leaf = ROWS.clone().requires_grad_()
    with aclgrad.torch.remote_backward(client, strict=True) as block:
        first, second = both(leaf)
    assert (first != second).any()
    (first + second).sum().backward()
    factors = ((first != 0).float() + (second != 0).float()) / 0.7
    torch.testing.assert_close(leaf.grad, factors)
    assert client.called == ["dropout_do_mask"] * 2
    assert {site.function: count for site, count in block.account.calls.items()} == {"dropout": 2}


def test_the_dropout_of_attention_is_the_servers(client: RecordingClient) -> None:
    attention, words = nn.MultiheadAttention(8, 2, dropout=0.2, batch_first=True), random(2, 5, 8)
    for has_weights in (True, False):
        with aclgrad.torch.remote_backward(client) as block:
            attention(words, words, words, need_weights=has_weights)[0].sum().backward()
        (dropped,) = (site for site in block.account.calls if site.function == "dropout")
        assert dropped.whose == "remote"
        assert ("scaled_dot_product_attention" in dropped.part_of) is not has_weights
