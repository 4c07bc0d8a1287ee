"""Every function against PyTorch's own, called by name and rerouted."""

import inspect
from contextlib import suppress

import pytest
import torch
from torch.nn import functional

import aclgrad
import aclgrad.torch

from .calls import CALLS, HALVES, STAY_LOCAL, Call
from .conftest import RecordingClient


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_a_function_has_the_output_and_the_gradient_of_pytorch(client: RecordingClient, call: Call) -> None:
    function = getattr(aclgrad.torch, call.function)
    output, gradient = call.run(lambda *args, **options: function(*args, **options, client=client))
    expected, expected_gradient = call.locally()
    assert client.called == [call.operator]
    torch.testing.assert_close(output, expected, rtol=0, atol=0)
    torch.testing.assert_close(gradient, expected_gradient)


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_a_call_in_a_model_is_rerouted(client: RecordingClient, call: Call) -> None:
    with aclgrad.torch.remote_backward(client):
        output, gradient = call.locally()
    expected, expected_gradient = call.locally()
    assert client.called == [call.operator]
    torch.testing.assert_close(output, expected, rtol=0, atol=0)
    torch.testing.assert_close(gradient, expected_gradient)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("call", [each for each in CALLS if "unpool" not in each.function], ids=str)
def test_half_types_keep_their_type(client: RecordingClient, call: Call, dtype: torch.dtype) -> None:
    with aclgrad.torch.remote_backward(client):
        output, gradient = call.locally(dtype)
    expected, expected_gradient = call.locally(dtype)
    assert client.called == [call.operator]
    torch.testing.assert_close(output, expected, rtol=0, atol=0)
    torch.testing.assert_close(gradient, expected_gradient, rtol=HALVES[dtype], atol=HALVES[dtype])


@pytest.mark.parametrize("call", STAY_LOCAL, ids=str)
def test_what_no_operator_computes_stays_local(client: RecordingClient, call: Call) -> None:
    with aclgrad.torch.remote_backward(client) as remote:
        _, gradient = call.locally()
    assert client.called == []
    torch.testing.assert_close(gradient, call.locally()[1])
    assert [(place.function, place.whose) for place in remote.account.calls.elements()] == [(call.function, "local")]
    strict = aclgrad.torch.remote_backward(client, strict=True)
    with strict, pytest.raises(aclgrad.InvalidFieldError, match=f"{call.function} would stay local: .+ outside of the"):
        call.locally()
    function = getattr(aclgrad.torch, call.function)
    with pytest.raises(aclgrad.InvalidFieldError, match=f"{call.function} has .* call PyTorch's own function"):
        call.run(lambda *args, **options: function(*args, **options, client=client))


def test_a_type_without_an_operator_stays_local(client: RecordingClient) -> None:
    with aclgrad.torch.remote_backward(client):
        CALLS[0].locally(torch.float64)
    assert client.called == []


def test_calls_without_gradients_stay_local(client: RecordingClient) -> None:
    input = torch.ones(1, 1, 4, 4, requires_grad=True)
    with aclgrad.torch.remote_backward(client):
        assert functional.max_pool2d(input.detach(), 2).grad_fn is None
        with torch.no_grad():
            assert functional.max_pool2d(input, 2).grad_fn is None


def test_pooling_can_return_its_indices(client: RecordingClient) -> None:
    input = torch.randn(2, 3, 8, 8, requires_grad=True)
    expected = functional.max_pool2d(input, 2, return_indices=True)
    with aclgrad.torch.remote_backward(client):
        rerouted = functional.max_pool2d(input, 2, return_indices=True), functional.max_pool2d_with_indices(input, 2)
    for found in (*rerouted, aclgrad.torch.max_pool2d(input, 2, return_indices=True, client=client)):
        torch.testing.assert_close(found, expected, rtol=0, atol=0)
        assert not found[1].requires_grad
        found[0].sum().backward()
    assert client.called == ["max_pool2d_with_mask_backward"] * 3


def test_the_pooling_operator_is_one_that_the_server_lists(
    client: RecordingClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Listed:
        name = "max_pool2d_with_indices_backward"

    monkeypatch.setattr(client, "list_operators", lambda **_: [Listed])
    call = next(each for each in CALLS if each.function == "max_pool2d")
    with aclgrad.torch.remote_backward(client):
        _, gradient = call.locally()
    assert client.called == [Listed.name]
    torch.testing.assert_close(gradient, call.locally()[1])


@pytest.mark.parametrize("name", [name for name in aclgrad.torch.__all__ if not name.endswith("_backward")])
def test_a_function_tells_its_arguments(name: str) -> None:
    signature = inspect.signature(getattr(aclgrad.torch, name))
    assert signature.parameters["client"].annotation is aclgrad.Client
    assert signature.parameters["client"].kind is inspect.Parameter.KEYWORD_ONLY
    assert getattr(aclgrad.torch, name).__doc__.endswith(".\n    ") or "\n" not in getattr(aclgrad.torch, name).__doc__
    with suppress(ValueError, AttributeError):  # avg_pool2d is a builtin, and torchvision has roi_align
        theirs = inspect.signature(getattr(functional, f"_{name}", getattr(functional, name)))
        assert [*signature.parameters] == [*theirs.parameters, "client"]
