"""Tensors that are not plain: on other devices, strided, read-only, empty, of other kinds."""

import inspect
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

import aclgrad
import aclgrad.torch

from .conftest import RecordingClient
from .table import OF_MODELS, random


def gradients(client: aclgrad.Client, input: torch.Tensor, grad_output: torch.Tensor) -> list[torch.Tensor]:
    """Returns the local and the remote gradient of pooling to the size of `grad_output`."""
    found = []
    leaf = input.detach().requires_grad_()
    for function in (functional.adaptive_avg_pool2d, aclgrad.torch.adaptive_avg_pool2d):
        options = {"client": client} if found else {}
        output = function(leaf, grad_output.shape[2:], **options)
        found += torch.autograd.grad(output, leaf, grad_output)
    return found


def _read_only() -> torch.Tensor:
    array = np.random.default_rng(2).standard_normal((2, 3, 8, 7)).astype(np.float32)
    array.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.from_numpy(array)


@pytest.mark.parametrize(
    "input",
    [
        torch.randn(2, 8, 7, 3).permute(0, 3, 1, 2),
        torch.randn(2, 3, 16, 7)[:, :, ::2],
        torch.randn(2, 3, 8, 7).to(memory_format=torch.channels_last),
        torch.randn(1, 3, 8, 7).expand(2, 3, 8, 7),
        torch.randn(0, 3, 8, 7),
        _read_only(),
    ],
    ids=["permuted", "strided", "channels_last", "expanded", "empty", "read_only"],
)
@pytest.mark.parametrize("layout", ["contiguous", "permuted", "expanded"])
def test_any_strides_will_do(client: RecordingClient, input: torch.Tensor, layout: str) -> None:
    shape = (*input.shape[:2], 2, 3)
    grad_output = {
        "contiguous": torch.randn(shape),
        "permuted": torch.randn(shape[::-1]).permute(3, 2, 1, 0),
        "expanded": torch.randn(1).expand(shape),
    }[layout]
    local, remote = gradients(client, input, grad_output)
    torch.testing.assert_close(remote, local)


def test_lazily_negated_gradients_are_sent_as_they_are_meant(client: RecordingClient) -> None:
    input = torch.randn(1, 2, 3, 4, dtype=torch.complex64, requires_grad=True)
    grad_output = torch.randn(1, 2, 5, 6, dtype=torch.complex64).conj()
    found = []
    for function in (functional.pad, lambda *args, **options: aclgrad.torch.pad(*args, **options, client=client)):
        found += torch.autograd.grad(function(input, (1, 1, 1, 1), mode="replicate"), input, grad_output)
    torch.testing.assert_close(found[1], found[0])
    assert client.called == ["replication_pad2d_backward"]


def test_a_meta_tensor_gets_a_meta_gradient(client: RecordingClient) -> None:
    input = torch.ones(2, 3, 8, 8, device="meta", requires_grad=True)
    aclgrad.torch.max_pool2d(input, 2, client=client).sum().backward()
    assert input.grad is not None
    assert input.grad.is_meta
    assert client.called == []


def test_normalisations_and_grids_of_any_strides(client: RecordingClient) -> None:
    image = random(2, 6, 5, 3).permute(0, 3, 1, 2)[:, :, ::2]
    grid = (random(2, 2, 4, 3, seed=2) / 3).permute(0, 2, 3, 1)
    for function in (
        lambda each: functional.layer_norm(each, (5,)),
        lambda each: functional.batch_norm(each, None, None, training=True),
        lambda each: functional.batch_norm(each.to(memory_format=torch.channels_last), None, None, training=True),
        lambda each: functional.grid_sample(each, grid, align_corners=False),
    ):
        found, expected = image.clone().requires_grad_(), image.clone().requires_grad_()
        function(expected).pow(3).sum().backward()
        with aclgrad.torch.remote_backward(client, strict=True):
            function(found).pow(3).sum().backward()
        torch.testing.assert_close(found.grad, expected.grad, rtol=1e-4, atol=1e-4)
    assert len(client.called) == 4


def test_boxes_that_require_grad_are_refused(client: RecordingClient) -> None:
    boxes = torch.tensor([[0, 1.0, 1, 4, 4]], requires_grad=True)
    input = torch.ones(1, 1, 6, 6, requires_grad=True)
    with pytest.raises(aclgrad.InvalidFieldError, match=r"boxes requires grad.*detach"):
        aclgrad.torch.roi_align(input, boxes, 2, client=client)


WITHOUT_STATISTICS: dict[str, Any] = {"running_mean": None, "running_var": None}


