"""The axes along which calls join, checked against the definitions: each call keeps its own gradient."""

import numpy as np
import pytest

from aclgrad import reference
from aclgrad.operators.cases import arrays_of, typed_cases
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.items import Items
from aclgrad.operators.spec import OperatorKind
from aclgrad.products import Product

COUNT = 3
ALONE = ("addmm", "ctc_loss_backward", "dropout_do_mask", "mm")
"""Each call of two matrices is by itself."""
MOST_ELEMENTS = 2**10
"""Of a batch's gradient, unless an operator has none as small. Axes depend on ranks and attributes alone."""


def items_of(name: str) -> list[Items]:
    """Returns the items of the operator's samples that join, with its first dtype."""
    dtype = OPERATORS[name].leading_input.dtypes[Product.ATLAS_A2][0]
    cases = [each for each in typed_cases(Product.ATLAS_A2, name) if each.dtype == dtype]
    return [items for each in cases if (items := Items.of(each))]


def small_items_of(name: str) -> list[Items]:
    sizes = [
        (items, max(each.element_count for each in items.batch(COUNT).outputs.values())) for items in items_of(name)
    ]
    most = max(MOST_ELEMENTS, min((size for _, size in sizes), default=0))
    return [items for items, size in sizes if size <= most]


@pytest.mark.parametrize("name", OPERATORS)
def test_each_keeps_the_gradient_of_its_definition(name: str) -> None:
    """Outputs that are not compared sum over the batch."""
    joined = small_items_of(name)
    assert joined or name in ALONE or OPERATORS[name].kind is OperatorKind.VALUE
    for items in joined:
        order, arrays = [2, 0, 1], items.draw(COUNT)
        batch = items.batch(COUNT)
        assert not list(batch.spec.check(batch.arguments, Product.ATLAS_A2)), batch
        together = reference.define(name, items.join([arrays[number] for number in order]), batch.attributes)
        apart = [reference.define(name, arrays[number], items.typed.attributes) for number in order]
        for alone, found in zip(apart, items.split(together, COUNT), strict=True):
            for one, other in zip(items.split(alone, 1)[0], found, strict=True):
                np.testing.assert_allclose(other, one, rtol=1e-12, atol=1e-12, err_msg=str(batch))
        for place, output in enumerate(batch.outputs):
            if output not in items.compared:
                total = sum(arrays_of(each)[place] for each in apart)
                np.testing.assert_allclose(arrays_of(together)[place], total, rtol=1e-9, atol=1e-9)


def test_an_item_is_the_smallest_part_of_a_sample() -> None:
    def sizes(name: str) -> set[tuple[int, ...]]:
        return {next(iter(each.typed.outputs.values())).shape for each in items_of(name)}

    assert {shape[0] for shape in sizes("layer_norm_backward")} == {1}
    assert {shape[0] for shape in sizes("replication_pad2d_backward")} == {1}
    assert {shape[1] for shape in sizes("batch_norm_backward")} == {1}
