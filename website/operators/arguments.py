"""Inputs and attributes in words, for the tables of a page."""

from typing import Final

from aclgrad.operators.spec import AttributeSpec, InputSpec, OperatorSpec, counts
from aclgrad.products import Product
from website.operators.flows import pictured
from website.operators.mistakes import product_of

_SMALLEST: Final = 1e-30
_LARGEST: Final = 2**30
"""Bounds beyond these are those of a type."""


def dtypes(spec: InputSpec, product: Product) -> str:
    return ", ".join(spec.dtypes.get(product, ())) or "-"


def default(spec: AttributeSpec) -> str:
    return "required" if spec.default is None else f"`{spec.default!r}`"


def values(spec: AttributeSpec) -> str:
    """Returns how many values an attribute has and their bounds."""
    least, most = (None if isinstance(each, tuple) else each for each in (spec.minimum, spec.maximum))
    if spec.choices:
        return " or ".join(f"`{each}`" for each in spec.choices)
    words = [f"{counts(spec.lengths)} values"] if spec.lengths else []
    if least is not None and least == most:
        return ", ".join([*words, f"always {least:g}"])
    bounds = (("at least", least), ("at most", most))
    return ", ".join([*words, *(f"{word} {bound:g}" for word, bound in bounds if _is_a_choice(bound))])


def _is_a_choice(bound: float | None) -> bool:
    return bound is not None and (bound == 0 or _SMALLEST < abs(bound) < _LARGEST)


def rule(spec: InputSpec, operator: OperatorSpec) -> str | None:
    """Returns what the values of an input have to keep, in the words of the rule's class, or None if any will do."""
    found = spec.values(pictured(operator).arguments, product_of(operator))
    return None if found is None else (type(found).__doc__ or "").partition("\n\n")[0].replace("\n", " ").strip()
