"""Which calls of softmax, normalisations, gated units and losses are refused, and what the saved statistics are."""

from typing import Any

import pytest

from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.spec import Arguments
from aclgrad.operators.values import guarantees
from aclgrad.products import Product
from aclgrad.tensors import DTYPES, TensorType

A2, P950, P310, P910A = Product.ATLAS_A2, Product.ASCEND_950, Product.ATLAS_INFERENCE, Product.ATLAS_TRAINING
Shape = tuple[int, ...]


def arguments(operator: str, **given: Any) -> Arguments:
    """A tuple is a shape of float32, a pair of a shape and a text one of that dtype; others are attributes."""
    types = {}
    names = [each.name for each in OPERATORS[operator].inputs]
    for name in [each for each in names if each in given]:
        value = given.pop(name)
        shape, dtype = value if value and isinstance(value[-1], str) else (value, "float32")
        types[name] = TensorType(DTYPES[dtype], shape)
    return Arguments(types, {**OPERATORS[operator].defaults, **given})


def layer_norm(sizes: Shape, **given: Any) -> tuple[str, Arguments]:
    return "layer_norm", arguments("layer_norm", normalized_shape=sizes, **{"input": (2, 3, 4, 5), **given})


def group_norm(shape: Shape, group: int, **given: Any) -> tuple[str, Arguments]:
    area = 1
    for size in shape[2:]:
        area *= size
    sizes = {"n": shape[0], "c": shape[1], "hxw": area, "group": group}
    return "group_norm", arguments("group_norm", **{"self": shape, **sizes, **given})


def batch_norm(shape: Shape, training: bool = True, **given: Any) -> tuple[str, Arguments]:
    running = {"running_mean": shape[1:2], "running_var": shape[1:2]}
    return "batch_norm", arguments("batch_norm", training=training, **{"input": shape, **running, **given})


def call(operator: str, **given: Any) -> tuple[str, Arguments]:
    return operator, arguments(operator, **given)


HALF, BFLOAT = "float16", "bfloat16"
CALLS = {
    "an axis": (call("softmax", self=(2, 3), dim=-2), A2, []),
    "no axis": (call("log_softmax", self=(2, 3), dim=2), A2, ["attributes[dim]"]),
    "halves": (call("swi_glu", x=(2, 3, 6), dim=-1), A2, []),
    "an odd size": (call("swi_glu", x=(2, 3, 6), dim=1), A2, ["inputs[x].shape"]),
    "an axis beyond": (call("swi_glu", x=(2, 4), dim=2), A2, ["attributes[dim]"]),
    "halves of 64 bytes on 310P": (call("swi_glu", x=(2, 32)), P310, []),
    "halves of 32 bytes on 310P": (call("swi_glu", x=((2, 32), HALF)), P310, ["inputs[x].shape"]),
    "halves of several axes on 310P": (call("swi_glu", x=((2, 2, 32), HALF), dim=1), P310, []),
    "layers": (layer_norm((4, 5), weight=(4, 5), bias=(4, 5)), A2, []),
    "other layers": (layer_norm((3, 5)), A2, ["attributes[normalized_shape]"]),
    "a small weight": (layer_norm((4, 5), weight=(5,)), A2, ["inputs[weight].shape"]),
    "parameters of two types": (
        layer_norm((5,), input=((4, 5), HALF), weight=((5,), HALF), bias=(5,)),
        A2,
        ["inputs[bias].data_type"],
    ),
    "a weight of another type": (
        layer_norm((5,), input=((4, 5), HALF), weight=((5,), BFLOAT)),
        A2,
        ["inputs[weight].data_type"],
    ),
    "wide parameters": (layer_norm((5,), input=((4, 5), HALF), weight=(5,), bias=(5,)), A2, []),
    "roots": (call("rms_norm", x=(2, 3, 8), gamma=(3, 8)), A2, []),
    "another gamma": (call("rms_norm", x=(2, 3, 8), gamma=(8, 3)), A2, ["inputs[gamma].shape"]),
    "no columns": (call("rms_norm", x=(2, 0), gamma=(0,)), A2, ["inputs[gamma].shape"]),
    "no rows": (call("rms_norm", x=(0, 8), gamma=(8,)), A2, []),
    "a wide gamma": (call("rms_norm", x=((2, 16), HALF), gamma=(16,)), A2, []),
    "a wide gamma on 310P": (call("rms_norm", x=((2, 16), HALF), gamma=(16,)), P310, ["inputs[gamma].data_type"]),
    "short rows on 310P": (call("rms_norm", x=(2, 7), gamma=(7,)), P310, ["inputs[x].shape"]),
    "groups": (group_norm((2, 6, 4), 3, gamma=(6,), beta=(6,)), A2, []),
    "groups that do not divide": (group_norm((2, 6, 4), 4), A2, ["attributes[group]"]),
    "another N and HxW": (group_norm((2, 6, 4), 3, n=3, hxw=5), A2, ["attributes[n]", "attributes[hxw]"]),
    "a wide beta": (group_norm((2, 6, 4), 3, self=((2, 6, 4), HALF), beta=(6,)), A2, ["inputs[beta].data_type"]),
    "no samples": (group_norm((0, 6, 4), 3), A2, []),
    "no area": (group_norm((2, 6, 0), 3), A2, ["inputs[self].shape"]),
    "a batch": (batch_norm((4, 3, 5), weight=(3,), bias=(3,)), A2, []),
    "a batch of one value": (batch_norm((1, 3, 1)), A2, ["inputs[input].shape"]),
    "one value without training": (batch_norm((1, 3, 1), training=False), A2, []),
    "no batch": (batch_norm((0, 3, 5), training=False), A2, ["inputs[input].shape"]),
    "other channels": (batch_norm((4, 3, 5), bias=(4,)), A2, ["inputs[bias].shape"]),
    "running statistics of two types": (
        batch_norm((4, 3), input=((4, 3), HALF), running_var=((3,), HALF)),
        A2,
        ["inputs[running_var].data_type"],
    ),
    "a target that is repeated": (call("mse_loss", self=(2, 3), target=(3,)), A2, []),
    "a target that repeats": (call("mse_loss", self=(3,), target=(2, 3)), A2, ["inputs[target].shape"]),
    "two types": (call("smooth_l1_loss", self=(3,), target=((3,), HALF)), A2, ["inputs[target].data_type"]),
    "a target of logits": (
        call("binary_cross_entropy_with_logits", self=(2, 3), target=(3,)),
        A2,
        ["inputs[target].shape"],
    ),
    "weights of logits": (
        call("binary_cross_entropy_with_logits", self=(2, 3), target=(2, 3), weight=(2, 1), pos_weight=(2,)),
        A2,
        ["inputs[pos_weight].shape"],
    ),
    "classes": (call("nll_loss", self=(4, 3), target=((4,), "int64"), weight=(3,)), A2, []),
    "one target": (call("nll_loss", self=(3,), target=((), "int64"), weight=(3,)), A2, []),
    "targets of another shape": (
        call("nll_loss", self=(4, 3), target=((3,), "int64"), weight=(4,)),
        A2,
        ["inputs[target].shape", "inputs[weight].shape"],
    ),
    "no class": (call("nll_loss", self=(4, 0), target=((4,), "int64"), weight=(0,)), A2, ["inputs[self].shape"]),
}


