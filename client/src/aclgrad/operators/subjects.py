"""What operators are about, as lists of many operators group them."""

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

Item = TypeVar("Item")

SUBJECTS: Final = {
    "convolution": ("convolution",),
    "matrix products, sums": ("mat_mul", "matmul", "mm", "reduce_sum"),
    "attention": ("attention", "rotary"),
    "normalisation": ("_norm",),
    "average pooling": ("avg_pool",),
    "max pooling": ("max_pool",),
    "unpooling": ("unpool",),
    "padding": ("_pad",),
    "upsampling, RoI align, grid sampling": ("upsample", "roi_align", "grid_sampler"),
    "softmax, embedding": ("softmax", "embedding"),
    "losses": ("loss", "cross_entropy", "kl_div"),
    "activations, dropout": (
        *("dropout", "silu", "sigmoid", "tanh", "relu", "hardswish", "threshold", "gelu", "glu", "elu", "shrink"),
        *("mish", "softplus"),
    ),
    "copies, positions": ("inplace_", "cat", "gather", "index_", "scatter_"),
    "arithmetic with a number": ("adds", "muls", "divs", "_scalar", "clamp"),
    "arithmetic": (
        *("add", "sub", "mul", "div", "maximum", "minimum", "s_where", "eq_tensor", "gt_tensor", "mean", "amax"),
    ),
    "functions": ("neg", "exp", "log", "sqrt", "reciprocal", "abs"),
}
"""By subject: what the names of its operators contain; the first subject that fits is the operator's."""
OTHER: Final = "other"


def subject_of(operator: str) -> str:
    """Returns the subject of an operator by its name."""
    return next((subject for subject, words in SUBJECTS.items() if any(word in operator for word in words)), OTHER)


def by_subject(items: Iterable[Item], name: Callable[[Item], str]) -> dict[str, list[Item]]:
    """Returns the items of each subject, of which there are any, in the order of `SUBJECTS`."""
    found: dict[str, list[Item]] = {subject: [] for subject in (*SUBJECTS, OTHER)}
    for each in items:
        found[subject_of(name(each))].append(each)
    return {subject: items for subject, items in found.items() if items}
