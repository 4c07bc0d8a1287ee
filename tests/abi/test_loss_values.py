"""Losses: of values that are extreme, not finite, or of no class, of nothing, and of many."""

import numpy as np
import pytest

from aclgrad.operators.cases import arrays_of
from aclgrad.operators.families.losses.spec import MEAN, NONE, SUM
from tests.bounds import assert_defined
from tests.call_file import PRODUCT
from tools.abi.acl import Library

from .table_gradients import assert_exact, call, gradient_of

NAN, INF = np.nan, np.inf
LOSSES: dict[str, dict[str, tuple[float, ...]]] = {
    "mse_loss": {"self": (0.0, 1e-45, 1e18, INF, NAN), "target": (0.0, -1.0, 1e18, -INF)},
    "smooth_l1_loss": {"self": (0.0, 1e-20, 0.5, 1.0, 3e38, INF, NAN), "target": (0.0, -0.0, 0.125, 2.0, -INF)},
    "binary_cross_entropy_with_logits": {
        "self": (0.0, 1e-45, 1.0, -1.0, 20.0, -20.0, 88.0, -104.0, 1e20, -1e20, 3e38, INF, -INF, NAN),
        "target": (0.0, 0.25, 1.0, NAN),
        "weight": (0.0, 2.0),
        "pos_weight": (0.0, 3.0, NAN),
    },
}
"""Values of inputs, of which each is combined with each."""


@pytest.mark.parametrize("name", LOSSES)
def test_extreme_values_of_losses(acl: Library, name: str) -> None:
    grids = np.meshgrid(*LOSSES[name].values(), indexing="ij")
    arrays = {each: np.ascontiguousarray(grid.ravel()) for each, grid in zip(LOSSES[name], grids, strict=True)}
    shape = next(iter(arrays.values())).shape
    assert_exact(acl, call(name, **dict.fromkeys(arrays, shape), reduction=NONE), arrays)
    if "weight" in arrays:
        few = {each: arrays[each] for each in ("self", "target")}
        assert_exact(acl, call(name, **dict.fromkeys(few, shape), reduction=NONE), few)


@pytest.mark.parametrize("name", [*LOSSES, "nll_loss"])
def test_the_mean_and_the_sum_of_nothing(acl: Library, name: str) -> None:
    shapes = {"self": (0, 3), "target": (0,) if name == "nll_loss" else (0, 3)}
    shapes |= {"weight": (3,)} if name == "nll_loss" else {}
    shapes |= {"ignore_index": -100} if name == "nll_loss" else {}
    fixed = {"target": "int64"} if name == "nll_loss" else {}
    for reduction, expected in ((MEAN, NAN), (SUM, 0.0)):
        found = arrays_of(gradient_of(acl, call(name, fixed=fixed, **shapes, reduction=reduction)))
        np.testing.assert_array_equal(found[0], expected)
        assert not any(found[1:])


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_losses_of_many_elements(acl: Library, name: str, dtype: str) -> None:
    """Several parts, of which some are broadcast. Sums do not overflow float16."""
    target = (100, 700) if "cross" in name else (700,)
    for reduction in (NONE, MEAN, SUM):
        typed = call(name, dtype, self=(100, 700), target=target, reduction=reduction)
        arrays = typed.arrays()
        arrays["target"] = np.abs(arrays["target"].astype(np.float32) / 8).astype(arrays["target"].dtype)
        arrays["self"] = (arrays["self"].astype(np.float32) / 4).astype(arrays["self"].dtype)
        assert_defined(typed, gradient_of(acl, typed, **arrays), PRODUCT, arrays)


def test_targets_that_are_no_class_or_ignored(acl: Library) -> None:
    target = np.array([4, 5, -1, -100, 2**40, -(2**63), 0])
    logits = -np.arange(35, dtype=np.float32).reshape(7, 5)
    weight = np.array([2, 0, 0, 0, 3], np.float32)
    for reduction, expected, total in ((NONE, [12, 0, 0, 0, 0, 0, 60], 0), (SUM, 72, 5), (MEAN, 72 / 5, 5)):
        typed = call(
            "nll_loss",
            fixed={"target": "int64"},
            ignore_index=-100,
            self=(7, 5),
            target=(7,),
            weight=(5,),
            reduction=reduction,
        )
        found = gradient_of(acl, typed, self=logits, target=target, weight=weight)
        np.testing.assert_allclose(found[0], expected, rtol=1e-6)
        assert found[1] == total


def test_the_mean_of_ignored_targets_is_not_a_number(acl: Library) -> None:
    typed = call(
        "nll_loss", fixed={"target": "int64"}, ignore_index=1, self=(3, 2), target=(3,), weight=(2,), reduction=MEAN
    )
    out, total = gradient_of(acl, typed, target=np.ones(3, np.int64))
    assert np.isnan(out)
    assert total == 0


def test_a_sum_of_many_rows(acl: Library) -> None:
    """Several parts."""
    typed = call(
        "nll_loss",
        fixed={"target": "int64"},
        ignore_index=-100,
        self=(20_000, 3),
        target=(20_000,),
        weight=(3,),
        reduction=SUM,
    )
    arrays = typed.arrays()
    arrays["target"] = np.arange(20_000) % 3
    arrays["self"], arrays["weight"] = -np.abs(arrays["self"]), np.abs(arrays["weight"])
    assert_defined(typed, gradient_of(acl, typed, **arrays), PRODUCT, arrays)
