"""The rows of the operator table that move elements.

What CANN writes in place is an output here, which begins as a copy of the tensor that would be written, so no tensor of
a program ever changes.
"""

import math
from collections.abc import Iterator
from typing import Final

import numpy as np

from aclgrad.errors import Violation
from aclgrad.operators.families.elementwise.spec import LARGEST, RANKS, floats
from aclgrad.operators.promotion import category, holds, promoted
from aclgrad.operators.rules import axis_in_range, broadcasts
from aclgrad.operators.spec import (
    MAX_TENSORS,
    Arguments,
    AttributeKind,
    AttributeSpec,
    InputSpec,
    OperatorKind,
    OperatorSpec,
    OutputSpec,
    Tolerance,
)
from aclgrad.operators.tolerance import EXACT, RESULTS
from aclgrad.products import Product
from aclgrad.tensors import DType, TensorType, View, row_major

_DTYPES: Final = floats("int8", "uint8", "int32", "int64", "bool")
_MOST: Final = 2**62


def _self(arguments: Arguments) -> TensorType:
    return arguments.inputs["self"]


def _part(arguments: Arguments) -> tuple[tuple[int, ...], View]:
    """Returns the shape and the place of what is written: without a shape, all of it."""
    given, whole = arguments.attributes["shape"], _self(arguments).shape
    if given is None:
        return whole, View(0, row_major(whole))
    shape, strides = arguments.ints("shape"), arguments.attributes["strides"]
    return shape, View(arguments.int("offset"), row_major(shape) if strides is None else arguments.ints("strides"))


def _is_read(arguments: Arguments) -> bool:
    """Whether some elements are left as they were. No two elements of a part are one, so counting is enough."""
    return math.prod(_part(arguments)[0]) < _self(arguments).element_count


