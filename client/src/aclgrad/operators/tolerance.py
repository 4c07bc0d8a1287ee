"""The parts of `OperatorSpec.tolerance`: the allowed distance of a call's results from the definition, and why.

A table by dtype has the errors of products and of the last rounding, which in 16 bits are nearly all. A sum of many
terms adds its own roundings. Kernels and cards sum in float32; in the worst order, one term after the other, a sum is
off by about 2^-24 sqrt(n) times its size. So sums of n terms are judged by twice that if it exceeds the table. In
samples, whose values are standard normal, a sum has a size of sqrt(n), so the limit is n * 2^-23: a missing term of
about 1 is detected among a million.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from aclgrad.operators.routes import FLOAT32, Precision, Route
from aclgrad.operators.spec import Arguments, Tolerance
from aclgrad.products import Product

Rule = Callable[[Arguments, Product, str], Tolerance]

_ROUNDING: Final = 2.0**-23
"""The error of a sum as a share of its size, for each sqrt(n) of its terms."""
_MOST_IN_A_ROW: Final = 256
"""Error of additions one after the other in float32. With n equal terms, all may be rounded to the same side, each by
half a unit of the partial sum: together by up to n / 3 units of the result.
"""
_WIDE_ROUNDING: Final = 2.0**-52
_WIDE: Final = ("float64", "complex128")
RESULTS: Final = {
    "float32": Tolerance(relative=2.0**-22, absolute=2.0**-125),
    "float16": Tolerance(relative=2.0**-10, absolute=2.0**-24),
    "bfloat16": Tolerance(relative=2.0**-7, absolute=2.0**-125),
}
"""Twice the last rounding; a device may flush the smallest numbers to 0."""
EXACT: Final = Tolerance(relative=0.0, absolute=0.0)
"""The tolerance of integers and bools."""


def by_dtype(table: Mapping[str, Tolerance], coarse: Mapping[tuple[Product, str], Tolerance] | None = None) -> Rule:
    """Returns the rule of a table, with `coarse` for products whose kernels compute in lower precision."""
    less = coarse or {}
    return lambda _, product, dtype: less.get((product, dtype), table[dtype])


def summed(
    rule: Rule,
    terms: Callable[[Arguments], float],
    *outputs: str,
    weight: Callable[[Arguments], float] = lambda _: 1.0,
) -> Rule:
    """Returns the rule of an operator whose elements, in these outputs or all, are sums of up to this many terms.

    `weight` is the largest factor of a term.
    """

    def of_sums(arguments: Arguments, product: Product, dtype: str) -> Tolerance:
        plain, count = rule(arguments, product, dtype), terms(arguments)
        found = grown(plain, dtype, count, math.sqrt(count) * weight(arguments))
        return replace(plain, outputs={**plain.outputs, **dict.fromkeys(outputs, found)}) if outputs else found

    return of_sums


def grown(plain: Tolerance, dtype: str, terms: float, size: float) -> Tolerance:
    """Returns the tolerance of sums of this many terms, which have about this size in samples."""
    share = (_WIDE_ROUNDING if dtype in _WIDE else _ROUNDING) * math.sqrt(terms)
    absolute, of_largest = max(plain.absolute, share * size), max(plain.of_largest, share)
    return replace(plain, relative=max(plain.relative, share), absolute=absolute, share=of_largest)


def routed(rule: Rule, route: Callable[[Arguments, Product], Route | None]) -> Rule:
    """Returns the rule of an operator that some products compute by a route, whose weights have one sign.

    Terms of a call may cancel; from the arguments alone, the rule allows for |terms| whose sum is larger by 1.
    """

    def by_route(arguments: Arguments, product: Product, dtype: str) -> Tolerance:
        plain, taken = rule(arguments, product, dtype), route(arguments, product)
        if taken is None:
            return plain
        relative, absolute = max(plain.relative, taken.relative), max(plain.absolute, taken.absolute)
        return replace(plain, relative=relative, absolute=absolute, of_elements=taken.relative, route=taken)

    return by_route


def of_products(
    terms: Callable[[Arguments], int],
    inputs: tuple[str, ...],
    precision_of: Callable[[Arguments, Product, str], Precision],
    is_rounded_again: Callable[[Arguments, Product, str], bool] = lambda *_: False,
) -> Rule:
    """Returns the rule of sums of this many products of inputs that are rounded before, or also afterwards.

    With the values of a call, an error is judged by its sum of |terms|, see `Route`; without them, by that of samples,
    where n terms have a sum of |terms| of about n, and results of sqrt(n).
    """

    def by_terms(arguments: Arguments, product: Product, dtype: str) -> Tolerance:
        plain, count = RESULTS[dtype], max(terms(arguments), 1)
        precision, in_a_row = precision_of(arguments, product, dtype), min(count, _MOST_IN_A_ROW)
        of_sums = _ROUNDING * math.sqrt(count) + in_a_row / 3 * FLOAT32.unit
        roundings = 1 if precision is FLOAT32 else 2 + is_rounded_again(arguments, product, dtype)
        route = Route(precision, roundings, count, 1.0, inputs, of_sums, plain.absolute)
        relative, of_all = plain.relative + route.relative, route.relative * count
        share = route.relative * math.sqrt(count)
        return replace(plain, relative=relative, absolute=of_all + route.absolute, share=share, route=route)

    return by_terms
