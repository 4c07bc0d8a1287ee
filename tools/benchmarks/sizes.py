"""The tensors that are sent: a gradient of adaptive average pooling with one input element for each output element, so
that as many bytes travel one way as the other, and the operator has next to nothing to compute."""

from dataclasses import dataclass
from math import prod
from typing import Final

OPERATOR: Final = "adaptive_avg_pool2d_backward"


@dataclass(frozen=True, slots=True)
class Size:
    """One size of the gradient."""

    name: str
    shape: tuple[int, ...]

    @property
    def tensor_bytes(self) -> int:
        return 4 * prod(self.shape)


SIZES: Final = {
    size.name: size
    for size in (
        Size("16 KB", (1, 16, 16, 16)),
        Size("1 MB", (4, 64, 32, 32)),
        Size("6.4 MB", (8, 64, 56, 56)),
        Size("100 MB", (32, 256, 56, 56)),
    )
}
