"""aclnnLayerNormBackward: rows that are divided, gradients that are not wanted, and what is not finite."""

from collections.abc import Mapping
from contextlib import ExitStack

import numpy as np
import pytest
from ml_dtypes import bfloat16

from aclgrad import reference
from aclgrad.operators.cases import TypedCase
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.layer_norm_backward.samples import layer_norm_case
from tools.abi.acl import Format, Library

NAME = "layer_norm_backward"
OUTPUTS = ("grad_input", "grad_weight", "grad_bias")
FILL = 7

Arrays = dict[str, np.ndarray]


def sample(leading: tuple[int, ...], normalized: tuple[int, ...], parameters: str = "weight bias") -> TypedCase:
    return TypedCase(OPERATORS[NAME], layer_norm_case("call", leading, normalized, parameters), "float32")


def run(acl: Library, typed: TypedCase, arrays: Arrays, wanted: Mapping[str, type] | None = None) -> Arrays:
    """Runs the call in device memory; returns the outputs, which have the given types. Others are null."""
    types = dict.fromkeys(OUTPUTS, np.float32) if wanted is None else wanted
    sizes = typed.attributes["normalized_shape"]
    shapes = {"grad_input": arrays["input"].shape, "grad_weight": sizes, "grad_bias": sizes}
    with ExitStack() as stack:

        def tensor(array: np.ndarray | None) -> object:
            return None if array is None else stack.enter_context(acl.tensor(array, format_=Format.ND))

        inputs = {name: tensor(arrays.get(name)) for name in ("grad_output", "input", "mean", "rstd", "weight", "bias")}
        outputs = {name: tensor(np.full(shapes[name], FILL, type)) for name, type in types.items()}
        handles = [each and each.handle for each in (*inputs.values(), *map(outputs.get, OUTPUTS))]
        handles.insert(2, stack.enter_context(acl.int_array(sizes)))
        handles.insert(7, stack.enter_context(acl.bool_array(tuple(name in types for name in OUTPUTS))))
        acl.run(typed.spec.symbol, *handles)
        return {name: each.read_storage() for name, each in outputs.items()}


def assert_defined(typed: TypedCase, arrays: Arrays, gradients: Arrays, limit: float = 1e-5) -> None:
    truths = dict(zip(OUTPUTS, reference.define(NAME, arrays, typed.attributes), strict=True))
    for name, gradient in gradients.items():
        largest = np.abs(truths[name]).max()
        assert np.abs(gradient.astype(np.float64) - truths[name]).max() <= limit * max(largest, 1.0), name


@pytest.mark.parametrize(
    ("rows", "columns"), [(1, 8192), (1, 8193), (3, 20000), (70, 8193), (2100, 33), (5000, 7), (20000, 1), (33, 2100)]
)
def test_rows_in_parts_and_chunks_of_rows(acl: Library, rows: int, columns: int) -> None:
    typed = sample((rows,), (columns,))
    assert_defined(typed, typed.arrays(), run(acl, typed, typed.arrays()))


@pytest.mark.parametrize("shape", [((5,), (12,)), ((3,), (9000,)), ((4000,), (20,))], ids=str)
@pytest.mark.parametrize("count", range(8))
def test_wanted_gradients_do_not_depend_on_the_others(
    acl: Library, shape: tuple[tuple[int, ...], tuple[int, ...]], count: int
) -> None:
    typed = sample(*shape)
    arrays = typed.arrays()
    names = [name for position, name in enumerate(OUTPUTS) if count >> position & 1]
    every, some = run(acl, typed, arrays), run(acl, typed, arrays, dict.fromkeys(names, np.float32))
    for name in names:
        np.testing.assert_array_equal(some[name], every[name])


def test_a_gradient_that_is_given_but_not_wanted_stays_as_it_is(acl: Library) -> None:
    typed = sample((5,), (12,))
    arrays = typed.arrays()
    with ExitStack() as stack:
        order = ("grad_output", "input", "mean", "rstd", "weight", "bias")
        inputs = [stack.enter_context(acl.tensor(arrays[name], format_=Format.ND)).handle for name in order]
        full = [np.full(shape, FILL, np.float32) for shape in ((5, 12), (12,), (12,))]
        outputs = [stack.enter_context(acl.tensor(each, format_=Format.ND)) for each in full]
        sizes, mask = acl.int_array((12,)), acl.bool_array((False, True, False))
        given = [*inputs[:2], stack.enter_context(sizes), *inputs[2:], stack.enter_context(mask)]
        acl.run(typed.spec.symbol, *given, *(each.handle for each in outputs))
        written = [(each.read_storage() != FILL).any() for each in outputs]
    assert written == [False, True, False]


def test_gradients_may_have_other_types_than_the_input(acl: Library) -> None:
    typed = sample((50,), (30,))
    types = {"grad_input": bfloat16, "grad_weight": np.float16, "grad_bias": bfloat16}
    given = run(acl, typed, typed.arrays(), types)
    exact = run(acl, typed, typed.arrays())
    for name, type in types.items():
        assert (given[name] == exact[name].astype(type)).all()


def test_means_may_have_another_type_than_the_input(acl: Library) -> None:
    typed = sample((6,), (20,))
    arrays = typed.arrays()
    arrays |= {"mean": arrays["mean"].astype(np.float16), "rstd": arrays["rstd"].astype(bfloat16)}
    assert_defined(typed, arrays, run(acl, typed, arrays))


@pytest.mark.parametrize("columns", [20, 9000])
def test_what_is_not_finite_stays_in_its_row_and_column(acl: Library, columns: int) -> None:
    typed = sample((6,), (columns,))
    arrays = typed.arrays()
    arrays["grad_output"][2, 5] = np.nan
    arrays["grad_output"][4, 7] = np.inf
    gradients = run(acl, typed, arrays)
    finite = {name: np.isfinite(each) for name, each in gradients.items()}
    np.testing.assert_array_equal(finite["grad_input"].any(1), [True, True, False, True, False, True])
    assert finite["grad_input"][[0, 1, 3, 5]].all()
    for name in ("grad_weight", "grad_bias"):
        np.testing.assert_array_equal(np.flatnonzero(~finite[name]), [5, 7])
    assert gradients["grad_bias"][7] == np.inf


def test_values_far_from_zero_keep_their_digits(acl: Library) -> None:
    typed = sample((4,), (64,))
    arrays = typed.arrays()
    arrays["input"] = np.round(arrays["input"] * 64).astype(np.float32) / 64 + 4096
    rows = arrays["input"].astype(np.float64)
    arrays["mean"] = rows.mean(1, keepdims=True).astype(np.float32)
    arrays["rstd"] = (1 / rows.std(1, keepdims=True)).astype(np.float32)
    assert_defined(typed, arrays, run(acl, typed, arrays))


def test_the_bias_is_never_read(acl: Library) -> None:
    typed = sample((4,), (9,))
    arrays = typed.arrays()
    without, broken = run(acl, typed, arrays), run(acl, typed, arrays | {"bias": np.full(9, np.nan, np.float32)})
    for name in OUTPUTS:
        np.testing.assert_array_equal(broken[name], without[name])
