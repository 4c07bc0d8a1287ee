"""What PyTorch and torchvision compute in the place of our operators."""

from typing import Any

import numpy as np
import torch

from aclgrad.operators.cases import TypedCase, typed_cases
from aclgrad.operators.samples import samples_of
from aclgrad.products import Product

Array = np.ndarray[Any, Any]


def comparable_cases() -> list[TypedCase]:
    """Returns the cases that PyTorch can compute; with empty tensors it cannot compute most."""
    return [
        typed
        for typed in typed_cases(Product.ATLAS_A2)
        if typed.case.in_pytorch and not any(0 in shape for shape in typed.case.shapes.values())
    ]


def of_pytorch(typed: TypedCase, arrays: dict[str, Array]) -> tuple[Array, ...]:
    """Returns PyTorch's gradients in float64 or complex128, of half types computed in float32 from the same values.

    PyTorch's own half kernels round after every addition, which says nothing about a result that is rounded once.
    """
    tensors = {name: _tensor_of(array) for name, array in arrays.items()}
    gradients = samples_of(typed.spec.name).pytorch(tensors, typed.attributes)
    return tuple(map(_widened, gradients if isinstance(gradients, tuple) else (gradients,)))


def _widened(gradient: torch.Tensor) -> Array:
    wide = torch.complex128 if gradient.is_complex() else torch.float64
    return (gradient.to(wide) if gradient.is_floating_point() or gradient.is_complex() else gradient).numpy()


def _tensor_of(array: Array) -> torch.Tensor:
    is_half = array.dtype.itemsize == 2 and array.dtype.kind not in "iu"
    return torch.from_numpy(array.astype(np.float32) if is_half else array)
