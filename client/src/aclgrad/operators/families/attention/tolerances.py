"""How far results of attention may be from the definition, and why.

A probability exp(score - max) has the rounding of its score and of the maximum, so its relative error is about eps
times |score|. Devices round probabilities, and the gradients of scores, to the dtype of 16 bits before they multiply.
"""

import math
from dataclasses import replace
from typing import Final

from aclgrad.operators.families.attention.checks import sizes_of
from aclgrad.operators.spec import Arguments, Tolerance
from aclgrad.operators.tolerance import RESULTS, grown
from aclgrad.products import Product

_SHARES: Final = {"float32": 2.0**-20, "float16": 2.0**-9, "bfloat16": 2.0**-6}
"""Of results of size 1, in samples: several roundings of a probability, in float32 for each unit of its score."""
_OF_LARGEST: Final = {"float32": 2.0**-14, "float16": 2.0**-8, "bfloat16": 2.0**-5}
"""Of the largest element, with scores up to some hundred."""


def of_attention(arguments: Arguments, product: Product, dtype: str) -> Tolerance:
    """The statistics are those of rows in float32 whatever the dtype is."""
    sizes = sizes_of(arguments)
    score = _score(arguments)
    results = _near(dtype, score, 2.0)
    of_scores = grown(_near("float32", score, 4.0), "float32", sizes.head_size, 4.0)
    of_sums = replace(grown(of_scores, "float32", sizes.keys, 4.0), relative=2.0**-14)
    return replace(results, outputs={"softmax_max": of_scores, "softmax_sum": of_sums})


def of_gradients(arguments: Arguments, product: Product, dtype: str) -> Tolerance:
    """Keys sum over the queries of all heads that share them, and the first ones of a causal mask over most queries."""
    sizes = sizes_of(arguments)
    score = _score(arguments)
    of_scores = 2 * math.sqrt(sizes.value_size / max(sizes.head_size, 1)) * score
    queries = sizes.queries * max(sizes.heads // max(sizes.kv_heads, 1), 1)
    columns = max(queries / max(sizes.keys, 1), 1.0) * (1 + math.log(max(sizes.queries, 1)))
    parts = {"dq": of_scores, "dk": of_scores * columns, "dv": 2 * columns}
    of_parts = {
        name: grown(_near(dtype, score, size), "float32", sizes.keys if name == "dq" else queries, size)
        for name, size in parts.items()
    }
    return replace(of_parts["dv"], outputs=of_parts)


def _score(arguments: Arguments) -> float:
    """Returns the size of scores in samples: 1 unless a scale is given."""
    given = arguments.attributes["scale_value"]
    return 1.0 if given is None else abs(float(str(given))) * math.sqrt(sizes_of(arguments).head_size)


def _near(dtype: str, score: float, size: float) -> Tolerance:
    """Returns the tolerance of sums whose terms have this size together in samples, with scores of that size."""
    plain, share = RESULTS[dtype], _SHARES[dtype] * (1 + score if dtype == "float32" else 1)
    return replace(plain, absolute=share * size + plain.absolute, share=_OF_LARGEST[dtype])
