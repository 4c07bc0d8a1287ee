"""Checks and computes one call in numpy, by the rules of a server."""

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from aclgrad.errors import InputValuesRequiredError, InvalidFieldError, LimitExceededError
from aclgrad.masks import Pooling, argmax_of_mask, mask_layout
from aclgrad.operators.cases import arrays_of
from aclgrad.operators.parts import definition_of
from aclgrad.operators.validation import check_call, find_operator
from aclgrad.operators.values import (
    ArgmaxRule,
    BoolRule,
    BoxRule,
    IndexRule,
    ValueRule,
    VarianceRule,
    WindowRule,
    guarantees,
    is_read_as_sent,
    remedy_of,
    words_of,
)
from aclgrad.products import Product
from aclgrad.reference import define
from aclgrad.sources import InMessage
from aclgrad.tensors import TensorType, TensorView, array_of_view, view_of_array
from aclgrad.wire.messages import OperatorCall

Array = np.ndarray[Any, Any]

MAX_TENSOR_BYTES: Final = 2**31
_REMEDY: Final = "send values in that range"


@dataclass(frozen=True, slots=True)
class Made(InMessage):
    """The bytes of a step's output, and the rule that its values always follow."""

    promise: ValueRule | None = None
    stays_inside: bool = False
    producer: int | None = None

    @property
    def step(self) -> int | None:
        return self.producer


def compute(call: OperatorCall, product: Product, shape_only: bool) -> tuple[TensorView, ...]:
    """Returns all outputs of a call; raises a RequestError if a server would refuse it."""
    spec = find_operator(call.operator, product)
    arguments = check_call(call, spec, product)
    given = {tensor.name: tensor for tensor in call.inputs}
    for name, sent in given.items():
        check_size(f"inputs[{name}].shape", sent.type)
    outputs = {each.name: each.infer(arguments) for each in spec.outputs}
    for name, type in outputs.items():
        check_size(f"outputs[{name}]", type)
    inputs: dict[str, Array | tuple[int, ...] | None] = {}
    for each in spec.inputs_of(given):
        tensor = given.get(each.name)
        if tensor is None:
            inputs[each.name] = None
        elif tensor.data is not None or tensor.type.element_count == 0:
            inputs[each.name] = _values(tensor, each.rule(arguments, product))
        elif each.takes_shape(product, shape_only) or (shape_only and not each.matters(arguments)):
            inputs[each.name] = tensor.type.shape
        else:
            field = f"inputs[{each.name}]"
            raise InputValuesRequiredError.at(field, "came without values", "send the array instead of its shape")
    # As on a device, numbers beyond a dtype's range become infinite, and inf and NaN propagate.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        if spec.is_skipped(arguments):
            made = {name: np.zeros(each.shape) for name, each in outputs.items()}
        else:
            returned = arrays_of(define(spec.name, inputs, arguments.attributes))
            made = dict(zip((each.name for each in spec.returned), returned, strict=True))
            inside = definition_of(spec.name).inside
            if inside is not None:
                arrays = {"input" if name == "self" else name: array for name, array in inputs.items()}
                made |= {
                    each.name: inside(**arrays, **arguments.attributes) for each in spec.outputs if each.stays_inside
                }
        tensors = []
        for output in spec.outputs:
            if not call.outputs or output.name in call.outputs:
                view = view_of_array(output.name, made[output.name].astype(outputs[output.name].dtype.numpy))
                assert view.data is not None
                promise = None if output.guarantees is None else output.guarantees(arguments, product)
                source = Made(view.data.nbytes, 0, view.data, promise, output.stays_inside)
                tensors.append(replace(view, source=source))
    return tuple(tensors)


def check_size(field: str, type: TensorType) -> None:
    """Raises LimitExceededError if a tensor is too large."""
    if type.size_bytes > MAX_TENSOR_BYTES:
        problem = f"takes {type.size_bytes} bytes as {type} and the limit is {MAX_TENSOR_BYTES}"
        raise LimitExceededError.at(field, problem, "send a smaller tensor")


