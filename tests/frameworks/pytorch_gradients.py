"""The operators of PyTorch and torchvision that ours replace."""

from typing import Any

import numpy as np
import torch

from aclgrad.operators.cases import TypedCase, typed_cases
from aclgrad.products import Product

Array = np.ndarray[Any, Any]


def comparable_cases() -> list[TypedCase]:
    """Returns the cases that PyTorch can compute."""
    return [typed for typed in typed_cases(Product.ATLAS_A2) if _is_comparable(typed)]


def _is_comparable(typed: TypedCase) -> bool:
    if any(0 in shape for shape in typed.case.shapes.values()) or typed.case.name == "cropped_to_nothing":
        return False
    # An int8 mask is no argument of PyTorch, and torchvision indexes images without a check.
    return typed.case.fixed.get("indices") != "int8" and not typed.case.name.startswith("no_image")


def of_pytorch(typed: TypedCase, arrays: dict[str, Array]) -> Array:
    """Returns PyTorch's gradient in float64 or complex128, of half types computed in float32 from the same values.

    PyTorch's own half kernels round after every addition, which says nothing about a result that is rounded once.
    """
    gradient = _gradient(typed, {name: _tensor_of(array) for name, array in arrays.items()})
    wide = torch.complex128 if gradient.is_complex() else torch.float64
    return (gradient.to(wide) if gradient.is_floating_point() or gradient.is_complex() else gradient).numpy()


def _tensor_of(array: Array) -> torch.Tensor:
    is_half = array.dtype.itemsize == 2 and array.dtype.kind not in "iu"
    return torch.from_numpy(array.astype(np.float32) if is_half else array)


def _gradient(typed: TypedCase, tensors: dict[str, torch.Tensor]) -> torch.Tensor:
    grad, given = tensors["grad_output"], typed.case.attributes
    match typed.spec.name:
        case "adaptive_avg_pool2d_backward":
            return torch.ops.aten._adaptive_avg_pool2d_backward(grad, tensors["self"])
        case "max_unpool3d_backward":
            indices = tensors["indices"]
            return grad.flatten(-3).gather(-1, indices.flatten(-3)).view(indices.shape)
        case "replication_pad2d_backward":
            return torch.ops.aten.replication_pad2d_backward(grad, tensors["self"], list(given["padding"]))
        case "max_pool2d_with_mask_backward":
            options = {"stride": (), "padding": (0,), "ceil_mode": False, **given}
            return torch.ops.aten.max_pool2d_with_indices_backward(
                grad,
                tensors["self"],
                list(options["kernel_size"]),
                list(options["stride"]),
                list(options["padding"]),
                [1],
                options["ceil_mode"],
                tensors["indices"].long(),
            )
        case "roi_align_v2_backward":
            return torch.ops.torchvision._roi_align_backward(
                grad,
                tensors["boxes"],
                given.get("spatial_scale", 1.0),
                given["pooled_height"],
                given["pooled_width"],
                *given["input_shape"],
                given.get("sampling_ratio", 0),
                given.get("aligned", False),
            )
    raise AssertionError(typed.spec.name)
