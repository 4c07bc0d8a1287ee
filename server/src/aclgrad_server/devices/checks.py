"""This server's limits on calls that the operator table allows, and the native runtime's checks of values."""

from collections.abc import Mapping
from dataclasses import astuple

import aclgrad_native as native
from aclgrad.errors import InputValuesRequiredError, InvalidFieldError, LimitExceededError
from aclgrad.masks import MaskLayout, Pooling
from aclgrad.operators.spec import Arguments, InputSpec
from aclgrad.operators.values import ArgmaxRule, BoolRule, BoxRule, IndexRule, ValueRule, VarianceRule, WindowRule
from aclgrad.products import Product, Work
from aclgrad.tensors import TensorType, TensorView
from aclgrad.wire.messages import OperatorCall

ValueCheck = native.IndexCheck | native.ArgmaxCheck | native.BoxCheck | native.VarianceCheck | native.BoolCheck


def check_work(work: Work, most: Work, least: float, why: str) -> None:
    """Raises LimitExceededError if operations of a kind exceed both `most` and `least`."""
    for found, bound in ((work.operations, most.operations), (work.matrix_operations, most.matrix_operations)):
        limit = max(bound, least)
        if found > limit:
            problem = f"takes {found:.3g} operations of {limit:.3g} at most: {why}"
            remedy = "make windows or sizes smaller, or split the call"
            raise LimitExceededError.at("call", problem, remedy, {"work": f"{found:.0f}", "limit": f"{limit:.0f}"})


def check_tensor_size(field: str, type: TensorType, limit: int) -> None:
    if type.size_bytes > limit:
        problem = f"takes {type.size_bytes} bytes as {type} and the limit is {limit}"
        remedy = "send a smaller tensor, or raise --max-tensor-bytes (ACLGRAD_MAX_TENSOR_BYTES) of the server"
        raise LimitExceededError.at(field, problem, remedy)


def check_stored_bytes(field: str, size_bytes: int, limit: int) -> None:
    """Checks the bytes of a view, which may be more than its shape takes."""
    if size_bytes > limit:
        problem = f"has {size_bytes} bytes and the limit is {limit}"
        remedy = (
            "send the bytes of the view alone, or raise --max-tensor-bytes (ACLGRAD_MAX_TENSOR_BYTES) of the server"
        )
        raise LimitExceededError.at(f"{field}.data", problem, remedy)


def check_presence(
    spec: InputSpec, tensor: TensorView, arguments: Arguments, product: Product, shape_only: bool | None
) -> None:
    if tensor.source.has_values or tensor.type.element_count == 0:
        return
    field = f"inputs[{spec.name}]"
    is_mistrusted = shape_only is False
    # No device reads an input that the operator does not get.
    if not spec.matters(arguments) and not (is_mistrusted and spec.read_if is None):
        return
    if spec.unread_on is None and not (spec.of_outputs and is_mistrusted):
        remedy = "send the values: the operator reads them"
        if spec.of_outputs:
            remedy = f"send the values, or ask for other outputs than {' and '.join(spec.of_outputs)}"
        raise InvalidFieldError.at(f"{field}.data", "is missing", remedy)
    if not spec.takes_shape(product, shape_only) or (shape_only is None and spec.read_for(arguments)):
        why = "the server was started with --shape-only off" if is_mistrusted else f"{product} may read them here"
        raise InputValuesRequiredError(
            f"{field} came without values, and {why}",
            field=field,
            remedy="send the array instead of its shape",
            metadata={"product": product},
        )


def check_output_memory(call: OperatorCall, types: Mapping[str, TensorType]) -> None:
    """Raises InvalidFieldError for shared memory that does not fit its output, or shares bytes with another tensor."""
    if not call.output_memory:
        return
    for name, memory in call.output_memory.items():
        if name not in types:
            remedy = f"name {' or '.join(types)}, the outputs that are wanted"
            raise InvalidFieldError.at(f"output_memory[{name}]", "is for no wanted output", remedy)
        if memory.nbytes != types[name].size_bytes:
            problem, remedy = (
                f"is {memory.nbytes}, but {types[name]} takes {types[name].size_bytes}",
                "send exactly the size of the output",
            )
            raise InvalidFieldError.at(f"output_memory[{name}].size_bytes", problem, remedy)
    # Inputs too: a retried call would read its own output.
    others = [(f"inputs[{each.name}]", each.source.shared) for each in call.inputs]
    for name, memory in call.output_memory.items():
        field = f"output_memory[{name}]"
        for other, range in others:
            if range is not None and memory.overlaps(range):
                raise InvalidFieldError.at(field, f"shares bytes with {other}", "name a range of its own")
        others.append((field, memory))


def check_of(rule: ValueRule | None, type: TensorType, max_roi_work: int) -> tuple[ValueCheck | None, bool]:
    """Returns the check of an input of this type, and whether the device reads only a prefix of the input."""
    if isinstance(rule, IndexRule):
        return native.IndexCheck(rule.bound, type.dtype.itemsize, rule.ignored), False
    if isinstance(rule, BoxRule):
        return native.BoxCheck(native.RoiAlign(*astuple(rule)), max_roi_work, type.dtype.itemsize), False
    if isinstance(rule, VarianceRule):
        return native.VarianceCheck(rule.eps, rule.tolerance, rule.is_converted), False
    if isinstance(rule, BoolRule):
        return native.BoolCheck(), False
    if isinstance(rule, ArgmaxRule):
        return _mask_check(rule, type), True
    if isinstance(rule, WindowRule):
        encoding = native.MaskEncoding.NONE if type == rule.read_as else native.MaskEncoding.INT32
        return _argmax_check(rule.pooling, type.shape[:-2], type.dtype.itemsize, encoding), False
    return None, False


def _mask_check(rule: ArgmaxRule, type: TensorType) -> ValueCheck | None:
    is_mask = type.dtype is rule.mask.dtype
    is_bits = rule.layout is MaskLayout.UINT16_BITS
    if is_mask and is_bits:
        # Any bits are legal: the device ignores bits for cells in the padding.
        return None
    item_bytes = 4 if is_mask else type.dtype.itemsize
    encoding = native.MaskEncoding.NONE if item_bytes == 4 else native.MaskEncoding.INT32
    if is_bits:
        encoding = native.MaskEncoding.BITS
    return _argmax_check(rule.pooling, rule.mask.shape[:-2], item_bytes, encoding)


def _argmax_check(
    pooling: Pooling, leading: tuple[int, ...], item_bytes: int, encoding: native.MaskEncoding
) -> ValueCheck:
    windows = native.Pooling(
        pooling.input_size, pooling.output_size, pooling.kernel_size, pooling.stride, pooling.padding, pooling.dilation
    )
    batch, channels = (1, *leading)[-2:]
    return native.ArgmaxCheck(windows, item_bytes, batch, channels, encoding)
