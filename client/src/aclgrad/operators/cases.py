"""The case table: every case of every operator with every dtype, and arrays to run it on."""

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.products import Product
from aclgrad.operators.spec import Case, OperatorSpec
from aclgrad.tensors import DTYPES


@dataclass(frozen=True, slots=True)
class TypedCase:
    """One case of one operator with one dtype."""

    spec: OperatorSpec
    case: Case
    dtype: str

    def __str__(self) -> str:
        return f"{self.spec.name}-{self.case.name}-{self.dtype}"

    def arrays(self) -> Mapping[str, np.ndarray[Any, Any]]:
        """Returns the inputs: standard normal values, the same at every call."""
        generator = np.random.default_rng(zlib.crc32(str(self).encode()))
        dtype = DTYPES[self.dtype].numpy
        return {name: generator.standard_normal(shape).astype(dtype) for name, shape in self.case.shapes.items()}


def typed_cases(product: Product) -> Iterator[TypedCase]:
    """Yields every case that the product serves."""
    for spec in OPERATORS.values():
        for case in spec.cases:
            for dtype in spec.inputs[0].dtypes.get(product, ()):
                yield TypedCase(spec, case, dtype)