def _values(tensor: TensorView, rule: ValueRule | None) -> Array:
    """Returns the values of an input; raises InvalidFieldError if they break its rule."""
    is_sent = tensor.data is not None
    array = array_of_view(tensor) if is_sent else np.empty(tensor.type.shape, tensor.type.dtype.numpy)
    if isinstance(tensor.source, Made) and tensor.source.step is not None:
        _check_made(tensor, tensor.source, rule)
    if rule is None or not array.size:
        return array
    field = f"inputs[{tensor.name}].data"
    match rule:
        case IndexRule(bound, ignored) if (((array < 0) | (array >= bound)) & (array != ignored)).any():
            raise InvalidFieldError.at(field, f"has a value outside of 0 to {bound - 1}", _REMEDY)
        case ArgmaxRule(pooling) | WindowRule(pooling) if not _lie_in_windows(array, pooling):
            problem = "has an index outside of its pooling window"
            raise InvalidFieldError.at(field, problem, "send the indices that the pooling returned")
        case BoolRule() if array.view(np.uint8).max() > 1:
            raise InvalidFieldError.at(field, "has a byte that is neither 0 nor 1", remedy_of(rule))
        case BoxRule() if not np.isfinite(array * max(rule.spatial_scale, 1.0)).all():
            raise InvalidFieldError.at(field, "has a box that is not finite", "send finite boxes")
        case BoxRule(images=int(images)) if ((array[:, 0] < 0) | (array[:, 0] >= images)).any():
            raise InvalidFieldError.at(field, "has a box of no image", f"send images from 0 to {images - 1}")
        case VarianceRule() if not _are_reciprocals(array, rule):
            raise InvalidFieldError.at(field, "has a value outside of 0 to 1 / sqrt(eps)", remedy_of(rule))
    return array


def _check_made(tensor: TensorView, source: Made, rule: ValueRule | None) -> None:
    """Raises InvalidFieldError unless the step that made the values guarantees the input's rule."""
    # Bools made by a step are 0 or 1.
    if isinstance(rule, BoolRule) or (rule is None and not source.stays_inside) or not tensor.type.element_count:
        return
    field, remedy = f"inputs[{tensor.name}].output_of", "send the values themselves"
    if rule is None:
        problem = f"names an output of step {source.step} that has a form of the device's own"
        raise InvalidFieldError.at(field, problem, "name it in the gradient of that step, or another output")
    if tensor.view is not None:
        problem = "has a view, and its values have a rule that is checked for whole tensors"
        raise InvalidFieldError.at(field, problem, remedy)
    if not source.stays_inside and not is_read_as_sent(rule, tensor.type):
        raise InvalidFieldError.at(field, f"is {tensor.type}, of which the device reads another form", remedy)
    if source.promise is None or not guarantees(source.promise, rule):
        promise = "guarantees no values" if source.promise is None else f"guarantees {words_of(source.promise)}"
        problem = f"names step {source.step}, which {promise}, and this input needs {words_of(rule)}"
        raise InvalidFieldError.at(field, problem, remedy)


def _are_reciprocals(values: Array, rule: VarianceRule) -> bool:
    """Returns whether each value is the reciprocal of a standard deviation, overflowed or not, or NaN."""
    least, most = np.finfo(np.float32).max ** -0.5, rule.eps**-0.5 * (1 + rule.tolerance)
    wide = values.astype(np.float64)
    return bool((np.isnan(wide) | np.isposinf(wide) | (wide == 0) | ((wide >= least) & (wide <= most))).all())


def _lie_in_windows(indices: Array, pooling: Pooling) -> bool:
    """Returns whether each index, or each entry of a mask, is a cell of its own window."""
    if indices.dtype == np.int8:
        indices = argmax_of_mask(indices, pooling, mask_layout(Product.ATLAS_A2, pooling.kernel_size))
    height, width = pooling.input_size
    cells = np.divmod(indices, width)
    firsts = np.meshgrid(*map(np.arange, indices.shape[-2:]), indexing="ij")
    is_inside = (indices >= 0) & (indices < height * width)
    for cell, first, span, stride, padding, dilation in zip(
        cells, firsts, pooling.span, pooling.stride, pooling.padding, pooling.dilation, strict=True
    ):
        offset = cell - (first * stride - padding)
        is_inside &= (offset >= 0) & (offset < span) & (offset % dilation == 0)
    return bool(is_inside.all())
