"""The rows of the operator table that are attention and its gradients.

CANN 8.5 and 9.0 check the dtypes at most, so the server makes every check of a shape. A device computes no gradient of
what is added to the scores, and the statistics of a row take eight lanes, which the server makes.
"""

import math
from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np

from aclgrad.operators.batch_axes import BatchAxes
from aclgrad.operators.families.attention.checks import checked, sizes_of
from aclgrad.operators.families.attention.layouts import LAYOUTS, TRIANGLE_SIDE, shape_of
from aclgrad.operators.families.attention.tolerances import of_attention, of_gradients
from aclgrad.operators.spec import (
    Arguments,
    AttributeKind,
    AttributeSpec,
    Constant,
    InputSpec,
    OperatorKind,
    OperatorSpec,
    OutputSpec,
    same_on,
)
from aclgrad.products import Product
from aclgrad.tensors import DTYPES, TensorType
from aclgrad.wire.values import AttributeValue

_PRODUCTS: Final = (Product.ATLAS_A2, Product.ATLAS_A3, Product.ASCEND_950)
_DTYPES: Final = same_on(_PRODUCTS, ("float32", "float16", "bfloat16"))
_FLOAT32: Final = same_on(_PRODUCTS, ("float32",))
_BOOL: Final = same_on(_PRODUCTS, ("bool",))
_RANKS: Final = (3, 4)
_LANES: Final = 8
_ALL_TOKENS: Final = 2**31 - 1
_MOST_HEADS: Final = 2048
_MASKED_ROWS: Final = 2
"""The value of `innerPrecise` with which rows without a key have the result 0."""
_CAUSAL: Final = (2, 3)
_ADDED_BEHIND_SCALE: Final = 0
"""The value of `pseType`."""

_PREFIX: Final = "the masks of prefixes (sparse modes 5 and 6); send them as atten_mask"
_TND: Final = "sequences of several lengths in one tensor, whose lengths a device reads without a check"
_DROPOUT: Final = "a device draws other numbers than the client's framework; multiply by a mask between two products"


def _triangle() -> bytes:
    return np.triu(np.ones((TRIANGLE_SIDE, TRIANGLE_SIDE), np.bool_), 1).tobytes()


_TRIANGLE: Final = Constant("causal mask", TensorType(DTYPES["bool"], (TRIANGLE_SIDE, TRIANGLE_SIDE)), _triangle)


def _is_causal(arguments: Arguments) -> bool:
    return arguments.attributes["sparse_mode"] in _CAUSAL


def _passed(arguments: Arguments, has_bias: bool) -> Sequence[AttributeValue]:
    sizes = sizes_of(arguments)
    given = arguments.attributes["scale_value"]
    scale = 1 / math.sqrt(max(sizes.head_size, 1)) if given is None else given
    next_tokens = 0 if _is_causal(arguments) else _ALL_TOKENS
    is_masked = "atten_mask" in arguments.inputs and sizes.queries > 1
    layout, mode = str(arguments.attributes["input_layout"]), arguments.int("sparse_mode")
    numbers = scale, 1.0, _ALL_TOKENS, next_tokens, sizes.heads, layout, _MASKED_ROWS if is_masked else 0, mode
    # The prefixes, and the first positions of query and key.
    return (((), (), (), *numbers, _ADDED_BEHIND_SCALE)) if has_bias else (((), *numbers))


def _batch_axes(arguments: Arguments) -> BatchAxes:
    """A mask or bias of one sequence is that of all, if there are several."""
    layout = str(arguments.attributes["input_layout"])
    axis, batch = layout.index("B"), sizes_of(arguments).batch
    by_sequence = ("atten_mask", "pse_shift", "real_shift", "softmax_max", "softmax_sum")
    others: dict[str, int | None] = dict.fromkeys(by_sequence, 0)
    for name in ("atten_mask", "pse_shift", "real_shift"):
        type = arguments.inputs.get(name)
        if type is not None and (type.rank < 4 or (type.shape[0] == 1 and batch > 1)):
            others[name] = None
    return BatchAxes(axis, others, item="sequence")


def _result(arguments: Arguments) -> TensorType:
    """Returns the query's type with the heads of value."""
    sizes, layout = sizes_of(arguments), str(arguments.attributes["input_layout"])
    shape = shape_of((sizes.batch, sizes.heads, sizes.queries, sizes.value_size), layout)
    return TensorType(arguments.inputs["query"].dtype, shape)


def _type_of(name: str, arguments: Arguments) -> TensorType:
    return arguments.inputs[name]


