"""The case table: every case of every operator with every dtype, and arrays to run it on."""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.spec import Arrays, Case, OperatorSpec
from aclgrad.products import Product
from aclgrad.tensors import DTYPES


@dataclass(frozen=True, slots=True)
class TypedCase:
    """One case of one operator with one dtype."""

    spec: OperatorSpec
    case: Case
    dtype: str

    def __str__(self) -> str:
        return f"{self.spec.name}-{self.case.name}-{self.dtype}"

    def arrays(self) -> Arrays:
        """Returns the inputs: legal values, standard normal where any will do, the same at every call."""
        generator = np.random.default_rng(zlib.crc32(str(self).encode()))
        arrays = {name: self._array(generator, name, shape) for name, shape in self.case.shapes.items()}
        return self.spec.sample(generator, self.case, arrays)

    def _array(self, generator: np.random.Generator, name: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        dtype = DTYPES[self.case.fixed.get(name, self.dtype)].numpy
        if dtype.kind in "iu":
            return generator.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype, endpoint=True)
        values = generator.standard_normal(shape)
        return (values + 1j * generator.standard_normal(shape) if dtype.kind == "c" else values).astype(dtype)


def typed_cases(product: Product) -> Iterator[TypedCase]:
    """Yields every case that the product serves."""
    for spec in OPERATORS.values():
        for case in spec.cases:
            for dtype in spec.inputs[0].dtypes.get(product, ()):
                if product in case.products and (not case.only or dtype in case.only):
                    yield TypedCase(spec, case, dtype)
