"""An operator of values, which only tests have: rows of a table by indices, the first input, which does not lead."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import numpy as np
import pytest

from aclgrad import reference
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.samples import PLANES, Arrays, Case, Samples, case
from aclgrad.operators.spec import Arguments, InputSpec, OperatorKind, OperatorSpec, OutputSpec, Tolerance, same_on
from aclgrad.operators.tolerance import by_dtype
from aclgrad.operators.values import IndexRule
from aclgrad.products import Product
from aclgrad.tensors import TensorType

NAME = "made_up_rows"
_DTYPES = same_on((Product.ATLAS_A2,), ("float32", "float16"))


def value(indices: np.ndarray, table: np.ndarray) -> np.ndarray:
    return table[indices].astype(np.float64)


def _rows(arguments: Arguments) -> TensorType:
    table, indices = arguments.inputs["table"], arguments.inputs["indices"]
    return TensorType(table.dtype, (*indices.shape, table.shape[1]))


def _values(generator: np.random.Generator, example: Case, arrays: Arrays) -> Arrays:
    drawn = generator.integers(0, len(arrays["table"]), arrays["indices"].shape)
    return {**arrays, "indices": drawn.astype(arrays["indices"].dtype)}


def _case(name: str, indices: int, rows: int, columns: int) -> Case:
    return case(name, indices=(indices,), table=(rows, columns), fixed={"indices": "int64"})


SPEC = OperatorSpec(
    name=NAME,
    symbol="aclnnMadeUpRows",
    summary="Looks up rows.",
    formula="out[i] = table[indices[i]] (PyTorch: aten::embedding)",
    inputs=(
        InputSpec(
            "indices",
            "The rows.",
            same_on((Product.ATLAS_A2,), ("int64",)),
            (1,),
            values=lambda arguments, _: IndexRule(arguments.inputs["table"].shape[0]),
        ),
        InputSpec("table", "The table.", _DTYPES, (2,)),
    ),
    attributes=(),
    outputs=(OutputSpec("out", "The rows.", _rows),),
    check=lambda arguments, product: iter(()),
    tolerance=by_dtype(dict.fromkeys(("float32", "float16"), Tolerance(0.0, 0.0))),
    kind=OperatorKind.VALUE,
    leading="table",
    is_spatial=False,
)
SAMPLES = Samples(
    cases=(_case("few", 3, 5, 4), _case("often", 9, 2, 3), _case("none", 0, 2, 3)),
    draw=lambda integer: _case("drawn", integer(0, 9), integer(1, 9), integer(0, 9)),
    timed=dict.fromkeys(PLANES, _case("timed", 64, 64, 64)),
    pytorch=lambda tensors, _: tensors["table"][tensors["indices"]],
    values=_values,
)


@contextmanager
def registered(*modules: ModuleType) -> Iterator[None]:
    """Makes the parts of the operator known by its name, and adds it to the table that these modules look at."""
    with pytest.MonkeyPatch.context() as patch:
        for part in ("definition", "samples"):
            patch.setitem(sys.modules, f"aclgrad.operators.{NAME}.{part}", sys.modules[__name__])
        patch.setitem(vars(reference)["_DEFINITIONS"], NAME, value)
        for module in modules:
            patch.setattr(module, "OPERATORS", {**OPERATORS, NAME: SPEC})
        yield
