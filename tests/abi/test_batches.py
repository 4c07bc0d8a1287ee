"""A row, plane or image has the same bits alone and in a batch, at any place in it."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from aclgrad.operators.cases import TypedCase, served_dtypes
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.families.losses.spec import NONE
from aclgrad.operators.items import Items
from aclgrad.operators.parts import samples_of
from aclgrad.operators.spec import OperatorKind
from tests.call_file import PRODUCT
from tools.abi.acl import Library

from .table_calls import TABLED
from .table_gradients import LARGE, call, gradient_of

ITEMS = 3
SIZES = (2, 17, 257)
LARGE_SIZES = (2, 5)
LONE = {
    *(
        "addmm",
        "ctc_loss_backward",
        "dropout_do_mask",
        "gather",
        "inplace_copy",
        "max_pool2d_with_mask",
        "mm",
        "scatter_add",
    ),
    # What is broadcast has no axis of its own.
    *("add", "div", "eq_tensor", "gt_tensor", "maximum", "minimum", "mul", "s_where", "sub"),
}
"""Operators whose calls do not join."""
SUMS = {1: 2, "mean": "sum"}
"""The reduction in place of one that depends on the batch: of a gradient. Losses join if they are not reduced."""
LARGE_CALLS = {
    "matmul": call("matmul", self=(2, 300, 200), mat2=(2, 200, 100)),
    "reduce_sum": call("reduce_sum", self=(2, 300, 700), dims=(1,)),
    **{name: call(name, self=(2, 300, 700), dim=(1,)) for name in ("amax", "mean")},
}
"""In place of the operator's own, which do not join."""
MOST_ELEMENTS = 2**16
MOST_OF_LARGE = 2**23


def assert_invariant(acl: Library, typed: TypedCase, most: int, sizes: Sequence[int] = SIZES) -> bool:
    """Returns whether a batch of several was legal."""
    items = Items.of(typed)
    if items is None:
        return False
    drawn = items.draw(ITEMS)
    alone = [items.split(gradient_of(acl, items.typed, **arrays), 1)[0] for arrays in drawn]
    largest = 0
    for size in sizes:
        batch = items.batch(size)
        tensors = (*batch.arguments.inputs.values(), *batch.outputs.values())
        if max(each.element_count for each in tensors) > most or list(batch.spec.check(batch.arguments, PRODUCT)):
            continue
        largest = size
        chosen = [(size + place) % ITEMS for place in range(size)]
        (found,) = items.split(gradient_of(acl, batch, **items.join([drawn[number] for number in chosen])), 1)
        for output, name in enumerate(items.compared):
            expected = np.concatenate([alone[number][output] for number in chosen], items.axes.of(name))
            assert expected.tobytes() == found[output].tobytes(), f"{typed}: {name} of {size} {items.name}s"
    return largest > 1


@pytest.mark.parametrize("name", TABLED)
def test_every_sample(acl: Library, name: str) -> None:
    """Each with one dtype in turn, and with every dtype until a batch of that is legal."""
    joined: set[str] = set()
    for number, case in enumerate(samples_of(name).cases):
        dtypes = served_dtypes(OPERATORS[name], case, PRODUCT)
        for place, dtype in enumerate(dtypes):
            is_wanted = dtype not in joined or place == number % len(dtypes)
            if is_wanted and assert_invariant(acl, TypedCase(OPERATORS[name], case, dtype), MOST_ELEMENTS):
                joined.add(dtype)
    assert joined == (set() if name in LONE else set(OPERATORS[name].leading_input.dtypes[PRODUCT]))


@pytest.mark.parametrize("name", sorted(TABLED.keys() - LONE))
def test_large_calls(acl: Library, name: str) -> None:
    spec = OPERATORS[name]
    timed = samples_of(name).timed[LARGE]
    if reduction := SUMS.get(timed.attributes.get("reduction")):
        reduction = NONE if spec.kind is OperatorKind.VALUE else reduction
        timed = replace(timed, attributes={**timed.attributes, "reduction": reduction})
    own = TypedCase(spec, timed, spec.leading_input.dtypes[PRODUCT][0])
    typed = LARGE_CALLS.get(name, own)
    assert assert_invariant(acl, typed, MOST_OF_LARGE, LARGE_SIZES)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((2, 1, 300), (2, 300, 70)), ((2, 40, 5000), (2, 5000, 30)), ((2, 1, 5000), (1, 5000, 40)),
        ((2, 3, 4100), (1, 4100, 5)), ((2, 70, 300), (2, 300, 1)), ((1, 30, 40), (2, 40, 50)),
        ((2, 1, 9000), (2, 9000, 1)),
    ],
    ids=str,
)  # fmt: skip
def test_products_of_every_kind(acl: Library, left: tuple[int, ...], right: tuple[int, ...]) -> None:
    """Of vectors, in parts, and with matrices that all share."""
    for dtype in ("float32", "bfloat16"):
        assert assert_invariant(acl, call("matmul", dtype, self=left, mat2=right), MOST_OF_LARGE, (2, 40))


@pytest.mark.parametrize("length", [1, 31, 33, 65, 257, 1025, 8193, 20_000])
@pytest.mark.parametrize("name", ["softmax", "softmax_backward", "log_softmax", "log_softmax_backward"])
def test_rows_beside_each_other(acl: Library, name: str, length: int) -> None:
    """Short and long ones, and those of several parts."""
    inputs = ("grad_output", "output") if name.endswith("backward") else ("self",)
    typed = call(name, **dict.fromkeys(inputs, (length, 2)), dim=0)
    assert assert_invariant(acl, typed, MOST_OF_LARGE)


def test_a_row_has_the_same_bits_along_every_axis(acl: Library) -> None:
    generator = np.random.default_rng(1)
    for length in (7, 100, 9000):
        grad, output = generator.random((2, length, 5), np.float32)
        across = call("softmax_backward", grad_output=(length, 5), output=(length, 5), dim=0)
        along = call("softmax_backward", grad_output=(5, length), output=(5, length), dim=1)
        beside = gradient_of(acl, across, grad_output=grad, output=output)
        behind = gradient_of(acl, along, grad_output=grad.T.copy(), output=output.T.copy())
        assert beside.T.tobytes() == behind.tobytes()


@pytest.mark.parametrize("boxes", [40, 150, 400, 1000])
def test_images_with_many_boxes(acl: Library, boxes: int) -> None:
    """Fewer and more than have their weights in memory at a time, and than are added up in float32."""
    typed = call(
        "roi_align_v2_backward",
        grad_output=(boxes, 2, 8, 8),
        boxes=(boxes, 5),
        input_shape=(1, 2, 9, 11),
        pooled_height=8,
        pooled_width=8,
        sampling_ratio=2,
    )
    assert assert_invariant(acl, typed, MOST_OF_LARGE)
