"""RoI align: its forward pass against the definition, its gradient against autograd through that pass."""

import resource

import numpy as np
import pytest
import torch

import aclgrad.torch
from aclgrad.operators.cases import TypedCase, typed_cases
from aclgrad.operators.roi_align_v2_backward.definition import forward
from aclgrad.products import Product
from aclgrad.torch._roi_align import roi_align

from .conftest import RecordingClient

CASES = [each for each in typed_cases(Product.ATLAS_A2) if each.spec.name == "roi_align_v2_backward"]
OPTIONS = ("pooled_height", "pooled_width", "spatial_scale", "sampling_ratio", "aligned")


def tensors(typed: TypedCase) -> tuple[torch.Tensor, ...]:
    """Returns an input, the boxes and the gradient of the output."""
    arrays = typed.arrays()
    input = torch.randn(typed.attributes["input_shape"], generator=torch.Generator().manual_seed(8))
    return input.requires_grad_(), torch.from_numpy(arrays["boxes"]), torch.from_numpy(arrays["grad_output"])


@pytest.mark.parametrize("typed", CASES, ids=str)
def test_output_and_gradient_are_those_of_the_definition_and_of_autograd(
    client: RecordingClient, typed: TypedCase
) -> None:
    input, boxes, grad_output = tensors(typed)
    height, width, scale, samples, aligned = (typed.attributes[name] for name in OPTIONS)
    local = roi_align(input, boxes, height, width, scale, samples, aligned)
    arrays = (each.detach().numpy() for each in (input, grad_output, boxes))
    np.testing.assert_allclose(local.detach().numpy(), forward(*arrays, **typed.attributes), rtol=1e-4, atol=1e-4)
    remote = aclgrad.torch.roi_align(input, boxes, (height, width), scale, samples, aligned, client=client)
    torch.testing.assert_close(remote, local)
    (gradient,) = torch.autograd.grad(remote, input, grad_output)
    expected = torch.autograd.grad(local, input, grad_output)[0] if local.requires_grad else torch.zeros_like(input)
    torch.testing.assert_close(gradient, expected, rtol=1e-3, atol=1e-4)


def test_boxes_may_come_image_by_image(client: RecordingClient) -> None:
    input = torch.randn(2, 3, 9, 9)
    boxes = [torch.tensor([[1.0, 1, 5, 6]]), torch.tensor([[0.0, 2, 3, 3], [4, 4, 8, 8]])]
    rows = torch.cat([torch.full((3, 1), 0.0), torch.cat(boxes)], 1)
    rows[1:, 0] = 1
    found = [aclgrad.torch.roi_align(input, each, 2, client=client) for each in (boxes, rows)]
    torch.testing.assert_close(found[0], found[1])


def test_the_operator_of_torchvision_is_rerouted(client: RecordingClient) -> None:
    schema = "(Tensor input, Tensor rois, float scale, int height, int width, int ratio, bool aligned) -> Tensor"
    torch.library.define("torchvision::roi_align", schema)
    with aclgrad.torch.remote_backward(client):
        input = torch.randn(1, 2, 8, 8, requires_grad=True)
        boxes = torch.tensor([[0, 1.0, 1, 5, 6]])
        torch.ops.torchvision.roi_align(input, boxes, 1.0, 2, 2, -1, False).sum().backward()
    assert client.called == ["roi_align_v2_backward"]


def test_memory_is_that_of_the_boxes_and_not_of_the_largest_for_each() -> None:
    """256 boxes, of which one is the whole image and takes 40 samples a bin along each axis."""
    input = torch.randn(1, 64, 200, 272)
    boxes = torch.tensor([[0.0, 0, 0, 272, 200], *([0.0, 5, 5, 12, 12] for _ in range(255))])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    output = roi_align(input, boxes, 7, 7, 1.0, 0, False)
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown_kib < 2**18
    alone = roi_align(input, boxes[:1], 7, 7, 1.0, 0, False)
    torch.testing.assert_close(output[:1], alone)
