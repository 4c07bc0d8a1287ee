"""The rules of `aclgrad.operators.values` as the checks that native code makes of them."""

import aclgrad_native
from aclgrad.masks import MaskLayout
from aclgrad.operators.values import ArgmaxRule, BoxRule, IndexRule, ValueRule
from aclgrad.tensors import TensorType

ValueCheck = aclgrad_native.IndexCheck | aclgrad_native.ArgmaxCheck | aclgrad_native.BoxCheck


def check_of(rule: ValueRule | None, type: TensorType, max_roi_work: int) -> tuple[ValueCheck | None, bool]:
    """Returns the check of an input of this type, and whether the device reads only a part of what it is given."""
    if isinstance(rule, IndexRule):
        return aclgrad_native.IndexCheck(rule.bound), False
    if isinstance(rule, BoxRule):
        return aclgrad_native.BoxCheck(_roi_align(rule), max_roi_work), False
    if isinstance(rule, ArgmaxRule):
        return _argmax_check(rule, type), True
    return None, False


def _argmax_check(rule: ArgmaxRule, type: TensorType) -> ValueCheck | None:
    is_mask = type.dtype is rule.mask.dtype
    if is_mask and rule.layout is MaskLayout.UINT16_BITS:
        # Any bits are legal: the device ignores one that stands for a cell in the padding.
        return None
    pooling = aclgrad_native.Pooling(
        rule.pooling.input_size,
        rule.pooling.output_size,
        rule.pooling.kernel_size,
        rule.pooling.stride,
        rule.pooling.padding,
    )
    batch, channels = (1, *rule.mask.shape[:-2])[-2:]
    item_bytes = 4 if is_mask else type.dtype.itemsize
    if rule.layout is MaskLayout.UINT16_BITS:
        encoding = aclgrad_native.MaskEncoding.BITS
    else:
        encoding = aclgrad_native.MaskEncoding.NONE if item_bytes == 4 else aclgrad_native.MaskEncoding.INT32
    return aclgrad_native.ArgmaxCheck(pooling, item_bytes, batch, channels, encoding)


def _roi_align(rule: BoxRule) -> aclgrad_native.RoiAlign:
    return aclgrad_native.RoiAlign(
        rule.channels,
        rule.height,
        rule.width,
        rule.pooled_height,
        rule.pooled_width,
        rule.spatial_scale,
        rule.sampling_ratio,
        rule.aligned,
    )
