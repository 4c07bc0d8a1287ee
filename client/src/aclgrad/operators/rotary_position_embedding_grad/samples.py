"""Calls of rotary_position_embedding_grad."""

from collections.abc import Mapping
from typing import Any, Final

from aclgrad.operators.rotary_position_embedding_grad.spec import HALF, INTERLEAVE, SPEC
from aclgrad.operators.samples import Case, Integer, Samples, case, draw_sizes
from aclgrad.products import Product

_PRODUCTS: Final = tuple(each for each in Product if each in SPEC.products)
_MOST_DRAWN: Final = 6


def rotary_case(
    name: str, shape: tuple[int, ...], own: tuple[int, ...], mode: int, products: tuple[Product, ...] = _PRODUCTS
) -> Case:
    """Returns a case; cos and sin have the sizes of the axes `own`, and 1 along the others."""
    cos = tuple(size if axis in (*own, 3) else 1 for axis, size in enumerate(shape))
    return case(name, {"mode": mode}, products=products, dy=shape, cos=cos, sin=cos, x=shape)


def _draw(integer: Integer) -> Case:
    mode = integer(HALF, INTERLEAVE)
    a, b, c = draw_sizes(integer, 3, 1, _MOST_DRAWN)
    own = ((0,), (1,), (2,), (0, 1), (0, 2), (0, 1, 2))[integer(0, 2 if mode else 5)]
    # A2 takes the batch of a layout with the heads before the positions if there are more positions.
    c += a if own == (0, 2) else 0
    return rotary_case("drawn", (a, b, c, 2 * integer(1, 40)), own, mode)


def _pytorch(tensors: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
    """PyTorch has no such operator, but the gradients of its parts."""
    import torch

    x, cos, sin = leaves = [tensors[name].detach().requires_grad_() for name in ("x", "cos", "sin")]
    if attributes["mode"] == INTERLEAVE:
        rotated = torch.stack((-x[..., 1::2], x[..., 0::2]), -1).flatten(-2)
    else:
        first, second = x.chunk(2, -1)
        rotated = torch.cat((-second, first), -1)
    return torch.autograd.grad(x * cos + rotated * sin, leaves, tensors["dy"])


_HALF: Final = 448
"""Half the elements of the longest row of A2 and A3."""

SAMPLES = Samples(
    draw=_draw,
    rows=lambda length: (
        # More elements than a row may have are more rows.
        rotary_case("halves", (2, 3, length // _HALF + 4, 2 * min(length, _HALF)), (2,), HALF),
        rotary_case("pairs", (3, 4, 2, 2 * min(length, _HALF)), (1,), INTERLEAVE),
    ),
    timed={
        "16 KB": rotary_case("timed", (1, 4, 16, 64), (2,), HALF),
        "6 MB": rotary_case("timed", (1, 16, 768, 128), (2,), HALF),
        "100 MB": rotary_case("timed", (2, 32, 3136, 128), (2,), HALF),
        "1 GB": rotary_case("timed", (10, 64, 3136, 128), (2,), HALF),
    },
    pytorch=_pytorch,
    long=lambda cells: (
        rotary_case("many_positions", (2, 4, max(cells // 512, 1), 64), (2,), HALF),
        rotary_case("positions_first", (max(cells // 512, 1), 2, 4, 64), (0,), INTERLEAVE),
        rotary_case("much_sharing", (32, max(cells // 2**16, 1), 32, 64), (1,), HALF),
    ),
    has_signed_weights=True,
    picture=rotary_case("picture", (1, 1, 2, 4), (0, 1, 2), HALF),
    cases=(
        rotary_case("heads_first", (2, 3, 5, 10), (2,), HALF),
        rotary_case("pairs", (3, 5, 4, 44), (1,), INTERLEAVE),
        rotary_case("positions_and_batch", (5, 2, 3, 66), (0, 1), HALF),
        rotary_case("much_sharing", (2, 30, 20, 4), (0,), INTERLEAVE),
        rotary_case("of_all", (2, 1, 3, 6), (0, 1, 2), HALF),
        rotary_case("sharing_the_first", (3, 2, 4, 8), (1, 2), INTERLEAVE, (Product.ASCEND_950,)),
        rotary_case("nothing", (0, 5, 3, 4), (1,), HALF),
    ),
)