@pytest.mark.parametrize("name", CALLS)
def test_refusals(name: str) -> None:
    (operator, given), product, fields = CALLS[name]
    assert [each.field for each in OPERATORS[operator].check(given, product)] == fields


def test_products() -> None:
    with_bfloat16 = {A2, Product.ATLAS_A3, P950}
    for name, without in {"layer_norm": {P310}, "rms_norm": {P910A}, "swi_glu": {P910A}, "softmax": set()}.items():
        spec = OPERATORS[name]
        assert spec.products == {A2, Product.ATLAS_A3, P950, P310, P910A} - without
        assert {each for each in spec.products if BFLOAT in spec.dtypes_on(each)} == with_bfloat16


@pytest.mark.parametrize("product", [A2, P950])
@pytest.mark.parametrize("dtype", ["float32", HALF, BFLOAT])
def test_the_gradient_of_batch_normalisation_takes_what_was_saved(product: Product, dtype: str) -> None:
    """Of the same eps. Nothing is saved without training."""
    forward, backward = OPERATORS["batch_norm"], OPERATORS["batch_norm_backward"]
    saved = next(each for each in forward.outputs if each.name == "save_invstd")
    wanted = backward.input("save_invstd")
    channels = dict.fromkeys(("save_mean", "save_invstd"), (3,))
    for eps, is_right in ((1e-3, True), (1e-5, False)):
        _, made = batch_norm((4, 3), eps=eps, input=((4, 3), dtype))
        grads = dict.fromkeys(("grad_output", "input"), ((4, 3), dtype))
        needed = arguments("batch_norm_backward", training=True, eps=1e-3, **grads, **channels)
        rules = saved.guarantees(made, product), wanted.values(needed, product)
        assert guarantees(*rules) == is_right
    assert saved.stays_inside
    _, made = batch_norm((4, 3), training=False)
    assert {each.name: each.infer(made).shape for each in forward.outputs}["save_mean"] == (0,)


def test_saved_statistics_have_the_types_and_shapes_that_the_gradients_take() -> None:
    _, layers = layer_norm((4, 5), input=((2, 3, 4, 5), HALF))
    _, groups = group_norm((2, 6, 4), 3, self=((2, 6, 4), HALF))
    _, roots = call("rms_norm", x=((2, 3, 8), BFLOAT), gamma=((8,), BFLOAT))
    _, losses = call("nll_loss", self=((4, 3), HALF), target=((4,), "int64"), weight=((3,), HALF))
    expected = {
        "layer_norm": (layers, ["float16 (2, 3, 4, 5)", "float32 (2, 3, 1, 1)", "float32 (2, 3, 1, 1)"]),
        "group_norm": (groups, ["float16 (2, 6, 4)", "float16 (2, 3)", "float16 (2, 3)"]),
        "rms_norm": (roots, ["bfloat16 (2, 3, 8)", "float32 (2, 3, 1)"]),
        "nll_loss": (losses, ["float16 ()", "float16 ()"]),
    }
    for name, (given, types) in expected.items():
        made = [each.infer(given) for each in OPERATORS[name].outputs]
        assert [f"{each.dtype} {each.shape}" for each in made] == types
