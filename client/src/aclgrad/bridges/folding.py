"""vmap: folds the mapped axis into an axis of a call, so that one call serves all elements.

Arrays are PyTorch's or numpy's, used by their common methods and functions.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from aclgrad.operators.spec import INPUT_SHAPES

_PARAMETERS: Final = {"weight", "bias", "gamma"}


@dataclass(frozen=True, slots=True)
class Mapped:
    """A function, and its arguments by name for all elements: arrays have the mapped axis first, of this size.

    `common` has those arrays that the elements have in common, without that axis. An operator takes at most `most`
    axes, and which outputs are `wanted` if it has several. `library` is the arrays' module.
    """

    function: Callable[..., Any]
    size: int
    values: Mapping[str, Any]
    common: Mapping[str, Any]
    most: int
    library: Any

    @property
    def first(self) -> Any:
        return next(iter(self.values.values()))

    def call(self, changed: Callable[[Any], Any] = lambda each: each) -> Any:
        """Returns the function's output for the values, whose arrays are changed."""
        return self.function(*[changed(each) if _is_array(each) else each for each in self.values.values()])

    def each_of(self, output: Any, unfolded: Callable[[Any], Any] = lambda each: each) -> Any:
        """Returns the outputs with the mapped axis first; one that is not wanted is empty, and has none."""
        if not isinstance(output, tuple):
            return unfolded(output)
        wanted = self.values.get("wanted", [True] * len(output))
        pairs = zip(output, wanted, strict=True)
        return tuple(unfolded(each) if is_wanted else each for each, is_wanted in pairs)


Fold = Callable[[Mapped], Any]
"""Returns the output of all elements: arrays with the mapped axis first."""


def fold_into_batch(mapped: Mapped) -> Any:
    """Makes one call of a function that computes each image of a batch by itself."""
    size, values, first = mapped.size, mapped.values, mapped.first
    if first.ndim == mapped.most:  # the elements have no batch
        return mapped.each_of(mapped.call())
    shape = next((values[name] for name in INPUT_SHAPES if name in values), None)
    images = shape[0] if shape else first.shape[1]

    def folded() -> Iterator[Any]:
        for name, value in values.items():
            if name == "boxes":
                yield _joined(_of_all_images(mapped, value, images))
            elif _is_array(value):
                yield _joined(value)
            else:
                yield [size * images, *value[1:]] if name in INPUT_SHAPES else value

    # Not by a division: the size may be 0. The gradient of RoI align has images, its forward pass has boxes.
    batch = images if shape else values.get("boxes", first).shape[1]
    return mapped.each_of(mapped.function(*folded()), lambda each: each.reshape(size, batch, *each.shape[1:]))


def fold_elements(mapped: Mapped) -> Any:
    """Makes one call of an element-wise function, or of one along axes counted from the end."""
    if mapped.first.ndim <= mapped.most:
        return mapped.call()
    result = mapped.call(_joined)
    return result.reshape(*mapped.first.shape[:2], *result.shape[1:])


def fold_into_rows(mapped: Mapped) -> Any:
    """Makes one call of a function of rows with common parameters, or one for each element if they differ.

    Gradients of parameters are sums over all rows of a call, but vmap needs them for each element.
    """
    values = mapped.values
    if not _have_common_parameters(mapped) or mapped.first.ndim > mapped.most:
        return call_each(mapped)
    rows = (mapped.common.get(name, value) if name in _PARAMETERS else value for name, value in values.items())
    return mapped.each_of(mapped.function(*rows))


def fold_into_leading_axes(mapped: Mapped) -> Any:
    """Makes one call of a function along an axis counted from the last, with any axes in front."""
    if mapped.first.ndim > mapped.most:
        return call_each(mapped)
    if mapped.first.ndim == 1:  # of scalars, whose axis is not vmap's
        return mapped.call(lambda each: each[..., None])[..., 0]
    return mapped.call()


