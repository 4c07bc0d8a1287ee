"""What vmap maps in one call: as more images, more rows or more channels; or in a call for each element."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aclgrad.operators.spec import InputSpec, OperatorSpec, OutputSpec

Host = np.ndarray[Any, Any]
Arrays = Mapping[str, Host]
PARAMETERS = ("weight", "gamma")
_PLANES = ("grad_output", "input")
"""What has all axes in the calls of batch normalisation; the others have channels alone."""


@dataclass(frozen=True, slots=True)
class Folded:
    """The inputs of each call, the shape of the function's input in it, and what takes its outputs apart."""

    inputs: Sequence[Arrays]
    shape: tuple[int, ...]
    unfolded: Callable[[list[Host], Sequence[OutputSpec]], list[Host]] = lambda found, _: found


def fold(
    spec: OperatorSpec,
    whole: Arrays,
    mapped: tuple[int, ...],
    shape: tuple[int, ...],
    attributes: Mapping[str, Any],
    *,
    is_of_input: bool,
) -> Folded:
    """Returns the calls for arrays that have the mapped axes in front of their own, of an input of this shape.

    `is_of_input` says that the elements have their parameters in common, and that no gradient of those is wanted.
    """
    if not mapped:
        return Folded([whole], shape)
    if spec.name == "batch_norm_backward":
        return _into_channels(whole, mapped, shape)
    if spec.name == "layer_norm_backward":
        return _into_rows(whole, mapped, shape, attributes["normalized_shape"], is_of_input)
    if spec.name == "rms_norm_grad":
        return _into_rows(whole, mapped, shape, whole["gamma"].shape[len(mapped) :], is_of_input)
    if spec.name in ("softmax_backward", "log_softmax_backward"):
        return _into_leading_axes(whole, mapped, shape, max(spec.inputs[0].ranks))
    if spec.name in ("embedding_dense_backward", "group_norm_backward"):
        return _of_each(whole, mapped, shape)
    specs = {each.name: each for each in spec.inputs}
    inputs = {
        name: _in_batch(
            specs[name], _of_folded_images(each, mapped, shape[0]) if name == "boxes" else each, len(mapped)
        )
        for name, each in whole.items()
    }
    kept = max(spec.inputs[0].ranks) - 1
    all_ = (*mapped, *shape)
    return Folded([inputs], (math.prod(all_[:-kept]), *all_[-kept:]))


def _in_batch(spec: InputSpec, array: Host, added: int) -> Host:
    """Returns the array with the mapped axes in its batch, which is the first of the most dimensions."""
    kept = max(spec.ranks) - 1
    return array.reshape(math.prod(array.shape[:-kept]), *array.shape[-kept:])


def _of_folded_images(boxes: Host, mapped: tuple[int, ...], images: int) -> Host:
    """Returns the boxes with the numbers that their images have in the batch; -1 if they do not exist."""
    first = np.arange(math.prod(mapped)).reshape(*mapped, 1) * images
    own = np.floor(boxes[..., 0])
    image = np.where((own >= 0) & (own < images), own + first, -1)
    sides = np.broadcast_to(boxes[..., 1:], (*image.shape, 4))
    return np.concatenate([image[..., None], sides], -1).astype(boxes.dtype)


def _into_rows(
    whole: Arrays, mapped: tuple[int, ...], shape: tuple[int, ...], sizes: tuple[int, ...], is_of_input: bool
) -> Folded:
    """Gradients of parameters are sums over the rows of a call, so each element needs its own."""
    if not is_of_input:
        return _of_each(whole, mapped, shape)

    def folded(name: str, array: Host) -> Host:
        if name in PARAMETERS:
            common: Host = array[(0,) * len(mapped)]
            return common
        # Rows in one axis: with those of vmap, they may have more than a device takes.
        rows: Host = array.reshape(-1, *(sizes if name in _PLANES else [1] * len(sizes)))
        return rows

    sent = {name: folded(name, each) for name, each in whole.items()}
    return Folded([sent], sent["input"].shape)


def _into_leading_axes(whole: Arrays, mapped: tuple[int, ...], shape: tuple[int, ...], most: int) -> Folded:
    """The axis counts from the last, so any may be in front of it; those of vmap are one if there is room."""
    if len(shape) == most:
        return _of_each(whole, mapped, shape)
    # The axis of a scalar is its own, not one of vmap.
    rows = (math.prod(mapped), *(shape or (1,)))
    return Folded([{name: each.reshape(rows) for name, each in whole.items()}], rows)


def _of_each(whole: Arrays, mapped: tuple[int, ...], shape: tuple[int, ...]) -> Folded:
    """Makes a call for each element."""
    size = math.prod(mapped)
    flat = {name: each.reshape(size, *each.shape[len(mapped) :]) for name, each in whole.items()}
    return Folded([{name: each[element] for name, each in flat.items()} for element in range(size)], shape)


def _into_channels(whole: Arrays, mapped: tuple[int, ...], shape: tuple[int, ...]) -> Folded:
    """Every element has statistics of its own, as every channel has."""
    size, (batch, channels, *rest) = math.prod(mapped), shape

    def folded(name: str, array: Host) -> Host:
        if name not in _PLANES:
            return array.reshape(size * channels)
        return np.moveaxis(array.reshape(size, *shape), 0, 1).reshape(batch, size * channels, *rest)

    def unfolded(found: list[Host], wanted: Sequence[OutputSpec]) -> list[Host]:
        return [
            np.moveaxis(each.reshape(batch, size, *shape[1:]), 1, 0) if output.of == "input" else each
            for each, output in zip(found, wanted, strict=True)
        ]

    return Folded(
        [{name: folded(name, each) for name, each in whole.items()}], (batch, size * channels, *rest), unfolded
    )
