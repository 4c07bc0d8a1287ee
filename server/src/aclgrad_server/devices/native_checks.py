"""What native code checks of requests: the scan of messages, and the rules of `aclgrad.operators.values`."""

from dataclasses import astuple

import aclgrad_native
from aclgrad.errors import LimitExceededError, MalformedRequestError
from aclgrad.masks import MaskLayout
from aclgrad.operators.values import ArgmaxRule, BoxRule, IndexRule, ValueRule
from aclgrad.tensors import TensorType
from aclgrad.wire.limits import MAX_REST_BYTES

ValueCheck = aclgrad_native.IndexCheck | aclgrad_native.ArgmaxCheck | aclgrad_native.BoxCheck


def extract_payloads(message: bytes | memoryview, path: tuple[int, ...]) -> tuple[bytes, list[memoryview]]:
    """Does what `aclgrad.wire.scan` does, faster; raises LimitExceededError for more than MAX_REST_BYTES of rest."""
    try:
        return aclgrad_native.extract_payloads(message, path, MAX_REST_BYTES)
    except aclgrad_native.RestTooLargeError:
        problem = f"has more than {MAX_REST_BYTES} bytes beside the data of its tensors"
        raise LimitExceededError.at("message", problem, "send tensors in Tensor.data, and no unknown fields") from None
    except aclgrad_native.MalformedMessageError as error:
        raise MalformedRequestError(str(error)) from None


def check_of(rule: ValueRule | None, type: TensorType, max_roi_work: int) -> tuple[ValueCheck | None, bool]:
    """Returns the check of an input of this type, and whether the device reads only a part of what it is given."""
    if isinstance(rule, IndexRule):
        return aclgrad_native.IndexCheck(rule.bound), False
    if isinstance(rule, BoxRule):
        return aclgrad_native.BoxCheck(aclgrad_native.RoiAlign(*astuple(rule)), max_roi_work), False
    if isinstance(rule, ArgmaxRule):
        return _argmax_check(rule, type), True
    return None, False


def _argmax_check(rule: ArgmaxRule, type: TensorType) -> ValueCheck | None:
    is_mask = type.dtype is rule.mask.dtype
    is_bits = rule.layout is MaskLayout.UINT16_BITS
    if is_mask and is_bits:
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
    encoding = aclgrad_native.MaskEncoding.NONE if item_bytes == 4 else aclgrad_native.MaskEncoding.INT32
    if is_bits:
        encoding = aclgrad_native.MaskEncoding.BITS
    return aclgrad_native.ArgmaxCheck(pooling, item_bytes, batch, channels, encoding)