def fold_into_channels(mapped: Mapped) -> Any:
    """Makes one call of a function that computes each channel by itself over the whole batch."""
    size, (batch, channels) = mapped.size, mapped.first.shape[1:3]

    def folded(each: Any) -> Any:
        if each.ndim == 2:
            return each.reshape(-1)
        return each.swapaxes(0, 1).reshape(batch, size * channels, *each.shape[3:])

    def unfolded(each: Any) -> Any:
        if each.ndim > 1:
            return each.reshape(batch, size, channels, *each.shape[2:]).swapaxes(0, 1)
        return each.reshape(size, each.shape[0] // size if size else channels)

    return mapped.each_of(mapped.call(folded), unfolded)


def fold_into_batch_with_parameters(mapped: Mapped) -> Any:
    """Makes one call of a function of images with common parameters, or one for each element if they differ."""
    if not mapped.size or mapped.first.ndim == 1 or not _have_common_parameters(mapped):
        return call_each(mapped)
    size, images = mapped.size, mapped.first.shape[1]
    common = {name: mapped.common[name] for name in _PARAMETERS & mapped.common.keys()}
    joined = (
        common[name] if name in common else _joined(value) if _is_array(value) else value
        for name, value in mapped.values.items()
    )
    return mapped.each_of(mapped.function(*joined), lambda each: each.reshape(size, images, *each.shape[1:]))


def fold_losses(mapped: Mapped) -> Any:
    """Makes one call of an element-wise loss, or of its gradient; the reduction is done here."""
    values, size, library = mapped.values, mapped.size, mapped.library
    shape = values["input"].shape[1:]
    cells = math.prod(shape)
    divisor = {1: cells, 3: shape[0] if shape else 1}.get(values["reduction"], 1)

    def flat(each: Any) -> Any:
        aligned = each.reshape(size, *[1] * (len(shape) + 1 - each.ndim), *each.shape[1:])
        return library.broadcast_to(aligned, (size, *shape)).reshape(size, cells)

    arguments = {name: flat(each) if _is_array(each) else each for name, each in values.items()}
    if "grad_output" in values:
        arguments["grad_output"] = arguments["grad_output"] / max(divisor, 1)
    result = mapped.function(*{**arguments, "reduction": 0}.values())
    if "grad_output" in values or not values["reduction"]:
        return result.reshape(size, *shape)
    return result.sum(1) / divisor


def fold_classes(mapped: Mapped) -> Any:
    """Makes one call of a likelihood with common weights, or of its gradient; the reduction is done here."""
    values, size, library = mapped.values, mapped.size, mapped.library
    if not size or "weight" in _own_parameters(mapped):
        return call_each(mapped)
    leading = values.get("input", values.get("log_probs"))
    target, weight, reduction = values["target"], mapped.common.get("weight"), values["reduction"]
    shape, is_gradient = leading.shape[1:], "grad_output" in values

    def rows(each: Any) -> Any:
        return each if len(shape) == 1 else _joined(each)

    def row_values() -> Iterator[Any]:
        for name, value in values.items():
            if name == "grad_output":
                grad = value / values["total_weight"] if reduction == 1 else value
                aligned = grad if reduction == 0 else grad.reshape(size, *[1] * (target.ndim - 1))
                yield rows(library.broadcast_to(aligned, target.shape))
            elif name == "total_weight":
                yield mapped.library.ones_like(value[0])
            elif name in ("weight", "reduction"):
                yield weight if name == "weight" else 0
            else:
                yield rows(value) if _is_array(value) else value

    found = mapped.function(*row_values())
    if is_gradient:
        return found.reshape(size, *shape)
    losses, *others = found
    losses = losses.reshape(target.shape)
    ignored = target == values["ignore_index"]
    own = library.ones_like(losses) if weight is None else weight[library.where(ignored, 0, target)]
    total = library.where(ignored, library.zeros_like(own), own).reshape(size, -1).sum(1)
    if reduction:
        losses = losses.reshape(size, -1).sum(1)
    loss = losses / total if reduction == 1 else losses
    return loss, *(each.reshape(size, *shape) for each in others[:-1]), total


def fold_convolution(mapped: Mapped) -> Any:
    """Makes one call: elements with a common weight form its batch, those with different weights its groups.

    Gradients of weights are sums over the batch of a call, but vmap needs them for each element.
    """
    size, values, images = mapped.size, mapped.values, mapped.first.shape[1]
    if not size or _have_common_parameters(mapped):
        return fold_into_batch_with_parameters(mapped)

    def grouped() -> Iterator[Any]:
        for name, value in values.items():
            if name in _PARAMETERS:
                yield value if value is None else _joined(value)
            elif _is_array(value):
                yield value.swapaxes(0, 1).reshape(images, size * value.shape[2], *value.shape[3:])
            elif name == "groups":
                yield size * value
            else:
                yield [size * value[0]] if name == "bias_sizes" and value else value

    def unfolded(each: Any, position: int) -> Any:
        if position:  # the gradient of a weight or a bias
            return each.reshape(size, each.shape[0] // size, *each.shape[1:])
        return each.reshape(images, size, each.shape[1] // size, *each.shape[2:]).swapaxes(0, 1)

    found = mapped.function(*grouped())
    if not isinstance(found, tuple):
        return unfolded(found, 0)
    marked = zip(found, values["wanted"], strict=True)
    return tuple(unfolded(each, at) if is_wanted else each for at, (each, is_wanted) in enumerate(marked))


def call_each(mapped: Mapped) -> Any:
    """Makes one call for each element."""
    values, size, stack = list(mapped.values.values()), mapped.size, mapped.library.stack
    if not size:  # in PyTorch alone; the results' shapes are those of any element
        values = [each.new_zeros(1, *each.shape[1:]) if _is_array(each) else each for each in values]
    found = [
        mapped.function(*[each[element] if _is_array(each) else each for each in values])
        for element in range(size or 1)
    ]
    if isinstance(found[0], tuple):
        return tuple(stack(each)[:size] for each in zip(*found, strict=True))
    return stack(found)[:size]


def _have_common_parameters(mapped: Mapped) -> bool:
    return not _own_parameters(mapped) and not any(mapped.values.get("wanted", ())[1:])


def _own_parameters(mapped: Mapped) -> set[str]:
    """Returns the names of the parameters that differ between elements."""
    given = {name for name in _PARAMETERS & mapped.values.keys() if mapped.values[name] is not None}
    return given - mapped.common.keys()


def _is_array(value: Any) -> bool:
    return hasattr(value, "swapaxes")


def _joined(array: Any) -> Any:
    """Returns the array with its first two axes joined."""
    first, second, *rest = array.shape
    return array.reshape(first * second, *rest)


def _of_all_images(mapped: Mapped, boxes: Any, images: int) -> Any:
    """Returns the boxes (size, M, 5) with their numbers among all images; -1 for no image."""
    library, image, corners = mapped.library, boxes[..., :1], boxes[..., 1:]
    first = (library.ones_like(image).cumsum(0) - 1) * images
    number = library.where((image >= 0) & (image < images), image + first, -library.ones_like(image))
    return library.concatenate([number, corners], -1)
