"""vmap: the mapped axis becomes a part of one axis of a call, so that there is one call for all elements."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch
from torch import Tensor

from aclgrad.operators.spec import INPUT_SHAPES
from aclgrad.torch._account import LocalError

Fold = Callable[[Callable[..., Any], int, Mapping[str, Any], Sequence[Any], Sequence[int]], tuple[Any, Any]]
"""Returns the output of all elements, and the mapped axis of each tensor of it: the first, or None if it has none.

It takes the function, the size of the mapped axis, the function's arguments by name, the index of the mapped axis in
each or None, and the ranks of the operator.
"""


_PARAMETERS: Final = {"weight", "bias", "gamma"}


def fold_into_batch(
    function: Callable[..., Any], size: int, values: Mapping[str, Any], dims: Sequence[Any], ranks: Sequence[int]
) -> tuple[Any, Any]:
    """Makes one call of a function that computes each image of a batch by itself."""
    whole = {name: _mapped_first(value, size, dim) for (name, value), dim in zip(values.items(), dims, strict=True)}
    first = next(iter(whole.values()))
    if first.dim() == max(ranks):  # the elements have no batch
        return _outputs(function(*whole.values()), values, lambda each: each)
    shape = next((whole[name] for name in INPUT_SHAPES if name in whole), None)
    images = shape[0] if shape else first.shape[1]
    output = function(*[_folded(name, value, size, images) for name, value in whole.items()])
    # Not by a division: the size may be 0. The gradient of RoI align has images, its forward pass has boxes.
    batch = images if shape else whole.get("boxes", first).shape[1]
    return _outputs(output, values, lambda each: each.reshape(size, batch, *each.shape[1:]))


def fold_elements(
    function: Callable[..., Any], size: int, values: Mapping[str, Any], dims: Sequence[Any], ranks: Sequence[int]
) -> tuple[Any, Any]:
    """Makes one call of a function that computes each element by itself, or along axes counted from the end."""
    whole = [_mapped_first(value, size, dim) for value, dim in zip(values.values(), dims, strict=True)]
    if whole[0].dim() <= max(ranks):
        return function(*whole), 0
    result = function(*[each.flatten(0, 1) if isinstance(each, Tensor) else each for each in whole])
    return result.unflatten(0, whole[0].shape[:2]), 0


def fold_into_rows(
    function: Callable[..., Any], size: int, values: Mapping[str, Any], dims: Sequence[Any], ranks: Sequence[int]
) -> tuple[Any, Any]:
    """Makes one call of a function of rows with common parameters, and one for each element if they are its own.

    Gradients of parameters are sums over all rows of a call, and vmap wants them for each element.
    """
    mapped = {name for name, dim in zip(values, dims, strict=True) if dim is not None}
    first = _mapped_first(next(iter(values.values())), size, dims[0])
    if mapped & _PARAMETERS or any(values.get("wanted", ())[1:]) or first.dim() > max(ranks):
        return call_each(function, size, values, dims, ranks)
    output = function(
        *[
            value if name in _PARAMETERS else _mapped_first(value, size, dim)
            for (name, value), dim in zip(values.items(), dims, strict=True)
        ]
    )
    return _outputs(output, values, lambda each: each)


def fold_into_leading_axes(
    function: Callable[..., Any], size: int, values: Mapping[str, Any], dims: Sequence[Any], ranks: Sequence[int]
) -> tuple[Any, Any]:
    """Makes one call of a function along an axis that counts from the last: it may have any axes in front."""
    whole = [_mapped_first(value, size, dim) for value, dim in zip(values.values(), dims, strict=True)]
    if whole[0].dim() > max(ranks):
        return call_each(function, size, values, dims, ranks)
    if whole[0].dim() == 1:  # of scalars, whose own axis is not that of vmap
        return function(*[each.unsqueeze(-1) if isinstance(each, Tensor) else each for each in whole]).squeeze(-1), 0
    return function(*whole), 0


def fold_into_channels(
    function: Callable[..., Any], size: int, values: Mapping[str, Any], dims: Sequence[Any], ranks: Sequence[int]
) -> tuple[Any, Any]:
    """Makes one call of a function that computes each channel by itself, but needs all of its batch."""
    whole = {name: _mapped_first(value, size, dim) for (name, value), dim in zip(values.items(), dims, strict=True)}
    common = {name for name, dim in zip(values, dims, strict=True) if dim is None and values[name] is not None}
    if "running_mean" in common and "momentum" in whole and whole["training"]:
        raise LocalError("the elements of vmap have running statistics in common")
    batch, channels = next(iter(whole.values())).shape[1:3]

    def folded(name: str, value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        return value.movedim(0, 1).flatten(1, 2) if name in ("input", "grad_output") else value.flatten()

    def unfolded(each: Tensor) -> Tensor:
        if each.dim() > 1:
            return each.reshape(batch, size, channels, *each.shape[2:]).movedim(1, 0)
        return each.reshape(size, each.numel() // size if size else channels)

    return _outputs(function(*[folded(*item) for item in whole.items()]), values, unfolded)


def call_each(
    function: Callable[..., Any], size: int, values: Mapping[str, Any], dims: Sequence[Any], ranks: Sequence[int]
) -> tuple[Any, Any]:
    """Makes one call for each element."""
    whole = [_mapped_first(value, size, dim) for value, dim in zip(values.values(), dims, strict=True)]
    if not size:  # the results' shapes are those of any element
        whole = [each.new_zeros(1, *each.shape[1:]) if isinstance(each, Tensor) else each for each in whole]
    found = [
        function(*[each[element] if isinstance(each, Tensor) else each for each in whole])
        for element in range(size or 1)
    ]
    if isinstance(found[0], Tensor):
        return torch.stack(found)[:size], 0
    output = tuple(torch.stack(each)[:size] for each in zip(*found, strict=True))
    return output, (0,) * len(output)


def _outputs(output: Any, values: Mapping[str, Any], unfolded: Callable[[Any], Tensor]) -> tuple[Any, Any]:
    """Returns the outputs and their mapped axes; an output that is not wanted is empty, and has none."""
    if not isinstance(output, tuple):
        return unfolded(output), 0
    wanted = values.get("wanted", [True] * len(output))
    pairs = list(zip(output, wanted, strict=True))
    kept = [unfolded(each) if is_wanted else each for each, is_wanted in pairs]
    return tuple(kept), tuple(0 if is_wanted else None for is_wanted in wanted)


def _mapped_first(value: Any, size: int, dim: int | None) -> Any:
    if not isinstance(value, Tensor):
        return value
    return value.expand(size, *value.shape) if dim is None else value.movedim(dim, 0)


def _folded(name: str, value: Any, size: int, images: int) -> Any:
    """Returns the value with the mapped axis in its batch; each element has so many images."""
    if name == "boxes":
        value = _of_all_images(value, size, images)
    if isinstance(value, Tensor):
        return value.flatten(0, 1)
    return [size * images, *value[1:]] if name in INPUT_SHAPES else value


def _of_all_images(boxes: Tensor, size: int, images: int) -> Tensor:
    """Returns the boxes (size, M, 5) with their numbers among all images; -1 for no image."""
    image, corners = boxes[..., :1], boxes[..., 1:]
    first = torch.arange(size, device=boxes.device).reshape(size, 1, 1) * images
    number = torch.where((image >= 0) & (image < images), image + first, -1).to(boxes.dtype)
    return torch.cat([number, corners], -1)
