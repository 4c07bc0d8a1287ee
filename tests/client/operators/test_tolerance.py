"""Tolerances of sums grow with their terms: float32 additions one after the other pass, and a term less fails."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from aclgrad.operators.cases import TypedCase
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.parts import samples_of
from aclgrad.operators.routes import FLOAT16, Route
from aclgrad.operators.samples import case
from aclgrad.operators.spec import Arguments, Tolerance
from aclgrad.operators.tolerance import by_dtype, grown, routed, summed
from aclgrad.products import Product
from aclgrad.tensors import DTYPES, TensorType

A2 = Product.ATLAS_A2
PLAIN = Tolerance(relative=1e-5, absolute=1e-6)
CELLS = 256
"""Sums of the same length, so that the worst of many is seen."""


def tolerance_of(
    operator: str,
    output: str,
    shapes: Mapping[str, tuple[int, ...]],
    attributes: Mapping[str, Any],
    dtype: str = "float32",
    fixed: Mapping[str, str] | None = None,
) -> Tolerance:
    long = case("long", attributes, fixed=fixed, **shapes)
    return TypedCase(OPERATORS[operator], long, dtype).tolerance(A2).of(output)


def of_batch_norm(terms: int, output: str) -> Tolerance:
    shapes = {"grad_output": (terms, 4), "input": (terms, 4), "save_mean": (4,), "save_invstd": (4,)}
    return tolerance_of("batch_norm_backward", output, shapes, {"training": True, "eps": 1e-5})


def of_layer_norm(terms: int, output: str) -> Tolerance:
    shapes = {"grad_output": (terms, 4), "input": (terms, 4), "mean": (terms, 1), "rstd": (terms, 1)}
    return tolerance_of("layer_norm_backward", output, shapes, {"normalized_shape": (4,)})


def of_group_norm(terms: int, output: str) -> Tolerance:
    row = (2, 4, terms // 2)
    shapes = {"grad_output": row, "input": row, "mean": (2, 2), "rstd": (2, 2)}
    return tolerance_of("group_norm_backward", output, shapes, {"n": 2, "c": 4, "hxw": terms // 2, "group": 2})


def of_rms_norm(terms: int, output: str) -> Tolerance:
    shapes = {"grad_output": (terms, 4), "input": (terms, 4), "rstd": (terms, 1), "gamma": (4,)}
    return tolerance_of("rms_norm_grad", output, shapes, {})


def of_embedding(terms: int, output: str) -> Tolerance:
    shapes, fixed = {"grad_output": (terms, 4), "indices": (terms,)}, {"indices": "int64"}
    return tolerance_of("embedding_dense_backward", output, shapes, {"num_weights": 3}, fixed=fixed)


def of_upsampling(terms: int, output: str) -> Tolerance:
    side = math.isqrt(terms)
    sizes = {"output_size": (side, side), "input_size": (1, 1, 1, 1)}
    return tolerance_of("upsample_nearest2d_backward", output, {"grad_output": (1, 1, side, side)}, sizes)


def of_padding(terms: int, output: str) -> Tolerance:
    shapes = {"grad_output": (1, terms), "self": (1, 1)}
    return tolerance_of("replication_pad1d_backward", output, shapes, {"padding": (terms - 1, 0)})


def of_adaptive_pooling(terms: int, output: str) -> Tolerance:
    shapes = {"grad_output": (1, 1, terms), "self": (1, 1, 1)}
    return tolerance_of("adaptive_avg_pool2d_backward", output, shapes, {})


def of_boxes(terms: int, output: str) -> Tolerance:
    shapes = {"grad_output": (terms // 4, 1, 2, 2), "boxes": (terms // 4, 5)}
    sizes = {"input_shape": (1, 1, 9, 9), "pooled_height": 2, "pooled_width": 2}
    others = {"spatial_scale": 1.0, "sampling_ratio": 1, "aligned": True}
    return tolerance_of("roi_align_v2_backward", output, shapes, sizes | others)


def of_samples(terms: int, output: str) -> Tolerance:
    shapes = {"grad_output": (1, 1, 1, terms), "input": (1, 1, 2, 2), "grid": (1, 1, terms, 2)}
    modes = {"interpolation_mode": 1, "padding_mode": 1, "align_corners": False}
    return tolerance_of("grid_sampler2d_backward", output, shapes, modes)


SUMS = {
    (each.__name__, output): (each, output)
    for each, outputs in (
        (of_batch_norm, ("grad_weight", "grad_bias")),
        (of_layer_norm, ("grad_weight", "grad_bias")),
        (of_group_norm, ("grad_gamma", "grad_beta")),
        (of_rms_norm, ("dgamma",)),
        (of_embedding, ("out",)),
        (of_upsampling, ("grad_input",)),
        (of_padding, ("grad_input",)),
        (of_adaptive_pooling, ("out",)),
        (of_boxes, ("grad_input",)),
        (of_samples, ("input_grad",)),
    )
    for output in outputs
}


@pytest.mark.parametrize("terms", [2**10, 2**14, 2**18])
@pytest.mark.parametrize(("of", "output"), SUMS.values(), ids=map("-".join, SUMS))
def test_float32_additions_pass_at_any_length_and_a_term_less_fails(of: Any, output: str, terms: int) -> None:
    draw = np.random.default_rng(terms).standard_normal
    cells = min(CELLS, 2**22 // terms)
    tolerance = of(terms, output)
    for mean in (0.0, 1.0):
        values = (draw((terms, cells)) + mean).astype(np.float32)
        truth = values.astype(np.float64).sum(0)
        one_after_the_other = np.add.accumulate(values, axis=0)[-1]
        assert (np.abs(one_after_the_other - truth) <= tolerance.limit(truth)).all()
    values -= mean
    truth = values.astype(np.float64).sum(0)
    # Relative to a sum of ordinary size: of a term of ordinary size.
    least = int(np.argmin(np.abs(truth)))
    term = values[np.abs(np.abs(values[:, least]) - 1).argmin(), least]
    assert abs(term) > tolerance.limit(truth)[least]


@pytest.mark.parametrize(("of", "output"), SUMS.values(), ids=map("-".join, SUMS))
def test_short_sums_keep_to_the_table(of: Any, output: str) -> None:
    table, most = of(4, output), of(64, output)
    assert (table.relative, table.absolute) == (most.relative, table.absolute)
    assert most.absolute <= max(table.absolute, 2 * 65 * 2**-23)


def test_the_gradient_of_the_input_does_not_grow() -> None:
    for of in (of_batch_norm, of_layer_norm, of_group_norm):
        assert of(2**18, "grad_input").absolute == 1e-4
    assert of_rms_norm(2**18, "dx").absolute == 1e-4


@pytest.mark.parametrize("name", ["softmax_backward", "log_softmax_backward"])
@pytest.mark.parametrize("columns", [100, 2**16])
def test_rows_of_any_length_pass_and_a_term_less_fails(name: str, columns: int) -> None:
    draw = np.random.default_rng(columns).standard_normal
    grad, wide = draw((64, columns)).astype(np.float32), 4 * draw((64, columns))
    powers = np.exp(wide - wide.max(-1, keepdims=True))
    shares = (powers / powers.sum(-1, keepdims=True)).astype(np.float32)
    terms = shares * grad if name == "softmax_backward" else grad
    shapes = {"grad_output": grad.shape, "output": grad.shape}
    tolerance = tolerance_of(name, "out", shapes, {"dim": 1})

    def gradient(sums: Any, dtype: Any) -> Any:
        own = [each.astype(dtype) for each in (grad, shares, sums[:, None])]
        return own[1] * (own[0] - own[2]) if name == "softmax_backward" else own[0] - own[1] * own[2]

    wide_terms = terms.astype(np.float64)
    truth = gradient(wide_terms.sum(-1), np.float64)
    found = gradient(np.add.accumulate(terms, axis=-1)[:, -1], np.float32)
    assert (np.abs(found - truth) <= tolerance.limit(truth)).all()
    # The term with the largest share.
    without = wide_terms.sum(-1) - np.take_along_axis(wide_terms, shares.argmax(-1)[:, None], -1)[:, 0]
    assert (np.abs(gradient(without, np.float64) - truth) > tolerance.limit(truth)).any()


def test_the_rounding_of_a_result_of_16_bits_outweighs_that_of_its_sum() -> None:
    for dtype, relative in (("float16", 1e-3), ("bfloat16", 8e-3)):
        for terms in (2, 2**14):
            shapes = {"grad_output": (1, terms), "self": (1, 1)}
            found = tolerance_of("replication_pad1d_backward", "", shapes, {"padding": (terms - 1, 0)}, dtype)
            assert found.relative == relative
            assert found.absolute == max(relative, terms * 2**-23)


def test_float64_grows_by_its_own_rounding() -> None:
    assert grown(Tolerance(0.0, 0.0), "float64", 2**20, 2**10) == Tolerance(2.0**-42, 2.0**-32, share=2.0**-42)


def test_results_of_another_size_have_a_share_that_does_not_grow_with_the_size_of_samples() -> None:
    """Ten times the terms are sqrt(10) times the error, as a share of the largest."""
    found = grown(PLAIN, "float32", 2**20, 2**10)
    assert found.absolute == 2**-23 * 2**20
    assert found.of_largest == 2**-23 * 2**10
    assert PLAIN.of_largest == PLAIN.absolute


def test_coarse_kernels_outputs_and_routes_go_together() -> None:
    arguments = Arguments({"self": TensorType(DTYPES["float32"], (2, 3))}, {})
    route = Route(FLOAT16, 2, 4, 0.25)
    coarse = {(Product.ASCEND_950, "float32"): Tolerance(0.1, 0.5)}
    table = summed(by_dtype({"float32": PLAIN}, coarse), lambda _: 2.0**20, "sums")
    rule = routed(table, lambda _, product: route if product is A2 else None)
    assert rule(arguments, Product.ASCEND_950, "float32").limit(np.ones(1)) == 0.6
    taken = rule(arguments, A2, "float32")
    assert (taken.route, taken.relative, taken.of_elements) == (route, route.relative, route.relative)
    assert taken.limit(np.zeros(3)).tolist() == [taken.absolute + route.relative] * 3
    assert taken.of("sums").absolute == 2**-23 * 2**20
    with pytest.raises(KeyError):
        rule(arguments, A2, "float16")


@pytest.mark.parametrize("name", OPERATORS)
def test_every_operator_has_a_tolerance_for_each_product_and_dtype(name: str) -> None:
    spec, example = OPERATORS[name], samples_of(name).example
    for product, dtypes in spec.leading_input.dtypes.items():
        for dtype in dtypes:
            assert spec.tolerance(example.arguments(spec, dtype), product, dtype).relative >= 0
