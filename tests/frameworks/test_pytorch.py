"""Every operator against the operator of PyTorch or torchvision that it replaces, live and remote."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import aclgrad
from aclgrad.masks import MaskLayout, Pooling, argmax_of_input, argmax_of_mask, mask_of_argmax
from aclgrad.operators.cases import TypedCase, returned_arrays, typed_cases
from aclgrad.operators.parts import samples_of
from aclgrad.products import Product
from tools.benchmarks import torchvision_kernel
from tools.serving import Server

Array = np.ndarray[Any, Any]


@pytest.fixture(scope="module")
def client() -> Iterator[aclgrad.Client]:
    with Server() as server, aclgrad.Client(server.address) as client:
        yield client


@pytest.fixture(scope="module", autouse=True)
def _torchvision(tmp_path_factory: pytest.TempPathFactory) -> None:
    torchvision_kernel.load(tmp_path_factory.mktemp("stubs"))


# With empty tensors PyTorch cannot compute most.
CASES = [
    typed
    for typed in typed_cases(Product.ATLAS_A2)
    if typed.case.in_pytorch and not any(0 in shape for shape in typed.case.shapes.values())
]


def of_pytorch(typed: TypedCase, arrays: dict[str, Array]) -> Iterator[Array]:
    """Yields PyTorch's gradients in float64 or complex128, of half types computed in float32 from the same values.

    PyTorch's own half kernels round after every addition, which says nothing about a result that is rounded once.
    """
    tensors = {
        name: torch.from_numpy(each.astype(np.float32) if each.dtype.kind in "fV" and each.itemsize == 2 else each)
        for name, each in arrays.items()
    }
    found = samples_of(typed.spec.name).pytorch(tensors, typed.attributes)
    for each in found if isinstance(found, tuple) else (found,):
        wide = torch.complex128 if each.is_complex() else torch.float64
        yield (each.to(wide) if each.is_complex() or each.is_floating_point() else each).numpy()


@pytest.mark.parametrize("typed", CASES, ids=str)
def test_a_gradient_is_that_of_pytorch(client: aclgrad.Client, typed: TypedCase) -> None:
    arrays = typed.arrays()
    gradients = returned_arrays(client.execute(typed.spec.name, arrays, typed.case.attributes))
    tolerance = typed.tolerance(Product.ATLAS_A2)
    for name, ours, theirs in zip(typed.outputs, gradients, of_pytorch(typed, arrays), strict=True):
        assert (np.abs(ours.astype(theirs.dtype) - theirs) <= tolerance.of(name).limit(theirs)).all()


@pytest.mark.parametrize("seed", range(200))
def test_masks_argmax_and_pytorch_agree(seed: int) -> None:
    generator = np.random.default_rng(seed)
    size = tuple(generator.integers(3, 14, 2).tolist())
    kernel = tuple(generator.integers(1, 4, 2).tolist())
    padding = tuple(int(generator.integers(0, each // 2 + 1)) for each in kernel)
    stride = tuple(generator.integers(1, 4, 2).tolist())
    ceil_mode = bool(seed % 2)
    input = generator.standard_normal((2, 18, *size)).astype(np.float32)
    pooling = Pooling.of(size, kernel, stride, padding, ceil_mode)
    values, indices = torch.nn.functional.max_pool2d(
        torch.from_numpy(input), kernel, stride, padding, ceil_mode=ceil_mode, return_indices=True
    )
    pooled, argmax = argmax_of_input(input, pooling)
    np.testing.assert_array_equal(pooled, values.numpy())
    np.testing.assert_array_equal(argmax, indices.numpy())
    for layout in MaskLayout:
        if layout is MaskLayout.UINT16_BITS or pooling.window_cells > 1:
            mask = mask_of_argmax(indices.numpy(), pooling, layout)
            np.testing.assert_array_equal(argmax_of_mask(mask, pooling, layout), indices.numpy())
