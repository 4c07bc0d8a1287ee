"""Where the positions of a convolution touch: the same for its spec, its definition and its samples.

A convolution has a big and a small side: the input and the result, or of a transposed one the result and the input.
Along each axis, position q of the small side touches q * stride - padding + k * dilation of the big one for each k.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

Shape = tuple[int, ...]


def for_axes(values: Sequence[int], axes: int) -> Shape:
    """Returns a value for each axis: one that stands alone is that of all."""
    return tuple(values) * axes if len(values) == 1 else tuple(values)


@dataclass(frozen=True, slots=True)
class Geometry:
    """A convolution's sizes, all along spatial axes but `groups`; the shapes are whole."""

    input: Shape
    weight: Shape
    result: Shape
    stride: Shape
    padding: Shape
    dilation: Shape
    output_padding: Shape
    transposed: bool
    groups: int

    @classmethod
    def of(
        cls,
        input: Shape,
        weight: Shape,
        result: Shape | None,
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int],
        output_padding: Sequence[int] = (0,),
        transposed: bool = False,
        groups: int = 1,
    ) -> "Geometry":
        """Takes lists of one value for each spatial axis, or of one for all; the result is its own if it is None."""
        axes = len(input) - 2
        stride, padding, dilation, more = (for_axes(each, axes) for each in (stride, padding, dilation, output_padding))
        found = cls(input, weight, result or (), stride, padding, dilation, more, transposed, groups)
        return replace(found, result=found.own_result) if result is None else found

    @property
    def kernel(self) -> Shape:
        return self.weight[2:]

    @property
    def small(self) -> Shape:
        return self.input if self.transposed else self.result

    @property
    def big(self) -> Shape:
        return self.result if self.transposed else self.input

    @property
    def output_sizes(self) -> Shape:
        """The spatial sizes of the result; a size below 1 says that there is no result."""
        axes = zip(
            self.input[2:], self.kernel, self.stride, self.padding, self.dilation, self.output_padding, strict=True
        )
        if self.transposed:
            return tuple((size - 1) * s - 2 * p + d * (k - 1) + more + 1 for size, k, s, p, d, more in axes)
        return tuple((size + 2 * p - d * (k - 1) - 1) // s + 1 for size, k, s, p, d, _ in axes)

    @property
    def output_channels(self) -> int:
        return self.weight[1] * self.groups if self.transposed else self.weight[0]

    @property
    def own_result(self) -> Shape:
        """The shape of the result; a size below 1 stands for no result."""
        return (self.input[0], self.output_channels, *self.output_sizes)

    @property
    def products(self) -> int:
        """How many products the result takes, or one of the two large gradients."""
        return math.prod(self.small) * math.prod(self.weight[1:])

    @property
    def terms_of_input(self) -> int:
        """The most products that an element of the input's gradient is the sum of."""
        return self._terms_of_small if self.transposed else self._terms_of_big

    @property
    def terms_of_result(self) -> int:
        """The most products that an element of the result is the sum of."""
        return self._terms_of_big if self.transposed else self._terms_of_small

    @property
    def _terms_of_small(self) -> int:
        return math.prod(self.weight[1:])

    @property
    def _terms_of_big(self) -> int:
        axes = zip(self.kernel, self.stride, self.dilation, strict=True)
        taps = math.prod(-(-k // (s // math.gcd(s, d))) for k, s, d in axes)
        return self.weight[0] // self.groups * taps

    @property
    def terms_of_weight(self) -> int:
        """How many products an element of the weight's gradient is the sum of."""
        return self.small[0] * math.prod(self.small[2:])

    @property
    def terms_of_bias(self) -> int:
        """How many elements of the result's gradient an element of the bias's is the sum of."""
        return self.result[0] * math.prod(self.result[2:])
