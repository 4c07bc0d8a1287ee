"""The products that CANN distinguishes, the product of each SoC name, and the pace of each."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Product(StrEnum):
    """A family of Ascend chips for which CANN documents one behaviour."""

    ATLAS_TRAINING = "910A"
    ATLAS_A2 = "910B"
    ATLAS_A3 = "910_93"
    ATLAS_INFERENCE = "310P"
    ATLAS_200I_A2 = "310B"
    ASCEND_950 = "950"


_NAMES: Final = {
    Product.ATLAS_TRAINING: "Ascend910PremiumA Ascend910ProA Ascend910A Ascend910ProB Ascend910B",
    Product.ATLAS_A2: "Ascend910B1 Ascend910B2 Ascend910B2C Ascend910B3 Ascend910B4 Ascend910B4-1",
    Product.ATLAS_A3: (
        "Ascend910_9391 Ascend910_9392 Ascend910_9381 Ascend910_9382 Ascend910_9372 Ascend910_9362 Ascend910_9363"
    ),
    Product.ATLAS_INFERENCE: "Ascend310P1 Ascend310P2 Ascend310P3 Ascend310P4 Ascend310P5 Ascend310P7",
    Product.ATLAS_200I_A2: "Ascend310B1 Ascend310B2 Ascend310B3 Ascend310B4",
}
_BY_NAME: Final = {name: product for product, names in _NAMES.items() for name in names.split()}


STREAM_LIMITS: Final = {
    Product.ATLAS_TRAINING: 2048,
    Product.ATLAS_A2: 1984,
    Product.ATLAS_A3: 1984,
    Product.ATLAS_INFERENCE: 1024,
    Product.ATLAS_200I_A2: 512,
    Product.ASCEND_950: 1984,
}
"""The streams of one device for all processes together, their default streams included."""


@dataclass(frozen=True, slots=True)
class Work:
    """Floating-point operations, and bytes read and written, estimated within a factor of a few.

    `matrix_operations` are those of matrix products, computed by matrix units.
    """

    operations: float
    nbytes: float
    matrix_operations: float = 0.0


@dataclass(frozen=True, slots=True)
class Pace:
    """The work of a device in a second, and the further seconds of each call."""

    operations: float
    nbytes: float
    matrix_operations: float
    call_s: float

    def seconds(self, work: Work) -> float:
        """Returns the time of the work, bound by operations or by bytes."""
        computing_s = work.operations / self.operations + work.matrix_operations / self.matrix_operations
        return self.call_s + max(computing_s, work.nbytes / self.nbytes)


PACES: Final = {
    product: Pace(peak / 50, nbytes / 10, peak / 4, 50e-6)
    for product, peak, nbytes in (
        (Product.ATLAS_TRAINING, 256e12, 1.2e12),
        (Product.ATLAS_A2, 320e12, 1.6e12),
        (Product.ATLAS_A3, 400e12, 1.6e12),
        (Product.ATLAS_INFERENCE, 70e12, 204.8e9),
        (Product.ATLAS_200I_A2, 10e12, 51.2e9),
        (Product.ASCEND_950, 500e12, 1.6e12),
    )
}
"""Shares of Huawei's published peaks for float16 products and for the memory, and the launch of a kernel; for 910_93,
one of two dies.

A fiftieth, which vector units reach, and a quarter for products, which large ones reach: in a kernel's default minute,
a card does at least the work of a second at its peak.
"""


def product_of_soc(soc_name: str) -> Product | None:
    """Returns the product of a SoC name from `aclrtGetSocName`, or None for an unknown chip."""
    if soc_name.startswith("Ascend950"):
        return Product.ASCEND_950
    return _BY_NAME.get(soc_name)
