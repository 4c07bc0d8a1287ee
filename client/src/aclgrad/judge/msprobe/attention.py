"""PyTorch's attention with the gradients of sample cases."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from aclgrad.judge.msprobe.arguments import Api, Argument, Arguments, Array, Given, Tensor
from aclgrad.operators.cases import TypedCase

_NAME: Final = "Functional.scaled_dot_product_attention"
_LAYOUT: Final = "BNSD"
_TOP_LEFT, _BOTTOM_RIGHT = 2, 3
"""The sparse modes of causal masks: PyTorch has the first one."""


def _arguments(given: Given) -> Arguments:
    key = given.with_gradient("key_in", given.arrays["key_in"])
    mask = _mask(given)
    return given.tensor("query"), key, given.tensor("value"), None if mask is None else Tensor(mask)


def _mask(given: Given) -> Array | None:
    """Returns PyTorch's mask in a broadcasting shape: added to the scores, or true where a key is seen."""
    hidden, bias = given.arrays.get("atten_mask"), given.arrays.get("pse_shift")
    if given["sparse_mode"] == _BOTTOM_RIGHT or (bias is not None and given["sparse_mode"] == _TOP_LEFT):
        rows, columns = given.arrays["query"].shape[2], given.arrays["key_in"].shape[2]
        first = columns - rows if given["sparse_mode"] == _BOTTOM_RIGHT else 0
        hidden = ~np.tri(rows, columns, first, dtype=np.bool_)
    if bias is None:
        return None if hidden is None else ~hidden
    return bias if hidden is None else np.where(hidden, -np.inf, bias).astype(bias.dtype)


def _keywords(given: Given) -> Mapping[str, Argument]:
    heads = given.arrays["query"].shape[1] != given.arrays["key_in"].shape[1]
    options: dict[str, Any] = {"enable_gqa": True} if heads else {}
    if given["sparse_mode"] == _TOP_LEFT and "pse_shift" not in given.arrays:
        options["is_causal"] = True
    if given["scale_value"] is not None:
        options["scale"] = given["scale_value"]
    return options


def _refuses(typed: TypedCase) -> str:
    layout = typed.attributes["input_layout"]
    return "" if layout == _LAYOUT else f"PyTorch's attention has tensors of the layout {_LAYOUT} alone."


_GRADIENTS: Final = Api(_NAME, _arguments, _keywords, grad_output=lambda given: given.arrays["dy"], refuses=_refuses)
_VALUES: Final = Api(_NAME, refusal="acc_check checks gradients, and this operator returns values.")
ATTENTION: Final[Mapping[str, Api]] = {
    "flash_attention_score": _VALUES,
    "flash_attention_score_grad": _GRADIENTS,
    "flash_attention_score_grad_v2": _GRADIENTS,
    "flash_attention_score_v2": _VALUES,
}
"""Functions by operator."""