@pytest.mark.parametrize(
    ("function", "shape", "options"),
    [
        ("avg_pool2d", (1, 1, 4, 4), {"kernel_size": 2, "divisor_override": 0}),
        ("interpolate", (1, 1, 4, 4), {"scale_factor": (2, 2, 2)}),
        ("interpolate", (1, 1, 4, 4), {"scale_factor": float("inf")}),
        ("batch_norm", (4, 3, 5), {"running_mean": torch.zeros(5), "running_var": torch.ones(5)}),
        ("batch_norm", (4, 3, 5), WITHOUT_STATISTICS),
        ("batch_norm", (4, 3, 5), {**WITHOUT_STATISTICS, "weight": torch.ones(4), "training": True}),
        ("batch_norm", (1, 3), {**WITHOUT_STATISTICS, "training": True}),
    ],
)
def test_what_pytorch_refuses_is_refused_in_its_words(
    client: RecordingClient, function: str, shape: tuple[int, ...], options: dict[str, Any]
) -> None:
    input = torch.ones(shape, requires_grad=True)
    with pytest.raises((RuntimeError, ValueError)) as expected:
        getattr(functional, function)(input, **options)
    with aclgrad.torch.remote_backward(client), pytest.raises(expected.type) as caught:
        getattr(functional, function)(input, **options)
    assert str(caught.value) == str(expected.value)
    with pytest.raises((aclgrad.InvalidFieldError, ValueError)):
        getattr(aclgrad.torch, function)(input, **options, client=client)


def test_indices_out_of_range_are_refused_by_name(client: RecordingClient) -> None:
    input = torch.ones(1, 1, 1, 1, 2, requires_grad=True)
    output = aclgrad.torch.max_unpool3d(input, torch.tensor([[[[[0, 1]]]]]), (1, 1, 2), client=client)
    assert output.shape == (1, 1, 1, 1, 4)
    with pytest.raises(RuntimeError, match=r"invalid max index|out of bound"):
        aclgrad.torch.max_unpool3d(input, torch.tensor([[[[[0, 9]]]]]), (1, 1, 2), client=client)


@pytest.mark.parametrize("client", [None, "127.0.0.1:1", object()])
def test_a_client_is_needed(client: object) -> None:
    with pytest.raises(aclgrad.InvalidSettingError, match=r"client is a \w+; give an aclgrad.Client"):
        aclgrad.torch.remote_backward(client)


FUNCTIONS = sorted(set(aclgrad.torch.__all__) - OF_MODELS - {"einsum"})


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_no_tensor_is_refused_by_name(client: RecordingClient, name: str) -> None:
    call = getattr(aclgrad.torch, name)
    first = next(iter(inspect.signature(call).parameters))
    for value, told in ((np.ones((2, 3, 4, 4)), "ndarray"), ([[1.0]], "list"), (None, "NoneType")):
        refusal = pytest.raises(aclgrad.InvalidFieldError, match=f"^{first} is a {told}; give a torch.Tensor$")
        with refusal:
            call(value, client=client)
        with refusal:
            call(**{first: value}, client=client)


def test_each_tensor_is_looked_at_and_those_that_may_be_absent_are_not_missed(client: RecordingClient) -> None:
    images, weight = torch.ones(1, 2, 3), np.ones(3)
    with pytest.raises(aclgrad.InvalidFieldError, match=r"^weight is a ndarray; give a torch.Tensor$"):
        aclgrad.torch.layer_norm(images, (3,), weight, client=client)
    assert aclgrad.torch.layer_norm(images, (3,), None, bias=torch.zeros(3), client=client).shape == (1, 2, 3)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'input'"):
        aclgrad.torch.silu(client=client)


def test_tensors_are_inputs_of_the_plain_client(client: RecordingClient) -> None:
    """Without `aclgrad.torch`: a tensor is read in place, whatever its dtype."""
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        grad_output = torch.arange(24).reshape(1, 2, 4, 3).to(dtype).permute(0, 1, 3, 2)
        # An `out` that numpy could only copy would be refused.
        out = torch.zeros(1, 2, 8, 6, dtype=dtype).permute(0, 1, 3, 2)
        gradient = client.adaptive_avg_pool2d_backward(grad_output, torch.Size((1, 2, 6, 8)), out=out)
        leaf = torch.zeros(1, 2, 6, 8, requires_grad=True)
        functional.adaptive_avg_pool2d(leaf, (3, 4)).backward(grad_output.float())
        assert leaf.grad is not None
        assert gradient is out
        torch.testing.assert_close(out.float(), leaf.grad)


def test_tensors_that_cannot_be_read_are_refused_with_the_call_that_helps(client: RecordingClient) -> None:
    for dtype in (torch.float32, torch.bfloat16):
        for tensor, remedy in (
            (torch.ones(1, 2, 2, dtype=dtype, requires_grad=True), r"give tensor.detach\(\)$"),
            (torch.ones(1, 2, 2, dtype=dtype, device="meta"), r"is on the device meta; give tensor.cpu\(\)$"),
        ):
            with pytest.raises(aclgrad.InvalidFieldError, match=rf"^inputs\[grad_output\] .*{remedy}"):
                client.adaptive_avg_pool2d_backward(tensor, (1, 4, 4))