def _statistics(arguments: Arguments) -> TensorType:
    sizes = sizes_of(arguments)
    return TensorType(DTYPES["float32"], (sizes.batch, sizes.heads, sizes.queries, _LANES))


def _exponentials(arguments: Arguments) -> float:
    return 8.0 * sizes_of(arguments).scores


def _forward_products(arguments: Arguments) -> float:
    sizes = sizes_of(arguments)
    return 2.0 * sizes.scores * (sizes.head_size + sizes.value_size)


def _gradient_products(arguments: Arguments) -> float:
    sizes = sizes_of(arguments)
    return 2.0 * sizes.scores * (3 * sizes.head_size + 2 * sizes.value_size)


_ATTRIBUTES: Final = (
    AttributeSpec(
        "scale_value",
        "What the products of query and key are multiplied by: 1 / sqrt(D) if it is left out.",
        AttributeKind.DOUBLE,
        minimum=float(np.finfo(np.float32).min),
        maximum=float(np.finfo(np.float32).max),
        is_optional=True,
    ),
    AttributeSpec(
        "head_num",
        "The number N of the query's heads: needed for the layouts BSH and SBH, which do not show it.",
        AttributeKind.INT,
        minimum=1,
        maximum=_MOST_HEADS,
        is_optional=True,
    ),
    AttributeSpec(
        "input_layout",
        "The axes of all tensors but masks and statistics: sequences B, heads N, positions S, elements of a head D; H "
        "is N * D.",
        AttributeKind.TEXT,
        default="BNSD",
        choices=LAYOUTS,
        refused={"TND": _TND},
    ),
    AttributeSpec(
        "sparse_mode",
        "Which keys a query sees: 0 or 1, all that atten_mask leaves; 2, those up to its own position, counted from "
        "the first; 3, counted from the last.",
        AttributeKind.INT,
        default=0,
        minimum=0,
        maximum=max(_CAUSAL),
        refused={
            4: "a band; send it as atten_mask",
            **dict.fromkeys((5, 6), _PREFIX),
            **dict.fromkeys((7, 8), _TND),
        },
    ),
)
_REFUSED: Final = {
    "drop_mask": _DROPOUT,
    "keep_prob": _DROPOUT,
    "seed": _DROPOUT,
    "offset": _DROPOUT,
    "prefix": _PREFIX,
    **dict.fromkeys(("actual_seq_qlen", "actual_seq_kvlen", "actual_seq_q_len", "actual_seq_kv_len"), _TND),
    **dict.fromkeys(("q_start_idx", "kv_start_idx"), "they only matter to slopes that a device generates"),
    **dict.fromkeys(("pre_tokens", "next_tokens"), "a band; send it as atten_mask"),
    "padding_mask": "devices do not read it; send atten_mask",
    "pse_type": "what is added to the scores is added behind the scale, as PyTorch does",
    "inner_precise": "the server sets it, so that rows without a key have the result 0",
    "sink": "only the operators of CANN 8.5's V3 have it, and PyTorch has no such argument",
    **dict.fromkeys(("query_rope", "key_rope"), "only layout TND has them, which is not served"),
}
_DPSE: Final = "devices compute no gradient of what is added to the scores; use softmax_backward between products"


def _query(rule: str = "") -> InputSpec:
    return InputSpec("query", f"The queries, N heads of D elements in the input_layout{rule}.", _DTYPES, _RANKS)


def _keys(name: str) -> tuple[InputSpec, ...]:
    return (
        InputSpec(name, "The keys, with the dtype of query: M heads of D, where M divides N.", _DTYPES, _RANKS),
        InputSpec("value", "The values, shaped as the keys, with heads of at most D elements.", _DTYPES, _RANKS),
    )


_MASK: Final = InputSpec(
    "atten_mask",
    "True where a key is masked out, the inverse of PyTorch's: (B, N, Sq, Skv), (B, 1, Sq, Skv), (1, 1, Sq, Skv) or "
    "(Sq, Skv). Leave it out for the sparse modes 2 and 3.",
    _BOOL,
    (2, 4),
    is_optional=True,
    stands_in=lambda arguments: _TRIANGLE if _is_causal(arguments) else None,
)


def _bias(name: str) -> InputSpec:
    rule = "(B, N, Sq, Skv), (1, N, Sq, Skv) or (B, N, 1, Skv)"
    return InputSpec(name, f"What is added to the scaled products, with the dtype of query: {rule}.", _DTYPES, (4,))


