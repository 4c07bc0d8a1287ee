"""aclnnEmbeddingDenseBackward: the gradient of the weight of an embedding.

No device looks at its indices: one that is no row is written out of bounds. Off the 950 they are sorted as float32.
"""

from collections.abc import Iterator
from typing import Final

from aclgrad.errors import Violation
from aclgrad.operators.batch_axes import BatchAxes
from aclgrad.operators.spec import (
    Arguments,
    AttributeKind,
    AttributeSpec,
    InputSpec,
    OperatorSpec,
    OutputSpec,
    Tolerance,
)
from aclgrad.operators.tolerance import by_dtype, summed
from aclgrad.operators.values import IndexRule
from aclgrad.products import Product
from aclgrad.tensors import TensorType

_DTYPES: Final = {
    Product.ATLAS_TRAINING: ("float32", "float16"),
    **dict.fromkeys((Product.ATLAS_A2, Product.ATLAS_A3, Product.ASCEND_950), ("float32", "float16", "bfloat16")),
}
_INDICES: Final = dict.fromkeys(_DTYPES, ("int32", "int64"))
MOST_WEIGHTS: Final = 2**31 - 1
"""Devices read indices as INT32."""
SORTED_WEIGHTS: Final = 2_139_095_040
"""Where INT32 that are sorted as float32 become NaN."""
_BYTES_OF_SCALED_ROW: Final = 180_192
"""What the 910A has for a row and the counts of all others, if it scales."""


def _check(arguments: Arguments, product: Product) -> Iterator[Violation]:
    grad, indices = arguments.inputs["grad_output"].shape, arguments.inputs["indices"].shape
    if grad[:-1] != indices:
        problem = f"is {grad}, but inputs[indices] is {indices}"
        yield Violation("inputs[grad_output].shape", problem, "send a row for each of the indices, in their shape")
    weights = arguments.int("num_weights")
    if product is not Product.ASCEND_950 and weights > SORTED_WEIGHTS:
        yield Violation("attributes[num_weights]", f"is {weights}", f"send at most {SORTED_WEIGHTS}")
    if product is Product.ATLAS_TRAINING and arguments.attributes["scale_grad_by_freq"]:
        wide = arguments.inputs["indices"].dtype.name == "int64"
        most = (_BYTES_OF_SCALED_ROW - weights * (8 if wide else 4)) // (20 if wide else 36)
        if grad[-1] > most:
            problem = f"ends with {grad[-1]}, and this product has room for {max(most, 0)} to scale {weights} rows"
            yield Violation("inputs[grad_output].shape", problem, "send scale_grad_by_freq=False")


def _weight(arguments: Arguments) -> TensorType:
    type = arguments.inputs["grad_output"]
    return TensorType(type.dtype, (arguments.int("num_weights"), type.shape[-1]))


def _batch_axes(arguments: Arguments) -> BatchAxes | None:
    """Rows of the weight with their look-ups; joined tables have only one row of padding."""
    if arguments.int("padding_idx") >= 0:
        return None
    return BatchAxes(counts=("num_weights",), numbers={"indices": ...}, item="weights with their look-ups")


SPEC = OperatorSpec(
    name="embedding_dense_backward",
    symbol="aclnnEmbeddingDenseBackward",
    summary="Adds the gradient of each looked-up row to the row of the weight that it is.",
    formula=(
        "out[indices[i]] += grad_output[i], but for indices[i] = padding_idx; with scale_grad_by_freq each row is "
        "divided by the number of its indices (PyTorch: aten::embedding_dense_backward)."
    ),
    inputs=(
        InputSpec(
            "grad_output", "The gradient of the looked-up rows, in the shape of indices.", _DTYPES, tuple(range(2, 9))
        ),
        InputSpec(
            "indices",
            "The rows that were looked up, from 0 to num_weights - 1.",
            _INDICES,
            tuple(range(1, 8)),
            values=lambda arguments, _: IndexRule(arguments.int("num_weights")),
        ),
    ),
    attributes=(
        AttributeSpec("num_weights", "The rows of the weight.", AttributeKind.INT, minimum=0, maximum=MOST_WEIGHTS),
        AttributeSpec(
            "padding_idx",
            "The row that has no gradient; a negative number: none.",
            AttributeKind.INT,
            default=-1,
            minimum=-1,
            maximum=MOST_WEIGHTS,
        ),
        AttributeSpec(
            "scale_grad_by_freq",
            "Whether each row's gradient is divided by the number of its indices.",
            AttributeKind.BOOL,
            default=False,
        ),
    ),
    outputs=(
        OutputSpec("out", "The gradient of the weight, shape (num_weights, the last size).", _weight, of="input"),
    ),
    check=_check,
    tolerance=summed(
        by_dtype(
            {
                "float32": Tolerance(relative=1e-5, absolute=1e-5),
                "float16": Tolerance(relative=1e-3, absolute=1e-3),
                "bfloat16": Tolerance(relative=8e-3, absolute=8e-3),
            }
        ),
        lambda arguments: arguments.inputs["indices"].element_count,
    ),
    is_spatial=False,
    batch_axes=_batch_axes,
)
