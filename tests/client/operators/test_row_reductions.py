"""Which calls of softmax, normalisation and embedding are refused, and where."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from aclgrad.errors import Violation
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.embedding_dense_backward.spec import SORTED_WEIGHTS
from aclgrad.operators.spec import Arguments
from aclgrad.operators.values import VarianceRule
from aclgrad.products import Product
from aclgrad.tensors import DTYPES, TensorType

A2, P950, P310, P910A = Product.ATLAS_A2, Product.ASCEND_950, Product.ATLAS_INFERENCE, Product.ATLAS_TRAINING
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Call:
    """A call by shapes; dtypes are float32 but for those that are given."""

    operator: str
    shapes: dict[str, Shape]
    attributes: dict[str, Any] = field(default_factory=dict)
    dtypes: dict[str, str] = field(default_factory=dict)

    @property
    def arguments(self) -> Arguments:
        types = {name: TensorType(DTYPES[self.dtypes.get(name, "float32")], each) for name, each in self.shapes.items()}
        return Arguments(types, {**OPERATORS[self.operator].defaults, **self.attributes})

    def violations(self, product: Product) -> list[Violation]:
        return list(OPERATORS[self.operator].check(self.arguments, product))


def softmax(dim: int, shape: Shape = (2, 3), **changed: Any) -> Call:
    shapes = {"grad_output": shape, "output": shape} | {name: each for name, each in changed.items() if name != "dtype"}
    return Call("softmax_backward", shapes, {"dim": dim}, {"output": changed.get("dtype", "float32")})


def rms_norm(shape: Shape, gamma: Shape, rstd: Shape, **dtypes: str) -> Call:
    shapes = {"grad_output": shape, "input": shape, "rstd": rstd, "gamma": gamma}
    return Call("rms_norm_grad", shapes, {}, dtypes)


def group_norm(shape: Shape, group: int, dtypes: dict[str, str] | None = None, **changed: Any) -> Call:
    area = 1
    for size in shape[2:]:
        area *= size
    attributes = {"n": shape[0], "c": shape[1], "hxw": area, "group": group}
    shapes = {"grad_output": shape, "input": shape, "mean": (shape[0], group), "rstd": (shape[0], group)}
    shapes |= {"gamma": shape[1:2]} | {name: each for name, each in changed.items() if isinstance(each, tuple)}
    attributes |= {name: each for name, each in changed.items() if isinstance(each, int)}
    return Call("group_norm_backward", shapes, attributes, dtypes or {})


def embedding(weights: int, columns: int = 8, indices: Shape = (3,), scales: bool = False) -> Call:
    shapes = {"grad_output": (3, columns), "indices": indices}
    attributes = {"num_weights": weights, "scale_grad_by_freq": scales}
    return Call("embedding_dense_backward", shapes, attributes, {"indices": "int32"})


LAYER: dict[str, Shape] = {"grad_output": (2, 3, 4, 5), "input": (2, 3, 4, 5), "mean": (2, 3, 1, 1)}
LAYER |= {"rstd": (2, 3, 1, 1), "weight": (4, 5), "bias": (4, 5)}


def layer_norm(sizes: Shape = (4, 5), without: tuple[str, ...] = (), **changed: Any) -> Call:
    """Changes are shapes, or dtypes by their names."""
    shapes = {name: each for name, each in LAYER.items() if name not in without}
    shapes |= {name: each for name, each in changed.items() if isinstance(each, tuple)}
    dtypes = {name: each for name, each in changed.items() if isinstance(each, str)}
    return Call("layer_norm_backward", shapes, {"normalized_shape": sizes}, dtypes)


BATCH, RUNNING = ("save_mean", "save_invstd"), ("running_mean", "running_var")


def batch_norm(*names: str, training: bool = True, **changed: Any) -> Call:
    shapes: dict[str, Shape] = dict.fromkeys(("grad_output", "input"), (4, 3, 5)) | dict.fromkeys(names, (3,))
    shapes |= {name: each for name, each in changed.items() if isinstance(each, tuple)}
    dtypes = {name: each for name, each in changed.items() if isinstance(each, str)}
    return Call("batch_norm_backward", shapes, {"training": training, "eps": 1e-5}, dtypes)


HALF = {"grad_output": "float16", "input": "float16"}
BFLOAT = {"grad_output": "bfloat16", "input": "bfloat16"}
HALVES = dict.fromkeys(LAYER, "float16")
SIZES, MEAN, RSTD = ["attributes[normalized_shape]"], ["inputs[mean].shape"], ["inputs[rstd].shape"]
NEEDS_BATCH, NEEDS_RUNNING = ([f"inputs[{name}]" for name in names] for names in (BATCH, RUNNING))
CALLS: dict[str, tuple[Call, Product, list[str]]] = {
    "the last axis": (softmax(-1), A2, []),
    "an axis of a scalar": (softmax(0, ()), A2, []),
    "an axis that there is not": (softmax(2), A2, ["attributes[dim]"]),
    "a further axis of a scalar": (softmax(1, ()), A2, ["attributes[dim]"]),
    "an output of another shape": (softmax(0, output=(3, 2)), A2, ["inputs[grad_output].shape"]),
    "an output of another type": (softmax(0, dtype="float16"), A2, ["inputs[grad_output].data_type"]),
    "2^31 rows of one": (softmax(1, (2**31, 1)), A2, []),
    "rows": (rms_norm((2, 3, 8), (8,), (2, 3, 1)), A2, []),
    "rstd without axes of one": (rms_norm((2, 3, 8), (8,), (2, 3)), A2, []),
    "rstd as a list": (rms_norm((2, 3, 8), (8,), (6,)), A2, ["inputs[rstd].shape"]),
    "rstd in another order": (rms_norm((2, 3, 8), (8,), (3, 2)), A2, ["inputs[rstd].shape"]),
    "another gamma": (rms_norm((2, 3, 8), (3,), (2, 3)), A2, ["inputs[gamma].shape"]),
    "no rows": (rms_norm((0, 8), (8,), (0,)), A2, ["inputs[input].shape"]),
    "no rows on the 950": (rms_norm((0, 8), (8,), (0,)), P950, []),
    "rows of nothing": (rms_norm((2, 0), (0,), (2,)), P950, ["inputs[input].shape"]),
    "short rows on 310P": (rms_norm((2, 7), (7,), (2,)), P310, ["inputs[input].shape"]),
    "a wide gamma": (rms_norm((2, 16), (16,), (2,), **HALF), A2, []),
    "a wide gamma on 310P": (rms_norm((2, 16), (16,), (2,), **HALF), P310, ["inputs[gamma].data_type"]),
    "groups": (group_norm((2, 6, 4), 3), A2, []),
    "groups that do not divide": (group_norm((2, 6, 4), 4), A2, ["attributes[group]"]),
    "another N": (group_norm((2, 6, 4), 3, n=3), A2, ["attributes[n]"]),
    "another HxW": (group_norm((2, 6, 4), 3, hxw=5), A2, ["attributes[hxw]"]),
    "too few means": (group_norm((2, 6, 4), 3, mean=(2, 2)), A2, ["inputs[mean].shape"]),
    "means as a list": (group_norm((2, 6, 4), 3, mean=(6,), rstd=(6,)), A2, []),
    "means with an axis of one": (group_norm((2, 6, 4), 3, mean=(2, 3, 1)), A2, []),
    "means of groups by N": (group_norm((2, 6, 4), 3, mean=(3, 2)), A2, ["inputs[mean].shape"]),
    "deviations of groups by N": (group_norm((2, 6, 4), 3, rstd=(3, 2)), A2, ["inputs[rstd].shape"]),
    "means in one row": (group_norm((2, 6, 4), 3, mean=(1, 6)), A2, ["inputs[mean].shape"]),
    "means of no images": (group_norm((0, 6, 4), 3, mean=(0,), rstd=(3, 0)), A2, ["inputs[rstd].shape"]),
    "a short gamma": (group_norm((2, 6, 4), 3, gamma=(3,)), A2, ["inputs[gamma].shape"]),
    "a large group": (group_norm((1, 8001), 1), A2, ["attributes[group]"]),
    "a large group on the 950": (group_norm((1, 8001), 1), P950, []),
    "many channels": (group_norm((1, 240_001), 240_001), A2, ["attributes[group]"]),
    "wide means": (group_norm((2, 6, 4), 3, HALF), A2, ["inputs[mean].data_type"]),
    "wide means on the 950": (group_norm((2, 6, 4), 3, HALF), P950, []),
    "indices": (embedding(5), A2, []),
    "indices of another shape": (embedding(5, indices=(3, 1)), A2, ["inputs[grad_output].shape"]),
    "rows that are sorted as NaN": (embedding(SORTED_WEIGHTS + 1), A2, ["attributes[num_weights]"]),
    "rows that are not sorted": (embedding(SORTED_WEIGHTS + 1), P950, []),
    "the longest scaled row": (embedding(48, 5000, scales=True), P910A, []),
    "a scaled row that is too long": (embedding(48, 5001, scales=True), P910A, ["inputs[grad_output].shape"]),
    "a long row that is not scaled": (embedding(48, 5001), P910A, []),
    "layers": (layer_norm(), A2, []),
    "layers of all sizes": (layer_norm((2, 3, 4, 5), weight=(2, 3, 4, 5), bias=(2, 3, 4, 5)), A2, MEAN),
    # What devices compare of these, if anything, is right.
    "a size of the last half": (layer_norm((2, 5), weight=(2, 5), bias=(2, 5)), A2, SIZES),
    "a smaller last size": (layer_norm((3,), weight=(3,), bias=(3,)), A2, SIZES),
    "the first sizes": (layer_norm((2, 3), weight=(2, 3), bias=(2, 3)), A2, SIZES),
    "more sizes than the input": (layer_norm((1, 2, 3, 4, 5)), A2, SIZES),
    "a small weight": (layer_norm(weight=(5,)), A2, ["inputs[weight].shape"]),
    "a weight of as many elements": (layer_norm(weight=(20,)), A2, ["inputs[weight].shape"]),
    "a small bias": (layer_norm(bias=(4, 4)), A2, ["inputs[bias].shape"]),
    "layers in another order": (layer_norm(grad_output=(3, 2, 4, 5)), A2, ["inputs[grad_output].shape"]),
    "means of layers as a list": (layer_norm(mean=(6,), rstd=(6,)), A2, []),
    "means without axes of one": (layer_norm(mean=(2, 3), rstd=(2, 3)), A2, []),
    "means in another order": (layer_norm(mean=(3, 2), rstd=(3, 2)), A2, MEAN),
    "means behind axes of one": (layer_norm(mean=(1, 1, 2, 3), rstd=(1, 1, 2, 3)), A2, MEAN),
    "means unlike deviations": (layer_norm(mean=(6,)), A2, RSTD),
    "too many means": (layer_norm(mean=(7,), rstd=(7,)), A2, MEAN),
    "no layers": (layer_norm(grad_output=(0, 4, 5), input=(0, 4, 5), mean=(0,), rstd=(0,)), A2, []),
    # As torch_npu's forward saves it.
    "no layers of several axes": (
        layer_norm(grad_output=(0, 3, 4, 5), input=(0, 3, 4, 5), mean=(0,), rstd=(0,)),
        A2,
        [],
    ),
    "no weight": (layer_norm(without=("weight",)), A2, []),
    "no bias": (layer_norm(without=("bias",)), A2, []),
    "neither": (layer_norm(without=("weight", "bias")), A2, []),
    "neither, and other sizes": (layer_norm((5,), without=("weight", "bias")), A2, MEAN),
    "halves": (layer_norm(**HALVES), A2, []),
    "layers of bfloat16": (layer_norm(**BFLOAT), A2, []),
    "a weight of bfloat16, too": (layer_norm(**BFLOAT, weight="bfloat16"), A2, []),
    "a wide input": (layer_norm(grad_output="bfloat16"), A2, ["inputs[input].data_type"]),
    "small means": (layer_norm(mean="float16", rstd="float16"), A2, ["inputs[mean].data_type"]),
    "small deviations": (layer_norm(**HALVES | {"mean": "float32"}), A2, ["inputs[rstd].data_type"]),
    "a weight of another type": (layer_norm(**HALVES | {"weight": "bfloat16"}), A2, ["inputs[weight].data_type"]),
    "a small bias type": (layer_norm(bias="float16"), A2, ["inputs[bias].data_type"]),
    # A device would take zeros and ones in the place of statistics.
    "a batch without statistics": (batch_norm(), A2, NEEDS_BATCH),
    "a batch with running ones": (batch_norm(*RUNNING), A2, NEEDS_BATCH),
    "a batch with a mean": (batch_norm("save_mean"), A2, NEEDS_BATCH[1:]),
    "a batch": (batch_norm(*BATCH), A2, []),
    "a batch with all": (batch_norm(*BATCH, *RUNNING), A2, []),
    "no training without statistics": (batch_norm(training=False), A2, NEEDS_RUNNING),
    "no training with those of a batch": (batch_norm(*BATCH, training=False), A2, NEEDS_RUNNING),
    "no training with a variance": (batch_norm("running_var", training=False), A2, NEEDS_RUNNING[:1]),
    "no training": (batch_norm(*RUNNING, training=False), A2, []),
    "no training with all": (batch_norm(*BATCH, *RUNNING, training=False), A2, []),
    "a batch of another shape": (batch_norm(*BATCH, input=(4, 3, 6)), A2, ["inputs[input].shape"]),
    "a batch of another type": (batch_norm(*BATCH, input="float16"), A2, ["inputs[input].data_type"]),
    "a wide weight": (batch_norm(*BATCH, **HALF, weight=(3,)), A2, []),
    "a weight of the input": (batch_norm(*BATCH, "weight", **HALF | {"weight": "float16"}), A2, []),
    "a weight of neither": (
        batch_norm(*BATCH, "weight", **HALF | {"weight": "bfloat16"}),
        A2,
        ["inputs[weight].data_type"],
    ),
    "a small weight type": (batch_norm(*BATCH, "weight", weight="float16"), A2, ["inputs[weight].data_type"]),
    # The 950 refuses two.
    "running statistics of two types": (
        batch_norm(*RUNNING, training=False, **HALF | {"running_mean": "float16"}),
        A2,
        ["inputs[running_var].data_type"],
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_refusals(name: str) -> None:
    call, product, fields = CALLS[name]
    assert [each.field for each in call.violations(product)] == fields


def test_a_weight_of_2_to_the_60_rows_is_refused_by_its_bound() -> None:
    (spec,) = (each for each in OPERATORS["embedding_dense_backward"].attributes if each.name == "num_weights")
    assert [each.problem for each in spec.check(2**60)] == [f"is {2**60}"]


def test_the_remedy_is_the_shape_that_frameworks_save() -> None:
    """PyTorch saves (N, group) of group normalisation, and of the others the leading sizes with axes of one."""
    wrong = {
        (2, 3): group_norm((2, 6, 4), 3, mean=(3, 2)),
        (2, 3, 1): rms_norm((2, 3, 8), (8,), (3, 2)),
        (4, 1, 1): Call(
            "layer_norm_backward",
            dict.fromkeys(("grad_output", "input"), (4, 3, 8)) | {"mean": (2, 2), "rstd": (2, 2)},
            {"normalized_shape": (3, 8)},
        ),
    }
    assert [call.violations(A2)[0].remedy for call in wrong.values()] == [f"send {shape}" for shape in wrong]


@pytest.mark.parametrize("name", ["weight", *BATCH, *RUNNING])
@pytest.mark.parametrize("length", [0, 1, 2, 4])
@pytest.mark.parametrize("training", [True, False])
def test_every_given_length_is_that_of_the_channels(name: str, length: int, training: bool) -> None:
    """Also where the mode ignores the values: most devices do not compare these of the batch."""
    call = batch_norm(*BATCH, *RUNNING, training=training, **{name: (length,)})
    assert [each.field for each in call.violations(A2)] == [f"inputs[{name}].shape"]


def test_products_of_normalisation() -> None:
    layer, batch = OPERATORS["layer_norm_backward"], OPERATORS["batch_norm_backward"]
    without = {each for each in layer.products if "bfloat16" not in layer.inputs[0].dtypes[each]}
    assert without == {P910A, P310}
    assert Product.ATLAS_200I_A2 not in layer.products
    # It would round grad_weight to 16 bits.
    weight = next(each for each in batch.inputs if each.name == "weight")
    assert weight.dtypes[P950] == ("float32",)
    assert "float16" in weight.dtypes[A2]


def test_gradients_of_parameters_are_float32_whatever_their_dtype() -> None:
    types = {name: TensorType(DTYPES["float16"], shape) for name, shape in LAYER.items()}
    given = Arguments(types, {"normalized_shape": (4, 5)})
    outputs = [each.infer(given) for each in OPERATORS["layer_norm_backward"].outputs]
    assert [each.dtype.name for each in outputs] == ["float16", "float32", "float32"]
    assert [each.shape for each in outputs] == [LAYER["input"], (4, 5), (4, 5)]


@pytest.mark.parametrize("eps", [0.0, -0.0, -1e-5, np.nan, np.inf, -np.inf, 1e-46, 1e-40, 1e39])
def test_an_eps_that_float32_has_not_is_refused(eps: float) -> None:
    spec = next(each for each in OPERATORS["batch_norm_backward"].attributes if each.name == "eps")
    assert [each.field for each in spec.check(float(eps))] == ["attributes[eps]"]


def test_only_the_950_reads_the_reciprocal() -> None:
    """All others read the variance in its place."""
    spec = OPERATORS["batch_norm_backward"]
    save_invstd = next(each for each in spec.inputs if each.name == "save_invstd")
    eps = float(np.float32(1e-5))
    for product in spec.products:
        rule = VarianceRule(eps, is_converted=product is not P950, tolerance=1e-4)
        assert save_invstd.values(batch_norm(*BATCH).arguments, product) == rule
        assert save_invstd.values(batch_norm(*BATCH, *RUNNING, training=False).arguments, product) is None
