"""Convolutions that JAX has, with arrays of small sizes."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import jax
import numpy as np

import aclgrad
import aclgrad.jax

_GENERATOR: Final = np.random.default_rng(57)


@dataclass(frozen=True)
class ConvolutionCall:
    """A function, the shapes of its operands, and what it takes besides."""

    id: str
    lhs: tuple[int, ...]
    rhs: tuple[int, ...]
    args: tuple[Any, ...]
    options: dict[str, Any] = field(default_factory=dict, hash=False)
    name: str = "conv_general_dilated"

    def __str__(self) -> str:
        return self.id

    def arrays(self) -> list[np.ndarray]:
        return [_GENERATOR.standard_normal(each, np.float32) for each in (self.lhs, self.rhs)]

    def ours(self, client: aclgrad.Client) -> Callable[..., jax.Array]:
        function = getattr(aclgrad.jax, self.name)
        return lambda lhs, rhs: function(lhs, rhs, *self.args, **self.options, client=client)

    def theirs(self, lhs: Any, rhs: Any) -> jax.Array:
        found: jax.Array = getattr(jax.lax, self.name)(lhs, rhs, *self.args, **self.options)
        return found


def _plane(id: str, *args: Any, lhs: Any = (2, 3, 7, 6), rhs: Any = (4, 3, 3, 2), **options: Any) -> ConvolutionCall:
    return ConvolutionCall(id, lhs, rhs, args, options)


def _spread(id: str, *args: Any, lhs: Any = (2, 4, 5, 3), rhs: Any = (3, 2, 3, 4), **options: Any) -> ConvolutionCall:
    return ConvolutionCall(id, lhs, rhs, args, options, "conv_transpose")


_LAST: Final = {"dimension_numbers": ("NHWC", "HWIO", "NHWC")}
CONVOLUTIONS: Final = (
    ConvolutionCall("conv", (2, 3, 7, 6), (4, 3, 3, 2), ((2, 1), "SAME"), name="conv"),
    ConvolutionCall(
        "general padding", (2, 3, 7, 6), (4, 3, 3, 2), ((2, 1), "VALID", None, (2, 1)), name="conv_with_general_padding"
    ),
    ConvolutionCall("row", (2, 3, 9), (4, 3, 3), ((2,), [(1, 1)])),
    ConvolutionCall("volume", (1, 2, 4, 5, 3), (3, 2, 2, 3, 1), ((1, 2, 1), [(1, 1), (0, 0), (2, 2)])),
    _plane("channels last", (1, 2), "SAME", lhs=(2, 7, 6, 3), rhs=(3, 2, 3, 4), **_LAST),
    _plane(
        "other axes", (1, 1), "VALID", lhs=(7, 2, 3, 6), rhs=(3, 4, 2, 3), dimension_numbers=("HNCW", "IOWH", "CWNH")
    ),
    _plane("same, lower", (2, 2), "SAME_LOWER"),
    _plane("cropped", (1, 2), [(-1, 2), (3, -2)], rhs_dilation=(2, 1)),
    _plane("groups", (2, 1), [(1, 1), (0, 1)], None, (1, 2), lhs=(2, 6, 7, 6), rhs=(4, 3, 3, 2), feature_group_count=2),
    _plane("depthwise", (1, 1), "SAME", lhs=(2, 4, 5, 5), rhs=(8, 1, 3, 3), feature_group_count=4),
    _plane("groups of images", (1, 1), "VALID", lhs=(4, 3, 5, 5), batch_group_count=2),
    _plane("transposed", (1, 1), [(2, 2), (1, 1)], (2, 3)),
    _plane("more at the end", (1, 1), [(1, 2), (0, 2)], (2, 3), (1, 2)),
    _plane("less at the end", (1, 1), [(2, -1), (3, 0)], (2, 2)),
    _plane("more than all", (1, 1), [(4, 5), (2, 9)], (2, 3)),
    _plane("groups transposed", (1, 1), [(2, 2), (1, 1)], (2, 2), lhs=(2, 6, 4, 4), feature_group_count=2),
    _plane("both strides", (2, 3), [(2, 2), (1, 1)], (3, 2)),
    ConvolutionCall("row transposed", (2, 3, 4), (4, 3, 3), ((1,), [(2, 3)], (3,))),
    ConvolutionCall(
        "volume transposed",
        (1, 2, 2, 3, 2),
        (3, 2, 2, 3, 1),
        ((1,) * 3, [(1, 1), (2, 4), (0, 1)], (2, 2, 1), (1, 3, 1)),
    ),
    _spread("spread", (2, 3), "SAME"),
    _spread("spread over all", (3, 1), "VALID", (1, 2)),
    _spread("spread by the kernel of the other way", (2, 2), [(1, 2), (0, 3)], rhs=(3, 2, 4, 3), transpose_kernel=True),
)