def _overlaps(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Says whether elements may be in one place: each stride has to reach beyond all that smaller ones reach."""
    reach = 0
    for stride, size in sorted((stride, size) for size, stride in zip(shape, strides, strict=True) if size > 1):
        if stride <= reach:
            return True
        reach += stride * (size - 1)
    return False


def _check_copy(arguments: Arguments, product: Product) -> Iterator[Violation]:
    given, strides = arguments.attributes["shape"], arguments.attributes["strides"]
    offset = arguments.int("offset")
    if given is None and (offset or strides is not None):
        field = "attributes[strides]" if offset == 0 else "attributes[offset]"
        yield Violation(field, "is there without a shape", "send the shape of the part, or leave it out")
        return
    shape, view = _part(arguments)
    if not view.fits(shape):
        problem = f"has {len(view.strides)} values, and the shape has {len(shape)}"
        yield Violation("attributes[strides]", problem, "send one for each size")
        return
    whole = _self(arguments)
    if 0 not in shape and view.end(shape) > whole.element_count:
        problem = f"is {shape}, whose last element is {view.end(shape)}, and inputs[self] has {whole.element_count}"
        yield Violation("attributes[shape]", problem, "send a part of self")
    elif 0 not in shape and _overlaps(shape, view.strides_of(shape)):
        problem = f"is {view.strides_of(shape)}, with which elements of {shape} may be in one place"
        yield Violation("attributes[strides]", problem, "send strides of which each reaches beyond the smaller ones")
    source = arguments.inputs["src"].shape
    if not broadcasts(source, shape):
        yield Violation("inputs[src].shape", f"is {source}", f"send a shape that broadcasts to {shape}")


def _check_fill(arguments: Arguments, product: Product) -> Iterator[Violation]:
    value, dtype = arguments.scalar("value"), _self(arguments).dtype
    if category(dtype) < 2 and not holds(dtype, value):
        yield Violation(
            "attributes[value]", f"is {value}, which {dtype} does not hold", "send an integer that it holds"
        )
    elif category(dtype) == 2:
        with np.errstate(over="ignore"):
            if not np.isfinite(np.asarray(float(value)).astype(dtype.numpy)):
                yield Violation("attributes[value]", f"is {value}, which overflows {dtype}", "send a smaller number")


def _is_nothing(type: TensorType) -> bool:
    """Says whether it is of those that may stand beside tensors of any shape."""
    return type.shape == (0,)


def _joined(arguments: Arguments) -> TensorType:
    tensors = arguments.tensors("tensors")
    dtype: DType = tensors[0].dtype
    for each in tensors:
        dtype = promoted(dtype, each.dtype)
    kept = [each for each in tensors if not _is_nothing(each)]
    if not kept:
        return TensorType(dtype, (0,))
    shape, axis = kept[0].shape, arguments.int("dim") % len(kept[0].shape)
    return TensorType(dtype, (*shape[:axis], sum(each.shape[axis] for each in kept), *shape[axis + 1 :]))


def _joins(arguments: Arguments) -> bool:
    """Says whether all have the result's dtype, and nothing stands before the axis."""
    result, tensors = _joined(arguments), arguments.tensors("tensors")
    axis = arguments.int("dim") % max(len(result.shape), 1)
    is_plain = all(each.dtype is result.dtype and each.element_count for each in tensors)
    return is_plain and all(size == 1 for size in result.shape[:axis])


def _check_cat(arguments: Arguments, product: Product) -> Iterator[Violation]:
    tensors = arguments.tensors("tensors")
    if len(tensors) > MAX_TENSORS:
        yield Violation("inputs[tensors]", f"are {len(tensors)} tensors", f"send at most {MAX_TENSORS} at a time")
        return
    kept = [number for number, each in enumerate(tensors) if not _is_nothing(each)]
    first = kept[0] if kept else 0
    yield from axis_in_range(arguments, "dim", f"tensors_{first}")
    rank = tensors[first].rank
    if not -rank <= arguments.int("dim") < rank:
        return
    axis = arguments.int("dim") % rank
    for number in kept:
        shape, like = tensors[number].shape, tensors[first].shape
        if len(shape) != rank or (*shape[:axis], *shape[axis + 1 :]) != (*like[:axis], *like[axis + 1 :]):
            problem = f"is {shape}, and inputs[tensors_{first}] is {like}"
            yield Violation(f"inputs[tensors_{number}].shape", problem, f"make all sizes equal but that of axis {axis}")
            return
    if (dtype := _joined(arguments).dtype.name) not in _DTYPES[product]:
        yield Violation("inputs[tensors].data_type", f"make {dtype}, which is not served", "send fewer types")


def _tolerance(output: str) -> Tolerance:
    return RESULTS.get(output, EXACT)


def _sizes(name: str, summary: str) -> AttributeSpec:
    return AttributeSpec(
        name,
        summary,
        AttributeKind.INTS,
        lengths=RANKS,
        minimum=0,
        maximum=_MOST,
        is_optional=True,
        is_passed=False,
    )


SPECS: Final = (
    OperatorSpec(
        name="inplace_copy",
        symbol="aclnnInplaceCopy",
        summary="Copies a tensor into another one, of any type, or into a part of it, and gives the other one.",
        formula=(
            "self_ref = self, but the part of it that has the shape, offset and strides is src, converted: a number is "
            "true unless it is 0, integers keep their lowest bits, and real numbers lose what is behind the point. "
            "Numbers beyond the range of integers become any (PyTorch: aten::copy_, aten::as_strided_scatter)."
        ),
        inputs=(
            InputSpec("self", "What is written to, which stays as it is. Any shape.", _DTYPES, RANKS, read_if=_is_read),
            InputSpec("src", "What is copied. Any shape that broadcasts to the part.", _DTYPES, RANKS),
        ),
        attributes=(
            _sizes("shape", "The shape of the part that is written; all of self if it is left out."),
            AttributeSpec(
                "offset",
                "The element of self that is the first of the part.",
                AttributeKind.INT,
                default=0,
                minimum=0,
                maximum=_MOST,
                is_passed=False,
            ),
            _sizes("strides", "How many elements of self lie between neighbours of the part; row-major without."),
        ),
        outputs=(
            OutputSpec(
                "self_ref",
                "self with the part, with its shape and dtype.",
                _self,
                begins_as="self",
                view=_part,
            ),
        ),
        check=_check_copy,
        tolerance=lambda arguments, *_: _tolerance(_self(arguments).dtype.name),
        kind=OperatorKind.VALUE,
        runs_on_nothing=lambda arguments: _self(arguments).element_count > 0,
        is_spatial=False,
        batch_axes=lambda _: None,
    ),
    OperatorSpec(
        name="inplace_fill_scalar",
        symbol="aclnnInplaceFillScalar",
        summary="Gives a tensor of a shape and dtype, all of whose elements are one number.",
        formula="self_ref = value (PyTorch: aten::fill_.Scalar, aten::full).",
        inputs=(
            InputSpec(
                "self",
                "What is written to, which stays as it is: only its shape and dtype count. Any shape.",
                _DTYPES,
                RANKS,
                unread_on=frozenset(Product),
                read_if=lambda _: False,
            ),
        ),
        attributes=(AttributeSpec("value", "The number.", AttributeKind.SCALAR, minimum=-LARGEST, maximum=LARGEST),),
        outputs=(OutputSpec("self_ref", "The tensor, with the shape and dtype of self.", _self, begins_as="self"),),
        check=_check_fill,
        tolerance=lambda arguments, *_: _tolerance(_self(arguments).dtype.name),
        kind=OperatorKind.VALUE,
        is_spatial=False,
    ),
    OperatorSpec(
        name="cat",
        symbol="aclnnCat",
        summary="Joins tensors along an axis.",
        formula=(
            "out = the tensors one after the other along dim, in the type that all are promoted to; one of shape (0,) "
            "count for nothing (PyTorch: aten::cat)."
        ),
        inputs=(InputSpec("tensors", "The tensors, of one shape but along dim.", _DTYPES, RANKS[1:], is_list=True),),
        attributes=(
            AttributeSpec(
                "dim",
                "The axis; a negative one counts from the last.",
                AttributeKind.INT,
                default=0,
                minimum=-max(RANKS),
                maximum=max(RANKS) - 1,
            ),
        ),
        outputs=(OutputSpec("out", "The joined tensor.", _joined),),
        check=_check_cat,
        tolerance=lambda arguments, *_: _tolerance(_joined(arguments).dtype.name),
        kind=OperatorKind.VALUE,
        runs_on_nothing=lambda arguments: _joined(arguments).element_count > 0,
        is_spatial=False,
        batch_axes=lambda _: None,
        joins=_joins,
    ),
)
