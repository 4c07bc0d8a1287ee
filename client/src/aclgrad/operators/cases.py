"""The case table: every case of every operator with every dtype, and arrays to run it on."""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.parts import samples_of
from aclgrad.operators.samples import Arrays, Case
from aclgrad.operators.spec import Arguments, OperatorSpec, Tolerance
from aclgrad.products import Product
from aclgrad.tensors import TensorType
from aclgrad.wire.values import AttributeValue

_BLOCK: Final = 2**20
"""The values of a larger array repeat, for speed."""


@dataclass(frozen=True, slots=True)
class TypedCase:
    """One case of one operator with one dtype."""

    spec: OperatorSpec
    case: Case
    dtype: str

    def __str__(self) -> str:
        return f"{self.spec.name}-{self.case.name}-{self.dtype}"

    @property
    def attributes(self) -> dict[str, AttributeValue | None]:
        """The attributes of the case, and the defaults of the others."""
        return {**self.spec.defaults, **self.case.attributes}

    @property
    def arguments(self) -> Arguments:
        """The types of the inputs, and the attributes."""
        return self.case.arguments(self.spec, self.dtype)

    @property
    def outputs(self) -> dict[str, TensorType]:
        """The types of the outputs, by name."""
        arguments = self.arguments
        return {each.name: each.infer(arguments) for each in self.spec.returned}

    def tolerance(self, product: Product) -> Tolerance:
        """Returns the tolerance of the product's results."""
        return self.spec.tolerance(self.arguments, product, self.dtype)

    def arrays(self) -> Arrays:
        """Returns the inputs: legal values, standard normal if any are legal, the same at every call."""
        generator = np.random.default_rng(zlib.crc32(str(self).encode()))
        arrays = {name: _array(generator, type) for name, type in self.arguments.inputs.items()}
        return samples_of(self.spec.name).values(generator, self.case, arrays)


def _array(generator: np.random.Generator, type: TensorType) -> np.ndarray[Any, Any]:
    dtype = type.dtype.numpy
    drawn = type.shape if type.element_count <= _BLOCK else (_BLOCK,)
    if dtype.kind in "iu":
        values = generator.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, drawn, dtype, endpoint=True)
    else:
        normal = generator.standard_normal(drawn)
        values = (normal + 1j * generator.standard_normal(drawn) if dtype.kind == "c" else normal).astype(dtype)
    return values if drawn == type.shape else np.resize(values, type.shape)


def arrays_of(results: Any) -> tuple[np.ndarray[Any, Any], ...]:
    """Returns the arrays of a call's or a definition's result, or tuple of results."""
    return tuple(results) if isinstance(results, tuple) else (results,)


def returned_arrays(results: Any) -> tuple[np.ndarray[Any, Any], ...]:
    """Returns the arrays that a call returned, without None for unwanted outputs and those that stay inside."""
    return tuple(each for each in arrays_of(results) if each is not None)


def served_dtypes(spec: OperatorSpec, case: Case, product: Product) -> list[str]:
    """Returns the dtypes with which the product serves the case."""
    dtypes = spec.dtypes_on(product) if product in case.products else ()
    return [dtype for dtype in dtypes if not case.only or dtype in case.only]


def typed_cases(product: Product, *operators: str) -> Iterator[TypedCase]:
    """Yields every case that the product serves, of these operators or of all."""
    for spec in map(OPERATORS.__getitem__, operators or OPERATORS):
        for case in samples_of(spec.name).cases:
            for dtype in served_dtypes(spec, case, product):
                yield TypedCase(spec, case, dtype)


def first_cases(product: Product, *operators: str, every_dtype: bool = False) -> Iterator[TypedCase]:
    """Yields the first case of these operators, or of all, that the product serves: with one dtype or with each."""
    for name in operators or OPERATORS:
        seen: set[str] = set()
        for typed in typed_cases(product, name):
            if typed.dtype not in seen:
                seen.add(typed.dtype)
                yield typed
                if not every_dtype:
                    break