def _attention(version: str, bias: tuple[InputSpec, ...], null_inputs: tuple[int, ...], added: str) -> OperatorSpec:
    has_bias = bool(bias)
    return OperatorSpec(
        name=f"flash_attention_score{version.lower()}",
        symbol=f"aclnnFlashAttentionScore{version.removeprefix('_')}",
        summary=f"Computes attention{', with a bias of the scores' if has_bias else ''}.",
        formula=(
            f"attention_out = softmax(scale_value * query @ key^T{added}) @ value for each head, over the keys that "
            "are not masked out (PyTorch: aten::scaled_dot_product_attention). softmax_max has the largest score of "
            "each row and softmax_sum the sum of exp(score - softmax_max). A row without a key has the result 0."
        ),
        inputs=(_query(), *_keys("key"), *bias, _MASK),
        attributes=_ATTRIBUTES,
        outputs=(
            OutputSpec("softmax_max", "(B, N, Sq, 8), float32: one value eight times.", _statistics),
            OutputSpec("softmax_sum", "(B, N, Sq, 8), float32: one value eight times.", _statistics),
            OutputSpec("attention_out", "The result: query's shape and dtype, with the heads of value.", _result),
        ),
        check=checked("key", *(each.name for each in bias)),
        tolerance=of_attention,
        kind=OperatorKind.VALUE,
        operations=_exponentials,
        matrix_operations=_forward_products,
        is_spatial=False,
        batch_axes=_batch_axes,
        null_inputs=null_inputs,
        null_outputs=(2,),
        passes=lambda arguments, _: _passed(arguments, has_bias),
        refused=_REFUSED if has_bias else _REFUSED | {"real_shift": "use flash_attention_score_v2, which adds it"},
    )


def _gradients(version: str, bias: tuple[InputSpec, ...], null_inputs: tuple[int, ...], added: str) -> OperatorSpec:
    has_bias = bool(bias)
    statistics = "(B, N, Sq) float32, or (B, N, Sq, 8) as the forward operator returns it"
    return OperatorSpec(
        name=f"flash_attention_score_grad{version.lower()}",
        symbol=f"aclnnFlashAttentionScoreGrad{version.removeprefix('_')}",
        summary=f"Gives the gradients of attention{' with a bias' if has_bias else ''}: of query, key and value.",
        formula=(
            f"With P = exp(scale_value * query @ key_in^T{added} - softmax_max) / softmax_sum and dS = P * (dy @ "
            "value^T - sum(dy * attention_in)): dq = scale_value * dS @ key_in, dk = scale_value * dS^T @ query, dv = "
            "P^T @ dy (PyTorch: aten::_scaled_dot_product_flash_attention_for_cpu_backward, whose logsumexp is "
            "softmax_max where softmax_sum is 1)."
        ),
        inputs=(
            _query(),
            *_keys("key_in"),
            InputSpec(
                "dy", "The gradient of the result, with query's dtype and attention_in's shape.", _DTYPES, _RANKS
            ),
            *bias,
            _MASK,
            InputSpec(
                "softmax_max",
                f"The largest score of each row, or its logsumexp: {statistics}.",
                _FLOAT32,
                _RANKS,
                lanes=_LANES,
            ),
            InputSpec(
                "softmax_sum",
                f"The sum of exp(score - softmax_max), or 1 with a logsumexp: {statistics}.",
                _FLOAT32,
                _RANKS,
                lanes=_LANES,
            ),
            InputSpec(
                "attention_in",
                "The result of the forward pass: query's shape and dtype, with the heads of value.",
                _DTYPES,
                _RANKS,
            ),
        ),
        attributes=_ATTRIBUTES,
        outputs=tuple(
            OutputSpec(name, f"The gradient of {of}, with its shape and dtype.", partial(_type_of, of), of=of)
            for name, of in (("dq", "query"), ("dk", "key_in"), ("dv", "value"))
        ),
        check=checked("key_in", *(each.name for each in bias)),
        tolerance=of_gradients,
        leading="dy",
        operations=_exponentials,
        matrix_operations=_gradient_products,
        is_spatial=False,
        batch_axes=_batch_axes,
        null_inputs=null_inputs,
        null_outputs=(3,),
        passes=lambda arguments, _: _passed(arguments, has_bias),
        refused=_REFUSED
        | {"dpse": _DPSE}
        | ({} if has_bias else {"pse_shift": "use flash_attention_score_grad_v2, which adds it behind the scale"}),
    )


SPECS: Final = (
    _attention("", (), (3, 4, 5), ""),
    _attention("_V2", (_bias("real_shift"),), (4, 5), " + real_shift"),
    _gradients("", (), (4, 5, 6, 10), ""),
    _gradients("_V2", (_bias("pse_shift"),), (5, 6, 10), " + pse_shift"),
)
