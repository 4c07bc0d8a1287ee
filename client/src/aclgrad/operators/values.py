"""The rules for the values of inputs. The server checks them in native code, before a device reads the values.

A bad index on a device corrupts memory or ends the context, so each rule says exactly which values are legal, and of
which type the device reads them (`device_type`).
"""

import math
from dataclasses import dataclass

from aclgrad.masks import MaskLayout, Pooling
from aclgrad.tensors import TensorType


@dataclass(frozen=True, slots=True)
class IndexRule:
    """Every value is at least 0 and below `bound`, or `ignored`."""

    bound: int
    ignored: int | None = None

    def device_type(self, type: TensorType) -> TensorType:
        return type


@dataclass(frozen=True, slots=True)
class ArgmaxRule:
    """Every value is a cell of its own pooling window; the device reads it as a mask of the given layout and type.

    An int8 tensor is a mask already: its INT32 prefix is checked in the same way, its bits need no check.
    """

    pooling: Pooling
    layout: MaskLayout
    mask: TensorType

    def device_type(self, type: TensorType) -> TensorType:
        return self.mask


@dataclass(frozen=True, slots=True)
class WindowRule:
    """Every value is a cell of its own pooling window; the device reads integers of the given type."""

    pooling: Pooling
    read_as: TensorType

    def device_type(self, type: TensorType) -> TensorType:
        return self.read_as


@dataclass(frozen=True, slots=True)
class BoxRule:
    """Every box (image, x1, y1, x2, y2) is finite after scaling, and their total work is limited.

    The work is the number of bilinear samples and of cells that are passed over, in all channels. With a number of
    images, a box has one of these; and if its samples follow its size, an aligned one has a height and a width above 0.
    A device writes no output for other boxes.
    """

    channels: int
    height: int
    width: int
    pooled_height: int
    pooled_width: int
    spatial_scale: float
    sampling_ratio: int
    aligned: bool
    images: int | None = None

    def device_type(self, type: TensorType) -> TensorType:
        return type


@dataclass(frozen=True, slots=True)
class VarianceRule:
    """Every value is the reciprocal 1 / sqrt(var + eps) of a standard deviation, with a variance in float32's range.

    That is from 1 / sqrt(the largest float32) to 1 / sqrt(eps), which rounding may exceed by the share `tolerance`; 0
    for an infinite variance; infinity if a forward pass in float16 overflowed; or NaN. If `is_converted`, the device
    reads the variance instead, in float32: max(1 / value^2 - eps, 0), and -eps for infinity, so that it divides by 0.
    For any other value it would compute with another number.
    """

    eps: float
    is_converted: bool
    tolerance: float

    def device_type(self, type: TensorType) -> TensorType:
        return type


@dataclass(frozen=True, slots=True)
class BoolRule:
    """Every byte is 0 or 1. All inputs of the dtype bool that have no other rule follow it."""

    def device_type(self, type: TensorType) -> TensorType:
        return type


ValueRule = IndexRule | ArgmaxRule | WindowRule | BoxRule | VarianceRule | BoolRule


def guarantees(made: ValueRule, needed: ValueRule) -> bool:
    """Returns whether one rule implies the other."""
    if not isinstance(needed, IndexRule):
        return made == needed
    if isinstance(made, (ArgmaxRule, WindowRule)):
        return math.prod(made.pooling.input_size) <= needed.bound
    if not isinstance(made, IndexRule) or made.bound > needed.bound:
        return False
    return made.ignored is None or made.ignored == needed.ignored or 0 <= made.ignored < needed.bound


def is_read_as_sent(rule: ValueRule, type: TensorType) -> bool:
    """Returns whether the device reads a tensor of this type unchanged, and not in a form that the host makes."""
    return rule.device_type(type) == type and not (isinstance(rule, VarianceRule) and rule.is_converted)


def words_of(rule: ValueRule) -> str:
    """Returns the mask of values that follow the rule."""
    match rule:
        case IndexRule():
            return f"values below {rule.bound}" + ("" if rule.ignored is None else f", or {rule.ignored}")
        case ArgmaxRule() | WindowRule():
            sizes = " x ".join(map(str, rule.pooling.input_size))
            return f"a cell of its own window in a plane of {sizes} for each value"
        case BoolRule():
            return "bytes that are 0 or 1"
        case BoxRule():
            return "finite boxes of bounded work"
        case VarianceRule():
            return f"reciprocals of deviations with eps {rule.eps}"


def remedy_of(rule: ValueRule | None) -> str:
    """Returns the remedy for values that break the rule."""
    if isinstance(rule, VarianceRule):
        return "send what the forward pass saved as 1 / sqrt(var + eps), not a variance, and the same eps"
    if isinstance(rule, BoolRule):
        return "send bytes that are 0 or 1"
    return "send values in that range"
