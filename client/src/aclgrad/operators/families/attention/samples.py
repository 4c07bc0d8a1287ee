"""Calls of attention and its gradients: a row for each operator."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np

from aclgrad.operators.families.attention.definition import DEFINITIONS, LOWEST
from aclgrad.operators.families.attention.layouts import LAYOUTS, is_flat, shape_of
from aclgrad.operators.families.attention.pytorch import attention_of_pytorch, gradients_of_pytorch
from aclgrad.operators.samples import Arrays, Case, Integer, Samples
from aclgrad.products import Product
from aclgrad.wire.values import AttributeValue

MakeCase = Callable[..., Case]
"""Makes a case of a name, a layout, sequences, heads, queries, keys and the size of a head."""

_TIMED: Final = {
    "16 KB": (1, 1, 8),
    "6 MB": (1, 12, 256),
    "100 MB": (4, 12, 1024),
    "1 GB": (20, 12, 2048),
}
"""Sequences, heads and positions, with heads of 64."""
_STATISTICS: Final = ("softmax_max", "softmax_sum")
_LANES: Final = 8


def attention_case(
    name: str,
    layout: str,
    batch: int,
    heads: int,
    queries: int,
    keys: int,
    size: int,
    *,
    shared: int = 1,
    value_size: int = 0,
    mask: str = "",
    bias: str = "BNST",
    has_lanes: bool = True,
    operator: str,
    **attributes: AttributeValue,
) -> Case:
    """Returns a case; so many heads of the query share one of the keys.

    `mask` and `bias` are shapes by their axes, such as B1ST; the bias is that of operators that have one.
    """
    sizes = {"B": batch, "N": heads, "S": queries, "T": keys, "1": 1}
    is_gradient, has_bias = "grad" in operator, operator.endswith("v2")
    own, value_size = (batch, heads, queries), value_size or size
    of_keys = (batch, heads // shared, keys)
    result = shape_of((*own, value_size), layout)
    shapes = {
        "query": shape_of((*own, size), layout),
        "key_in" if is_gradient else "key": shape_of((*of_keys, size), layout),
        "value": shape_of((*of_keys, value_size), layout),
    }
    if is_gradient:
        shapes["dy"] = result
    if has_bias:
        shapes["pse_shift" if is_gradient else "real_shift"] = tuple(sizes[axis] for axis in bias)
    if mask:
        shapes["atten_mask"] = tuple(sizes[axis] for axis in mask)
    if is_gradient:
        shapes |= dict.fromkeys(_STATISTICS, (*own, _LANES) if has_lanes else own)
        shapes["attention_in"] = result
    given: dict[str, AttributeValue] = {"input_layout": layout, **attributes}
    if is_flat(layout):
        given["head_num"] = heads
    fixed = dict.fromkeys(_STATISTICS, "float32") | {"atten_mask": "bool"}
    return Case(name, shapes, given, fixed, (), tuple(Product), in_pytorch=True)


def _values(operator: str) -> Callable[[np.random.Generator, Case, Arrays], Arrays]:
    """Returns what draws masks that leave a key to each row but those of the name, and makes the forward pass."""
    forward = DEFINITIONS[operator.replace("_grad", "")].compute

    def values(generator: np.random.Generator, example: Case, arrays: Arrays) -> Arrays:
        found = dict(arrays)
        if "atten_mask" in found:
            mask = np.asarray(generator.random(found["atten_mask"].shape) < 0.3)
            if mask.size:
                rows, columns = mask.shape[-2:]
                mask[..., np.arange(rows), np.arange(rows) % columns] = False
                mask[..., 0, :] |= "masked_row" in example.name
            found["atten_mask"] = mask
        if "dy" not in found:
            return found
        names = {"key_in": "key", "pse_shift": "real_shift"}
        inputs = {names.get(name, name): each for name, each in found.items()}
        for name in ("dy", *_STATISTICS, "attention_in"):
            del inputs[name]
        most, sums, result = forward(**inputs, **example.attributes)
        if found["softmax_max"].ndim == most.ndim - 1:
            # The logarithm of the sum, as PyTorch saves it: of rows without a key 0.
            with np.errstate(divide="ignore"):
                most = np.where(most == LOWEST, 0.0, most + np.log(sums))[..., 0]
            most, sums = np.where(np.isfinite(most), most, 0.0), np.ones(most.shape)
        found["softmax_max"], found["softmax_sum"] = most.astype(np.float32), sums.astype(np.float32)
        found["attention_in"] = result.astype(found["attention_in"].dtype)
        return found

    return values


def _draw(make: MakeCase, *, has_bias: bool) -> Callable[[Integer], Case]:
    def draw(integer: Integer) -> Case:
        layout, mode = LAYOUTS[integer(0, 3)], integer(0, 3)
        size, shared = integer(1, 20), integer(1, 3)
        batch, queries = integer(0 if integer(0, 7) == 0 else 1, 3), integer(0 if integer(0, 7) == 0 else 1, 20)
        keys = integer(0 if integer(0, 7) == 0 else 1, 20)
        given: dict[str, Any] = {"sparse_mode": mode, "has_lanes": bool(integer(0, 1)), "shared": shared}
        given["value_size"] = integer(1, size)
        if mode < 2:
            given["mask"] = ("", "BNST", "B1ST", "11ST", "ST")[integer(0, 4)]
        if has_bias:
            given["bias"] = ("BNST", "1NST", "BN1T")[integer(0, 2)]
        if integer(0, 1):
            given["scale_value"] = integer(-4, 4) / 4
        return make("drawn", layout, batch, shared * integer(1, 2), queries, keys, size, **given)

    return draw


def _long(make: MakeCase) -> Callable[[int], Iterator[Case]]:
    def cases(cells: int) -> Iterator[Case]:
        side, many = math.isqrt(cells), max(cells // 64, 1)
        yield make("queries", "BSH", 1, 1, many, 4, 64)
        yield make("keys", "BNSD", 1, 1, 4, many, 64)
        yield make("heads", "BSND", many // 512 or 1, 512, 2, 2, 64, shared=8)
        yield make("scores", "BNSD", 1, 1, side, side, 8, mask="ST", bias="1NST")
        yield make("sequences", "SBH", cells // 8, 1, 1, 2, 8, bias="BN1T")

    return cases


def _samples(operator: str, more: Callable[[MakeCase], Iterable[Case]]) -> Samples:
    def make(*given: Any, **others: Any) -> Case:
        return attention_case(*given, operator=operator, **others)

    is_gradient, has_bias = "grad" in operator, operator.endswith("v2")
    return Samples(
        draw=_draw(make, has_bias=has_bias),
        rows=lambda length: (
            make("rows", "BNSD", 1, 2, 5, length, 8),
            *([make("rows", "BSND", 1, 2, 3, 6, length)] if length <= 128 else []),
        ),
        timed={
            name: make("timed", "BNSD", batch, heads, positions, positions, 64)
            for name, (batch, heads, positions) in _TIMED.items()
        },
        pytorch=gradients_of_pytorch if is_gradient else attention_of_pytorch,
        values=_values(operator),
        long=_long(make),
        has_signed_weights=True,
        picture=make("picture", "BNSD", 1, 1, 2, 3, 2),
        cases=tuple(more(make)),
    )


def _plain(make: MakeCase) -> Iterator[Case]:
    yield make("heads", "BNSD", 2, 3, 9, 9, 16)
    yield make("shared_keys", "BSND", 2, 4, 7, 12, 8, shared=2, mask="B1ST", has_lanes=False)
    yield make("causal", "BSH", 2, 2, 20, 33, 12, sparse_mode=2)
    yield make("causal_from_the_end", "SBH", 2, 2, 33, 20, 12, sparse_mode=3)
    yield make("masked_row", "BNSD", 1, 2, 21, 40, 80, mask="ST", scale_value=0.5, has_lanes=False)
    yield make("masks_of_heads", "BNSD", 2, 2, 10, 17, 8, value_size=5, mask="BNST", sparse_mode=1)
    yield make("one_query", "BNSD", 3, 2, 1, 40, 33, mask="11ST")
    yield make("no_keys", "BNSD", 2, 2, 3, 0, 8)


def _biased(make: MakeCase) -> Iterator[Case]:
    yield make("heads", "BNSD", 2, 3, 9, 9, 16)
    yield make("bias_of_keys", "BSND", 2, 4, 7, 12, 8, shared=2, bias="BN1T", mask="B1ST", has_lanes=False)
    yield make("bias_of_all", "BSH", 2, 2, 20, 33, 12, bias="1NST", sparse_mode=2)
    yield make("masked_row", "SBH", 1, 2, 21, 40, 24, mask="ST", scale_value=0.5)
    yield make("no_keys", "BNSD", 2, 2, 3, 0, 8)


SAMPLES: Final[Mapping[str, Samples]] = {
    "flash_attention_score": _samples("flash_attention_score", _plain),
    "flash_attention_score_grad": _samples("flash_attention_score_grad", _plain),
    "flash_attention_score_grad_v2": _samples("flash_attention_score_grad_v2", _biased),
    "flash_attention_score_v2": _samples("flash_attention_score_v2", _biased),
}
