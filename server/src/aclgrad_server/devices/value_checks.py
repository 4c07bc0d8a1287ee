"""The rules of `aclgrad.operators.values` as checks of the native runtime."""

from dataclasses import astuple

import aclgrad_native as native
from aclgrad.masks import MaskLayout, Pooling
from aclgrad.operators.values import ArgmaxRule, BoxRule, IndexRule, ValueRule, VarianceRule, WindowRule
from aclgrad.tensors import TensorType

ValueCheck = native.IndexCheck | native.ArgmaxCheck | native.BoxCheck | native.VarianceCheck


def check_of(rule: ValueRule | None, type: TensorType, max_roi_work: int) -> tuple[ValueCheck | None, bool]:
    """Returns the check of an input of this type, and whether the device reads only a prefix of the input."""
    if isinstance(rule, IndexRule):
        return native.IndexCheck(rule.bound, type.dtype.itemsize), False
    if isinstance(rule, BoxRule):
        return native.BoxCheck(native.RoiAlign(*astuple(rule)), max_roi_work), False
    if isinstance(rule, VarianceRule):
        return native.VarianceCheck(rule.eps, rule.tolerance, rule.is_converted), False
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
