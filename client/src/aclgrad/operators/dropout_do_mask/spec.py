"""aclnnDropoutDoMask: dropout by a mask of bits, which is also dropout's own gradient.

Devices round 1 - prob to the dtype first, so that bfloat16 with a prob of 0.1 is scaled by 1.113 instead of 1.111. The
longer masks that CANN takes are refused: they are those of other tensors.
"""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from aclgrad.errors import Violation
from aclgrad.operators.families.elementwise.spec import RANKS, floats
from aclgrad.operators.routes import FLOAT16
from aclgrad.operators.rules import equal_sizes
from aclgrad.operators.spec import (
    Arguments,
    AttributeKind,
    AttributeSpec,
    InputSpec,
    OperatorKind,
    OperatorSpec,
    OutputSpec,
    Tolerance,
)
from aclgrad.operators.tolerance import by_dtype
from aclgrad.products import Product
from aclgrad.tensors import DType

_DTYPES: Final = floats(without=(Product.ATLAS_INFERENCE,))
KEEPS_ALL: Final = 2.0**-52
"""The largest probability that devices take for 0."""


def mask_bytes(elements: int) -> int:
    """Returns the bytes of a mask: a bit for each element, in groups of 128."""
    return -(-elements // 128) * 16


def packed(kept: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Returns the mask of the elements that are not 0."""
    bits = np.packbits(kept.reshape(-1) != 0, bitorder="little")
    mask = np.zeros(mask_bytes(kept.size), np.uint8)
    mask[: bits.size] = bits
    return mask


def kept(prob: float, dtype: DType) -> float:
    """Returns the share that is kept, as devices have it."""
    return float(np.asarray(1 - prob).astype(dtype.numpy))


def _check(arguments: Arguments, product: Product) -> Iterator[Violation]:
    type, prob = arguments.inputs["self"], arguments.double("prob")
    expected = (mask_bytes(type.element_count),)
    field, of = "inputs[mask].shape", f"16 bytes for each 128 of the {type.element_count} elements of inputs[self]"
    yield from equal_sizes(field, arguments.inputs["mask"].shape, of, expected)
    keep = kept(prob, type.dtype)
    if prob < 1 and (keep == 0 or (type.dtype.name == "float16" and 1 / keep > FLOAT16.largest)):
        yield Violation("attributes[prob]", f"is {prob}, and {type.dtype} holds no 1 / (1 - prob)", "send 1")


SPEC = OperatorSpec(
    name="dropout_do_mask",
    symbol="aclnnDropoutDoMask",
    summary="Divides what a mask keeps by the share that is kept, and drops the rest: dropout, and its own gradient.",
    formula=(
        "Element i has bit i % 8, the least significant first, of mask[i // 8]. out = self / (1 - prob) where its bit "
        "is 1, else 0, with 1 - prob rounded to the dtype; self if prob is at most 2^-52 "
        "(PyTorch: aten::native_dropout_backward)."
    ),
    inputs=(
        InputSpec("self", "The tensor, or the gradient of the result. Any shape.", _DTYPES, RANKS),
        InputSpec("mask", "A bit for each element, 16 bytes for each 128.", dict.fromkeys(_DTYPES, ("uint8",)), (1,)),
    ),
    attributes=(
        AttributeSpec(
            "prob",
            "The probability that an element was dropped.",
            AttributeKind.DOUBLE,
            default=0.5,
            minimum=0,
            maximum=1,
        ),
    ),
    outputs=(OutputSpec("out", "The tensor, with the shape and dtype of self.", lambda given: given.inputs["self"]),),
    check=_check,
    tolerance=by_dtype(
        {
            "float32": Tolerance(relative=1e-6, absolute=0.0),
            # The 910A, A2 and A3 compute 1 / (1 - prob) in float16, too.
            "float16": Tolerance(relative=2e-3, absolute=2.0**-24),
            "bfloat16": Tolerance(relative=8e-3, absolute=0.0),
        }
    ),
    kind=OperatorKind.VALUE,
    is_spatial=False,
    batch_axes=lambda _: None,
)
