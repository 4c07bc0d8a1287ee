"""PyTorch's losses with the gradients of sample cases."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from aclgrad.judge.msprobe.arguments import OF_16_BITS, Api, Argument, Arguments, Array, Given, Tensor
from aclgrad.operators.cases import TypedCase

_REDUCTIONS: Final = ("none", "mean", "sum", "batchmean")


def _input_and_target(given: Given) -> Arguments:
    input = given.arrays["self"]
    return given.tensor("self"), Tensor(np.array(np.broadcast_to(given.arrays["target"], input.shape)))


def _loss(function: str, *attributes: str, **options: Any) -> Api:
    """A loss of each element, whose target has the input's shape, as PyTorch requires."""

    def grad_output(given: Given) -> Array:
        own, shape = given.arrays["grad_output"], given.arrays["self"].shape
        return np.array(own.reshape(()) if given["reduction"] else np.broadcast_to(own, shape))

    def keywords(given: Given) -> Mapping[str, Argument]:
        return {"reduction": _REDUCTIONS[given["reduction"]], **{each: given[each] for each in attributes}}

    made = {"arguments": _input_and_target, "keywords": keywords, "grad_output": grad_output, "refuses": _refuses_loss}
    return Api(f"Functional.{function}", **{**made, **options})


def _refuses_loss(typed: TypedCase) -> str:
    is_one = typed.arguments.inputs["grad_output"].element_count == 1
    return "" if is_one or not typed.attributes["reduction"] else "PyTorch's loss is one number here."


def _weighted(*places: str | None) -> Callable[[Given], Arguments]:
    """Returns the arguments after input and target: weights, and None for obsolete ones."""

    def arguments(given: Given) -> Arguments:
        values = {"reduction": _REDUCTIONS[given["reduction"]]}
        return *_input_and_target(given), *(each and (values.get(each) or given.tensor(each)) for each in places)

    return arguments


def _nll_loss(given: Given) -> Arguments:
    return given.tensor("self"), Tensor(given.arrays["target"].astype(np.int64)), given.tensor("weight")


def _cross_entropy(given: Given) -> Arguments:
    """Log probabilities as logits are their own log softmax."""
    logits = given.with_gradient("input", given.arrays["log_prob"])
    return logits, given.tensor("target"), given.tensor("weight")


def _of_classes(function: str, arguments: Callable[[Given], Arguments], *attributes: str, **options: Any) -> Api:
    def keywords(given: Given) -> Mapping[str, Argument]:
        reduction = given["reduction"]
        named = reduction if isinstance(reduction, str) else _REDUCTIONS[reduction]
        return {"reduction": named, **{each: given[each] for each in ("ignore_index", *attributes)}}

    return Api(f"Functional.{function}", arguments, keywords, **options)


def _refuses_total(typed: TypedCase) -> str:
    is_half = typed.dtype in ("float16", "bfloat16")
    is_mean = _REDUCTIONS[typed.arguments.int("reduction")] == "mean"
    return "acc_check would add up the weights again, and 16 bits do not hold their sum." if is_half and is_mean else ""


def _refuses_halves(typed: TypedCase) -> str:
    return OF_16_BITS if typed.dtype in ("float16", "bfloat16") else ""


def _ctc_loss(given: Given) -> Arguments:
    lengths = given["input_lengths"], given["target_lengths"]
    return given.tensor("log_probs"), given.tensor("targets"), *lengths, given["blank"], "none", given["zero_infinity"]


LOSSES: Final[Mapping[str, Api]] = {
    "binary_cross_entropy_backward": _loss("binary_cross_entropy", arguments=_weighted("weight")),
    "binary_cross_entropy_with_logits_backward": _loss(
        "binary_cross_entropy_with_logits",
        arguments=_weighted("weight", None, None, "reduction", "pos_weight"),
        keywords=lambda _: {},
    ),
    "cross_entropy_loss_grad": _of_classes("cross_entropy", _cross_entropy, "label_smoothing", refuses=_refuses_halves),
    "ctc_loss_backward": Api("Functional.ctc_loss", _ctc_loss),
    "kl_div_backward": _loss("kl_div", "log_target"),
    "l1_loss_backward": _loss("l1_loss"),
    "mse_loss_backward": _loss("mse_loss"),
    **dict.fromkeys(
        ("nll_loss_backward", "nll_loss2d_backward"), _of_classes("nll_loss", _nll_loss, refuses=_refuses_total)
    ),
    "smooth_l1_loss_backward": _loss("smooth_l1_loss", "beta"),
}
"""Functions by operator."""
