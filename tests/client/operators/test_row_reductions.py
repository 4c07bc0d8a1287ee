"""Which calls of softmax, normalisation and embedding are refused, and where."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from aclgrad.errors import Violation
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.embedding_dense_backward.spec import SORTED_WEIGHTS
from aclgrad.operators.spec import Arguments
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

    def violations(self, product: Product) -> list[Violation]:
        spec = OPERATORS[self.operator]
        types = {name: TensorType(DTYPES[self.dtypes.get(name, "float32")], each) for name, each in self.shapes.items()}
        return list(spec.check(Arguments(types, {**spec.defaults, **self.attributes}), product))


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


HALF = {"grad_output": "float16", "input": "float16"}
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
