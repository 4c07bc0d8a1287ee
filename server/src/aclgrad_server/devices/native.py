"""The native runtime, which only this module of the server imports: its names, and the rules of
`aclgrad.operators.values` as its checks."""

from dataclasses import astuple

import aclgrad_native
from aclgrad.masks import MaskLayout, Pooling
from aclgrad.operators.values import ArgmaxRule, BoxRule, IndexRule, ValueRule, WindowRule
from aclgrad.tensors import TensorType
from aclgrad_native import AclError as AclError
from aclgrad_native import AclLibrary as AclLibrary
from aclgrad_native import CallPlan as CallPlan
from aclgrad_native import Cancellation as Cancellation
from aclgrad_native import Completions as Completions
from aclgrad_native import Device as Device
from aclgrad_native import ExecutorStatistics as ExecutorStatistics
from aclgrad_native import InvalidValueError as InvalidValueError
from aclgrad_native import LibraryError as LibraryError
from aclgrad_native import MalformedMessageError as MalformedMessageError
from aclgrad_native import OutOfMemoryError as OutOfMemoryError
from aclgrad_native import PoolStatistics as PoolStatistics
from aclgrad_native import RestTooLargeError as RestTooLargeError
from aclgrad_native import StagedTensor as StagedTensor
from aclgrad_native import extract_payloads as extract_payloads
from aclgrad_native import installed_versions as installed_versions
from aclgrad_native import library_files as library_files
from aclgrad_native import open as open
from aclgrad_native import operator_symbols as operator_symbols

ValueCheck = aclgrad_native.IndexCheck | aclgrad_native.ArgmaxCheck | aclgrad_native.BoxCheck


def check_of(rule: ValueRule | None, type: TensorType, max_roi_work: int) -> tuple[ValueCheck | None, bool]:
    """Returns the check of an input of this type, and whether the device reads only a prefix of the input."""
    if isinstance(rule, IndexRule):
        return aclgrad_native.IndexCheck(rule.bound, type.dtype.itemsize), False
    if isinstance(rule, BoxRule):
        return aclgrad_native.BoxCheck(aclgrad_native.RoiAlign(*astuple(rule)), max_roi_work), False
    if isinstance(rule, ArgmaxRule):
        return _mask_check(rule, type), True
    if isinstance(rule, WindowRule):
        encoding = aclgrad_native.MaskEncoding.NONE if type == rule.read_as else aclgrad_native.MaskEncoding.INT32
        return _argmax_check(rule.pooling, type.shape[:-2], type.dtype.itemsize, encoding), False
    return None, False


def _mask_check(rule: ArgmaxRule, type: TensorType) -> ValueCheck | None:
    is_mask = type.dtype is rule.mask.dtype
    is_bits = rule.layout is MaskLayout.UINT16_BITS
    if is_mask and is_bits:
        # Any bits are legal: the device ignores bits for cells in the padding.
        return None
    item_bytes = 4 if is_mask else type.dtype.itemsize
    encoding = aclgrad_native.MaskEncoding.NONE if item_bytes == 4 else aclgrad_native.MaskEncoding.INT32
    if is_bits:
        encoding = aclgrad_native.MaskEncoding.BITS
    return _argmax_check(rule.pooling, rule.mask.shape[:-2], item_bytes, encoding)


def _argmax_check(
    pooling: Pooling, leading: tuple[int, ...], item_bytes: int, encoding: aclgrad_native.MaskEncoding
) -> ValueCheck:
    native = aclgrad_native.Pooling(
        pooling.input_size, pooling.output_size, pooling.kernel_size, pooling.stride, pooling.padding, pooling.dilation
    )
    batch, channels = (1, *leading)[-2:]
    return aclgrad_native.ArgmaxCheck(native, item_bytes, batch, channels, encoding)
