"""Which calls of layer_norm_backward are refused."""

import pytest

from aclgrad.operators.layer_norm_backward.spec import SPEC
from aclgrad.operators.spec import Arguments
from aclgrad.products import Product
from aclgrad.tensors import DTYPES, TensorType

LEGAL = {
    "grad_output": (2, 3, 4, 5),
    "input": (2, 3, 4, 5),
    "mean": (2, 3, 1, 1),
    "rstd": (2, 3, 1, 1),
    "weight": (4, 5),
    "bias": (4, 5),
}
SIZES = ["attributes[normalized_shape]"]

SHAPES: dict[str, tuple[dict[str, tuple[int, ...]], list[str]]] = {
    "as it is": ({}, []),
    "all sizes": (
        {"normalized_shape": (2, 3, 4, 5), "weight": (2, 3, 4, 5), "bias": (2, 3, 4, 5)},
        ["inputs[mean].shape"],
    ),
    # What devices compare of these, if anything, is right.
    "a size of the last half": ({"normalized_shape": (2, 5), "weight": (2, 5), "bias": (2, 5)}, SIZES),
    "a smaller last size": ({"normalized_shape": (3,), "weight": (3,), "bias": (3,)}, SIZES),
    "the first sizes": ({"normalized_shape": (2, 3), "weight": (2, 3), "bias": (2, 3)}, SIZES),
    "more sizes than the input": ({"normalized_shape": (1, 2, 3, 4, 5)}, SIZES),
    "a small weight": ({"weight": (5,)}, ["inputs[weight].shape"]),
    "a weight of as many elements": ({"weight": (20,)}, ["inputs[weight].shape"]),
    "a small bias": ({"bias": (4, 4)}, ["inputs[bias].shape"]),
    "rows in another order": ({"grad_output": (3, 2, 4, 5)}, ["inputs[grad_output].shape"]),
    "means as a list": ({"mean": (6,), "rstd": (6,)}, []),
    "means without axes of one": ({"mean": (2, 3), "rstd": (2, 3)}, []),
    "means in another order": ({"mean": (3, 2), "rstd": (3, 2)}, ["inputs[mean].shape"]),
    "means behind axes of one": ({"mean": (1, 1, 2, 3), "rstd": (1, 1, 2, 3)}, ["inputs[mean].shape"]),
    "means unlike deviations": ({"mean": (6,)}, ["inputs[rstd].shape"]),
    "too many means": ({"mean": (7,), "rstd": (7,)}, ["inputs[mean].shape"]),
    "no rows": ({"grad_output": (0, 4, 5), "input": (0, 4, 5), "mean": (0,), "rstd": (0,)}, []),
    # As torch_npu's forward saves it.
    "no rows of several axes": ({"grad_output": (0, 3, 4, 5), "input": (0, 3, 4, 5), "mean": (0,), "rstd": (0,)}, []),
}


def refused(
    shapes: dict[str, tuple[int, ...]], dtypes: dict[str, str] | None = None, without: tuple[str, ...] = ()
) -> list[str]:
    given = {"normalized_shape": (4, 5)} | LEGAL | shapes
    attributes = {"normalized_shape": given.pop("normalized_shape")}
    named = dict.fromkeys(LEGAL, "float32") | (dtypes or {})
    types = {name: TensorType(DTYPES[named[name]], shape) for name, shape in given.items() if name not in without}
    return [each.field for each in SPEC.check(Arguments(types, attributes), Product.ATLAS_A2)]


@pytest.mark.parametrize("name", SHAPES)
def test_shapes(name: str) -> None:
    shapes, fields = SHAPES[name]
    assert refused(shapes) == fields


@pytest.mark.parametrize("without", [("weight",), ("bias",), ("weight", "bias")], ids=str)
def test_parameters_may_be_left_out(without: tuple[str, ...]) -> None:
    assert refused({}, without=without) == []
    assert refused({"normalized_shape": (5,)}, without=without)[-1:] != []


@pytest.mark.parametrize(
    ("dtypes", "fields"),
    [
        (dict.fromkeys(LEGAL, "float16"), []),
        ({"grad_output": "bfloat16", "input": "bfloat16"}, []),
        ({"grad_output": "bfloat16", "input": "bfloat16", "weight": "bfloat16"}, []),
        ({"grad_output": "bfloat16"}, ["inputs[input].data_type"]),
        ({"mean": "float16", "rstd": "float16"}, ["inputs[mean].data_type"]),
        (dict.fromkeys(LEGAL, "float16") | {"mean": "float32"}, ["inputs[rstd].data_type"]),
        (dict.fromkeys(LEGAL, "float16") | {"weight": "bfloat16"}, ["inputs[weight].data_type"]),
        ({"bias": "float16"}, ["inputs[bias].data_type"]),
    ],
)
def test_dtypes(dtypes: dict[str, str], fields: list[str]) -> None:
    assert refused({}, dtypes) == fields


def test_products() -> None:
    dtypes = SPEC.inputs[0].dtypes
    without = {each for each in SPEC.products if "bfloat16" not in dtypes[each]}
    assert without == {Product.ATLAS_TRAINING, Product.ATLAS_INFERENCE}
    assert Product.ATLAS_200I_A2 not in SPEC.products


def test_gradients_of_parameters_are_float32_whatever_their_dtype() -> None:
    types = {name: TensorType(DTYPES["float16"], shape) for name, shape in LEGAL.items()}
    outputs = [each.infer(Arguments(types, {"normalized_shape": (4, 5)})) for each in SPEC.outputs]
    assert [(each.dtype.name, each.shape) for each in outputs] == [
        ("float16", (2, 3, 4, 5)),
        ("float32", (4, 5)),
        ("float32", (4, 5)),
    ]
