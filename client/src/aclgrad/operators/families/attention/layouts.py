"""The layouts of attention's tensors, and the sizes of a call."""

from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np

from aclgrad.operators.spec import Arguments

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]

LAYOUTS: Final = ("BNSD", "BSND", "BSH", "SBH")
"""By their axes: B sequences, N heads, S positions, D elements of a head; H is N * D."""
TRIANGLE_SIDE: Final = 2048
"""Of the mask that stands for every causal one."""


def is_flat(layout: str) -> bool:
    """Whether heads lie side by side along the last axis, so that the shape does not say how many there are."""
    return "H" in layout


def heads_of(array: Array, layout: str, heads: int) -> Array:
    """Returns a view of the shape (B, N, S, D)."""
    split = array.reshape(*array.shape[:2], heads, array.shape[2] // max(heads, 1)) if is_flat(layout) else array
    return split.transpose(*map(_split(layout).index, "BNSD"))


def laid_out(heads: Array, layout: str) -> Array:
    """Returns what has the shape (B, N, S, D) in the layout."""
    found = heads.transpose(*map("BNSD".index, _split(layout)))
    return found.reshape(*found.shape[:2], found.shape[2] * found.shape[3]) if is_flat(layout) else found


def shape_of(sizes: Shape, layout: str) -> Shape:
    """Returns the shape of a tensor with these sizes (B, N, S, D) in the layout."""
    named = dict(zip("BNSD", sizes, strict=True))
    return tuple(named["N"] * named["D"] if axis == "H" else named[axis] for axis in layout)


def _split(layout: str) -> str:
    return layout.replace("H", "ND")


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of a call whose ranks fit its layout. Those of a head are 0 if the last axis has no whole heads."""

    batch: int
    heads: int
    kv_heads: int
    queries: int
    keys: int
    head_size: int
    value_size: int

    @classmethod
    def of(cls, arguments: Arguments, key: str) -> Self:
        """Returns the sizes; `key` is the name of the keys' tensor."""
        layout = str(arguments.attributes["input_layout"])
        query, keys, value = (arguments.inputs[name].shape for name in ("query", key, "value"))
        batch, positions = layout.index("B"), layout.index("S")
        if is_flat(layout):
            heads = int(str(arguments.attributes["head_num"]))
            head_size = _quotient(query[2], heads)
            kv_heads = _quotient(keys[2], head_size)
            value_size = _quotient(value[2], kv_heads)
        else:
            axis = layout.index("N")
            heads, kv_heads, head_size, value_size = query[axis], keys[axis], query[3], value[3]
        return cls(query[batch], heads, kv_heads, query[positions], keys[positions], head_size, value_size)

    @property
    def scores(self) -> int:
        """How many products of a query and a key there are."""
        return self.batch * self.heads * self.queries * self.keys


def _quotient(whole: int, part: int) -> int:
    return whole // part if part and whole % part == 0 else 0
