"""Losses and activations that are wrong in an element, a row or their reduction are found, in each dtype."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from aclgrad.judge.check import target
from aclgrad.operators.cases import TypedCase, typed_cases
from aclgrad.products import Product
from tests.judge.checking import check
from tests.wrong_servers import Array, changed, of_gradients

OPERATORS: Final = (
    *("binary_cross_entropy_backward", "binary_cross_entropy_with_logits_backward", "cross_entropy_loss_grad"),
    *("kl_div_backward", "l1_loss_backward", "mse_loss_backward", "nll_loss2d_backward", "nll_loss_backward"),
    *("smooth_l1_loss_backward", "elu_backward", "hardtanh_backward", "mish_backward", "softshrink_backward"),
    *("ctc_loss_backward", "glu_backward", "prelu_backward", "dropout_do_mask", "upsample_bilinear2d_backward_v2"),
)


def of_operators(product: Product, **_: Any) -> Iterator[TypedCase]:
    """Yields two cases of each of the operators in each dtype."""
    seen: dict[tuple[str, str], int] = {}
    for each in typed_cases(product):
        key = each.spec.name, each.dtype
        is_small = all(shape.element_count > 1 for shape in each.outputs.values())
        if key[0] in OPERATORS and is_small and seen.setdefault(key, 0) < 2:
            seen[key] += 1
            yield each


def _element(gradient: Array) -> Array:
    """More than the four roundings that GLU of bfloat16 has."""
    wrong = gradient.astype(np.float64)
    wrong.flat[np.abs(wrong).argmax()] *= 1.05
    return wrong


def _row(gradient: Array) -> Array:
    """The first row is that of a neighbour."""
    wrong = gradient.astype(np.float64).reshape(-1, gradient.shape[-1])
    if len(wrong) > 1:
        wrong[0] = wrong[np.abs(wrong - wrong[0]).max(1).argmax()]
    else:
        wrong = wrong[:, ::-1]
    return wrong.reshape(gradient.shape)


def _reduction(gradient: Array) -> Array:
    return gradient.astype(np.float64) * max(gradient.shape[0], 2)


@pytest.mark.parametrize("fault", [_element, _row, _reduction])
def test_what_is_wrong_is_found(
    few: pytest.MonkeyPatch, address: str, tmp_path: Path, fault: Callable[[Array], Array]
) -> None:
    few.setattr(target, "typed_cases", of_operators)
    assert check(tmp_path, address, only=("accuracy",)).exit_code == 0
    changes = [of_gradients(each, fault) for each in OPERATORS]

    def change(method: str, request: bytes, reply: bytes) -> bytes:
        for each in changes:
            reply = each(method, request, reply)
        return reply

    with changed(address, change) as wrong:
        checked = check(tmp_path, wrong, only=("accuracy",))
    rows = [row for row in checked.rows if row["check"] == "accuracy"]
    assert {(row["operator"], row["dtype"], row["case"]) for row in rows if row["verdict"] != "failed"} == set()
    assert {row["operator"] for row in rows} == set(OPERATORS)
