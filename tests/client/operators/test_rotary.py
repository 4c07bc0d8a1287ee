"""Which calls of rotary_position_embedding_grad are refused, where, and with which remedy."""

import numpy as np
import pytest

from aclgrad.errors import InvalidFieldError
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.parts import definition_of
from aclgrad.operators.spec import Arguments
from aclgrad.operators.validation import check_call
from aclgrad.products import Product
from aclgrad.tensors import DTYPES, TensorType, view_of_array
from aclgrad.wire.messages import OperatorCall

NAME = "rotary_position_embedding_grad"
SPEC = OPERATORS[NAME]
A2, A3, P950 = Product.ATLAS_A2, Product.ATLAS_A3, Product.ASCEND_950
Shape = tuple[int, ...]
DY, COS, MODE = "inputs[dy].shape", "inputs[cos].shape", "attributes[mode]"


def call(dy: Shape, cos: Shape, mode: int = 0, *outputs: str, **changed: Shape | None) -> Arguments:
    shapes = {"dy": dy, "cos": cos, "sin": cos, "x": dy} | changed
    types = {name: TensorType(DTYPES["float32"], shape) for name, shape in shapes.items() if shape is not None}
    return Arguments(types, {"mode": mode}, outputs)


def fields(arguments: Arguments, product: Product = A2) -> list[str]:
    return [each.field for each in SPEC.check(arguments, product)]


LAYOUTS = {
    # Sizes of dy and cos, and whether mode 1 takes them, too.
    ((2, 3, 5), (1, 1, 5)): True,
    ((2, 3, 5), (1, 3, 1)): True,
    ((2, 3, 5), (2, 1, 1)): True,
    ((1, 3, 5), (1, 1, 5)): True,
    ((2, 1, 1), (1, 1, 1)): True,
    ((2, 3, 5), (2, 1, 5)): False,
    ((2, 3, 5), (2, 3, 1)): False,
    ((3, 2, 5), (3, 2, 1)): False,
    ((2, 3, 5), (2, 3, 5)): False,
}


@pytest.mark.parametrize(("dy", "cos"), LAYOUTS, ids=str)
@pytest.mark.parametrize("product", [A2, A3])
def test_layouts_that_a2_finds(dy: Shape, cos: Shape, product: Product) -> None:
    assert fields(call((*dy, 4), (*cos, 4)), product) == []
    assert fields(call((*dy, 4), (*cos, 4), 1), product) == ([] if LAYOUTS[dy, cos] else [COS])


@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize(("dy", "cos"), [((2, 3, 5), (1, 3, 5)), ((2, 3, 5), (1, 1, 1)), ((5, 3, 5), (5, 1, 5))])
def test_layouts_of_a_950_alone(dy: Shape, cos: Shape, mode: int) -> None:
    given = call((*dy, 4), (*cos, 4), mode)
    assert (fields(given), fields(given, P950)) == ([COS], [])


REFUSED = {
    "other sines": (call((2, 3, 5, 4), (1, 1, 5, 4), sin=(1, 3, 1, 4)), ["inputs[sin].shape"]),
    "another x": (call((2, 3, 5, 4), (1, 1, 5, 4), x=(2, 3, 5, 2)), ["inputs[x].shape"]),
    "an odd size": (call((2, 3, 5, 5), (1, 1, 5, 5)), [DY]),
    "a long size": (call((2, 3, 5, 898), (1, 1, 5, 898)), [DY]),
    "the longest": (call((2, 3, 5, 896), (1, 1, 5, 896)), []),
    "another last size": (call((2, 3, 5, 4), (1, 1, 5, 2)), [COS]),
    "other positions": (call((2, 3, 5, 4), (1, 1, 4, 4)), [COS]),
    "a large batch": (call((1000, 1, 5, 4), (1, 1, 5, 4)), [DY]),
    "many heads": (call((2, 1000, 5, 4), (1, 1, 5, 4)), [DY]),
    "many of both": (call((32, 33, 5, 4), (1, 1, 5, 4)), [DY]),
    "as many as go": (call((32, 32, 5, 4), (1, 1, 5, 4)), []),
    "many of both without x": (call((32, 33, 5, 4), (1, 1, 5, 4), 0, "dx", x=None), []),
    "many pairs without x": (call((25, 40, 5, 4), (1, 1, 5, 4), 1, "dx", x=None), [DY]),
    "many positions": (call((2, 3, 5000, 4), (1, 1, 5000, 4), 1), []),
    "no batch": (call((0, 3, 5, 4), (1, 3, 1, 4)), []),
    "no x": (call((2, 3, 5, 4), (1, 1, 5, 4), x=None), ["outputs[dcos]", "outputs[dsin]"]),
    "no x, and a sum": (call((2, 3, 5, 4), (1, 1, 5, 4), 0, "dx", "dsin", x=None), ["outputs[dsin]"]),
    "no x, and dx alone": (call((2, 3, 5, 4), (1, 1, 5, 4), 0, "dx", x=None), []),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    arguments, expected = REFUSED[name]
    assert fields(arguments) == expected


def test_a_950_takes_longer_rows_and_more_of_them() -> None:
    assert fields(call((2000, 3, 5, 1024), (1, 1, 5, 1024)), P950) == []
    assert fields(call((2, 3, 5, 1026), (1, 1, 5, 1026)), P950) == [DY]


@pytest.mark.parametrize("mode", [-1, 2, 3, 256])
def test_other_modes_are_refused(mode: int) -> None:
    (attribute,) = SPEC.attributes
    assert [each.field for each in attribute.check(mode)] == [MODE]


def test_a_call_without_x_learns_how_to_ask() -> None:
    views = tuple(view_of_array(name, np.ones((2, 3, 5, 4), np.float32)) for name in ("dy", "cos", "sin"))
    with pytest.raises(InvalidFieldError, match=r"outputs\[dcos\].*send x, or ask for dx alone"):
        check_call(OperatorCall(NAME, views, {}), SPEC, A2)


def test_without_x_the_definition_has_one_gradient() -> None:
    arrays = {name: np.ones((2, 3, 5, 4), np.float32) for name in ("dy", "cos", "sin")}
    dx, dcos, dsin = definition_of(NAME).compute(**arrays)
    assert (dx[0, 0, 0].tolist(), dcos, dsin) == ([2, 2, 0, 0], None, None)
    assert definition_of(NAME).compute(**arrays, mode=1)[0][0, 0, 0].tolist() == [2, 0, 2, 0]
