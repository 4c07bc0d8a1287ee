"""Sums of millions of terms, in every operator that adds up: float32 would be too short for one after the other."""

import hashlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import isqrt, prod

import numpy as np
import pytest

from aclgrad.operators.cases import TypedCase, arrays_of, typed_cases
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.parts import samples_of
from aclgrad.operators.samples import Arrays
from tests.call_file import PRODUCT
from tools.abi.acl import Library

from .programs_in_forks import call_of
from .table_gradients import call, gradient_of

GRAD = 0.0154495
"""Of each term. Sums of 2^14 to 2^20 terms in float32 lose more than 2e-4 of it, for up to 64 side by side.

No sum overflows float16.
"""


@dataclass(frozen=True)
class Sum:
    """A call with one number as `leading`. `outputs` has the terms of the sum in each, or None if it has no sum."""

    operator: str
    shapes: dict[str, tuple[int, ...]]
    outputs: tuple[np.ndarray | int | None, ...]
    attributes: dict[str, object] = field(default_factory=dict)
    values: dict[str, object] = field(default_factory=dict)
    """Of the other inputs: ones unless they are given."""
    dtypes: dict[str, str] = field(default_factory=dict)
    dtype: str = "float32"
    grad: float = GRAD
    leading: str = "grad_output"

    def __str__(self) -> str:
        return f"{self.operator} {self.shapes[self.leading]} {self.dtype}"

    def typed(self) -> TypedCase:
        return call(self.operator, self.dtype, fixed=self.dtypes, **self.shapes, **self.attributes)


def layer_norm(rows: int, columns: int) -> Sum:
    row, saved = (rows, columns), (rows, 1)
    shapes = {"grad_output": row, "input": row, "mean": saved, "rstd": saved, "weight": (columns,), "bias": (columns,)}
    return Sum("layer_norm_backward", shapes, (-1, rows, rows), {"normalized_shape": (columns,)}, {"mean": 0})


def rms_norm(rows: int, columns: int, grad: float = GRAD) -> Sum:
    row = (rows, columns)
    shapes = {"grad_output": row, "input": row, "rstd": (rows, 1), "gamma": (columns,)}
    return Sum("rms_norm_grad", shapes, (0, rows), grad=grad)


def group_norm(samples: int, area: int) -> Sum:
    row, saved = (samples, 1, area), (samples, 1)
    shapes = {"grad_output": row, "input": row, "mean": saved, "rstd": saved, "gamma": (1,)}
    sizes = {"n": samples, "c": 1, "hxw": area, "group": 1}
    return Sum("group_norm_backward", shapes, (-1, samples * area, samples * area), sizes, {"mean": 0})


def batch_norm(samples: int, area: int) -> Sum:
    row = (samples, 1, area)
    saved = dict.fromkeys(("weight", "save_mean", "save_invstd"), (1,))
    shapes = {"grad_output": row, "input": row, **saved}
    terms = (-1, samples * area, samples * area)
    return Sum("batch_norm_backward", shapes, terms, {"training": True, "eps": 1e-5}, {"save_mean": 0})


def softmax(name: str, output: int, *shape: int, dim: int) -> Sum:
    return Sum(name, {"grad_output": shape, "output": shape}, (1 - shape[dim],), {"dim": dim}, {"output": output})


def row_values(terms: int) -> Iterator[Sum]:
    """Of equal elements: logits, rows whose deviation is that of eps, and losses."""
    row, logarithm = (1, terms), -math.log(terms) / GRAD
    for shape, dim in ((row, -1), ((terms, 2), 0)):
        yield Sum("softmax", {"self": shape}, (1 / terms / GRAD,), {"dim": dim}, leading="self")
        yield Sum("log_softmax", {"self": shape}, (logarithm,), {"dim": dim}, leading="self")
    rstd = (1e-5**-0.5) / GRAD
    yield Sum("layer_norm", {"input": row}, (0, 1, rstd), {"normalized_shape": (terms,)}, leading="input")
    sizes = {"n": 1, "c": 1, "hxw": terms, "group": 1}
    yield Sum("group_norm", {"self": (1, 1, terms)}, (0, 1, rstd), sizes, leading="self")
    yield Sum("rms_norm", {"x": row, "gamma": (terms,)}, (1 / GRAD, GRAD**-2), {"epsilon": 0.0}, leading="x")
    cross_entropy = math.log1p(math.exp(GRAD)) / GRAD
    losses = {"mse_loss": GRAD, "smooth_l1_loss": GRAD / 2, "binary_cross_entropy_with_logits": cross_entropy}
    for name, share in losses.items():
        for reduction, count in ((1, 1), (2, terms)):
            shapes, given = {"self": row, "target": row}, {"reduction": reduction}
            yield Sum(name, shapes, (count * share,), given, {"target": 0}, leading="self")
    shapes = {"self": (terms, 1), "target": (terms,), "weight": (1,)}
    given = {"reduction": 2, "ignore_index": -100}
    yield Sum("nll_loss", shapes, (-terms, terms / GRAD), given, {"target": 0}, {"target": "int64"}, leading="self")


def embedding(indices: int) -> Sum:
    shapes = {"grad_output": (indices, 1), "indices": (indices,)}
    attributes = {"num_weights": 2, "padding_idx": -1, "scale_grad_by_freq": False}
    terms = np.array([[0], [indices]])
    return Sum("embedding_dense_backward", shapes, (terms,), attributes, {}, {"indices": "int64"})


def folded(name: str, *padded: int, **attributes: object) -> Sum:
    """One cell, of which all others are copies."""
    ones = (1,) * len(padded)
    return Sum(name, {"grad_output": (1, 1, *padded), "self": (1, 1, *ones)}, (prod(padded),), attributes)


def upsample(name: str, rows: int, columns: int) -> Sum:
    attributes = {"output_size": (rows, columns), "input_size": (1, 1, 1, 1)}
    shapes = {"grad_output": (1, 1, rows, columns)}
    return Sum(name, shapes, (rows * columns,), attributes)


def prelu(channels: int, *shape: int) -> Sum:
    """Of elements that are all negative."""
    shapes = {"grad_output": shape, "self": shape, "weight": (channels,)}
    return Sum("prelu_backward", shapes, (1, -prod(shape) // channels), values={"self": -1})


def grid_sampler(axes: int, points: int, dtype: str = "float32") -> Sum:
    """All points lie in the middle of one cell."""
    ones = (1,) * (axes - 1)
    shapes = {"grad_output": (1, 1, *ones, points), "input": (1, 1, *ones, 1), "grid": (1, *ones, points, axes)}
    return Sum(f"grid_sampler{axes}d_backward", shapes, (points, None), MODES, {"grid": 0}, dtype=dtype)


def grid_of_channels(axes: int, channels: int) -> Sum:
    """One point in the middle of the only two cells, whose values differ by 1 in each channel."""
    ones = (1,) * (axes - 1)
    shapes = {"grad_output": (1, channels, *ones, 1), "input": (1, channels, *ones, 2), "grid": (1, *ones, 1, axes)}
    along = np.array([channels, 0, 0][:axes])
    values = {"grid": 0, "input": np.array([0, 1])}
    return Sum(f"grid_sampler{axes}d_backward", shapes, (None, along), MODES, values)


MODES = {"interpolation_mode": 0, "padding_mode": 1, "align_corners": False}


def max_pool(name: str, windows: int, dtype: str = "float32") -> Sum:
    """Windows that all chose the one cell in which they overlap."""
    shapes = {"grad_output": (1, 1, 1, windows), "self": (1, 1, 1, 2 * windows - 1), "indices": (1, 1, 1, windows)}
    chosen = np.zeros(shapes["self"])
    chosen[..., windows - 1] = windows
    attributes = {
        "kernel_size": (1, windows), "stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "ceil_mode": False
    }  # fmt: skip
    return Sum(name, shapes, (chosen,), attributes, {"indices": windows - 1}, {"indices": "int32"}, dtype)


def avg_pool(rows: int, columns: int) -> Sum:
    """Windows of which each is over the one cell in the middle."""
    shapes = {"grad_output": (1, 1, rows, columns), "self": (1, 1, 2 * rows - 1, 2 * columns - 1)}
    over = [np.minimum(np.arange(1, 2 * each), np.arange(2 * each - 1, 0, -1)) for each in (rows, columns)]
    shares = np.multiply.outer(*over)[None, None] / (rows * columns)
    attributes = {"kernel_size": (rows, columns), "stride": (1, 1)}
    return Sum("avg_pool2d_backward", shapes, (shares,), attributes, grad=1000.1)


def roi_align(boxes: int, side: int) -> Sum:
    """Boxes over one cell."""
    attributes = {
        "input_shape": (1, 1, 1, 1), "pooled_height": side, "pooled_width": side, "spatial_scale": 1.0,
        "sampling_ratio": 1, "aligned": False,
    }  # fmt: skip
    shapes = {"grad_output": (boxes, 1, side, side), "boxes": (boxes, 5)}
    corners = np.array([0, 0, 0, 1, 1])
    return Sum("roi_align_v2_backward", shapes, (boxes * side * side,), attributes, {"boxes": corners})


def product(name: str, left: tuple[int, ...], right: tuple[int, ...]) -> Sum:
    leading = "mat1" if name == "addmm" else "self"
    shapes = {leading: left, "mat2": right} | ({"self": right[-1:]} if name == "addmm" else {})
    values = {"self": 0} if name == "addmm" else {}
    return Sum(name, shapes, (left[-1],), values=values, leading=leading)


def convolution(images: int, channels: int, groups: int, *sizes: int) -> Sum:
    """By one tap, of one channel in each group to several."""
    weight = (channels, 1, *(1 for _ in sizes))
    shapes = {
        "grad_output": (images, channels, *sizes), "input": (images, groups, *sizes), "weight": weight,
    }  # fmt: skip
    lists = {"stride": (1,), "padding": (0,), "dilation": (1,), "output_padding": (0,)}
    terms = images * prod(sizes)
    attributes = {**lists, "transposed": False, "groups": groups}
    return Sum("convolution_backward", shapes, (channels // groups, terms, terms), attributes)


def channels(terms: int, *, transposed: bool) -> Sum:
    """A convolution of one position, from many channels to a few."""
    shapes = {"input": (2, terms, 1), "weight": (terms, 3, 1) if transposed else (3, terms, 1)}
    return Sum("convolution", shapes, (terms,), {"transposed": transposed}, leading="input")


def reduction(dims: tuple[int, ...], *shape: int, dtype: str = "float32") -> Sum:
    terms = prod(shape[dim] for dim in dims)
    return Sum("reduce_sum", {"self": shape}, (terms,), {"dims": dims}, dtype=dtype, leading="self")


def mean(dim: int, *shape: int, dtype: str = "float32") -> Sum:
    return Sum("mean", {"self": shape}, (1,), {"dim": (dim,)}, dtype=dtype, leading="self")


def added(name: str, terms: int, columns: int, dtype: str = "float32") -> Sum:
    """To the first of two rows of zeros."""
    source, index = ("source", (terms,)) if name == "index_add" else ("src", (terms, columns))
    shapes = {"self": (2, columns), "index": index, source: (terms, columns)}
    values = {"self": 0, "index": 0}
    sums = (np.array([[terms], [0]]),)
    return Sum(name, shapes, sums, {"dim": 0}, values, {"index": "int64"}, dtype, leading=source)


def attention(queries: int, keys: int, version: str = "") -> Sum:
    """Of equal scores: each key, or each query, has the same share of every sum."""
    of_query, of_key, bias = (1, 1, queries, 1), (1, 1, keys, 1), (1, 1, queries, keys)
    shapes = {"query": of_query, "key": of_key, "value": of_key} | ({"real_shift": bias} if version else {})
    values = {"query": 0, "real_shift": 0}
    outputs = (0, keys / GRAD, 1)
    return Sum(f"flash_attention_score{version}", shapes, outputs, values=values, leading="value")


def attention_gradients(queries: int, keys: int, version: str = "") -> Sum:
    """Of scores of 0, whose shares are 1, because the statistics are taken as they are."""
    of_query, of_key, bias = (1, 1, queries, 1), (1, 1, keys, 1), (1, 1, queries, keys)
    shapes = {"query": of_query, "key_in": of_key, "value": of_key, "dy": of_query, "attention_in": of_query}
    shapes |= dict.fromkeys(("softmax_max", "softmax_sum"), of_query[:3]) | ({"pse_shift": bias} if version else {})
    has_many_keys = keys > queries
    values = {"query": 1 - has_many_keys, "key_in": has_many_keys, "attention_in": 0, "softmax_max": 0, "pse_shift": 0}
    outputs = (keys if has_many_keys else 0, 0 if has_many_keys else queries, queries)
    dtypes = dict.fromkeys(("softmax_max", "softmax_sum"), "float32")
    return Sum(f"flash_attention_score_grad{version}", shapes, outputs, {}, values, dtypes, leading="dy")


def sums(terms: int) -> tuple[Sum, ...]:
    """Of so many terms, a power of 4; fewer where windows overlap, because the time is the square of their number."""
    side = isqrt(terms)
    return (
        layer_norm(terms, 1), layer_norm(1, terms), layer_norm(side, side),
        rms_norm(terms, 1), rms_norm(1, terms), rms_norm(side, side),
        group_norm(terms, 1), group_norm(1, terms), batch_norm(terms, 1), batch_norm(1, terms),
        softmax("softmax_backward", 1, 1, terms, dim=-1), softmax("softmax_backward", 1, terms, 2, dim=0),
        softmax("log_softmax_backward", 0, 1, terms, dim=-1), softmax("log_softmax_backward", 0, terms, 2, dim=0),
        *row_values(terms), embedding(terms),
        folded("adaptive_avg_pool2d_backward", side, side),
        folded("adaptive_avg_pool3d_backward", 16, side // 16, side),
        avg_pool(1, 2 * side), avg_pool(32, side // 32),
        *(upsample(name, *size) for name in UPSAMPLING for size in ((side, side), (1, terms), (terms, 1))),
        prelu(1, terms), prelu(1, side, 1, side), prelu(3, terms, 3), prelu(3, 1, 3, terms), prelu(1, side, 3, side),
        folded("replication_pad1d_backward", terms, padding=(terms - 1, 0)),
        folded("replication_pad2d_backward", side, side, padding=(0, side - 1, side - 1, 0)),
        folded("replication_pad3d_backward", 16, side // 16, side, padding=(0, side - 1, 0, side // 16 - 1, 15, 0)),
        max_pool("max_pool2d_with_indices_backward", terms // 16),
        max_pool("max_pool2d_with_mask_backward", side),
        max_pool("max_pool2d_with_mask_backward", side, "bfloat16"),
        *(grid_sampler(axes, terms, dtype) for axes in (2, 3) for dtype in ("float32", "float16")),
        grid_of_channels(2, terms), grid_of_channels(3, terms),
        roi_align(1, side), roi_align(terms // 64, 8),
        product("mm", (3, terms), (terms, 5)), product("mm", (1, terms), (terms, 40)),
        product("mm", (1, terms), (terms, 1)),
        product("addmm", (9, terms), (terms, 5)), product("batch_mat_mul", (2, 3, terms), (2, terms, 2)),
        product("matmul", (terms,), (terms, 3)),
        convolution(1, 1, 1, terms), convolution(terms, 1, 1, 1), convolution(1, terms, 1, 1),
        convolution(1, 2, 2, terms), convolution(2, 6, 2, side, side), convolution(terms // 16, 16, 16, 4, 4),
        channels(terms, transposed=False), channels(terms, transposed=True),
        reduction((0,), terms, 1), reduction((0,), terms, 3), reduction((1,), 3, terms),
        reduction((0, 2), side, 2, side), mean(0, terms, 3), mean(1, 3, terms),
        *(attention(queries, terms, version) for version in VERSIONS for queries in (1, 5)),
        *(attention_gradients(*each, version) for version in VERSIONS for each in ((1, terms), (terms, 1), (terms, 5))),
        *(added(name, terms, columns) for name in ("index_add", "scatter_add") for columns in (1, 5)),
    )  # fmt: skip


VERSIONS = ("", "_v2")
UPSAMPLING = ("upsample_nearest2d_backward", "upsample_bilinear2d_backward_v2")
LONG = sums(1 << 20)
ATTENTION = {f"flash_attention_score{of}{version}" for of in ("", "_grad") for version in VERSIONS}
OF_ATTENTION = 2.0**-19
PRODUCTS = ATTENTION | {"addmm", "batch_mat_mul", "convolution", "convolution_backward", "matmul", "mm"}


def arrays_for(typed: TypedCase, sum: Sum) -> Arrays:
    types = typed.arguments.inputs
    return {
        name: np.broadcast_to(sum.values.get(name, 1), types[name].shape).astype(types[name].dtype.numpy, "C")
        for name in sum.shapes
    }


@pytest.mark.parametrize("sum", [*LONG, rms_norm(40960, 1, grad=0.1)], ids=str)
def test_sums_of_many_terms(acl: Library, sum: Sum) -> None:
    typed = sum.typed()
    arrays = arrays_for(typed, sum)
    arrays[sum.leading] = np.full_like(arrays[sum.leading], sum.grad)
    grad = float(arrays[sum.leading].flat[0])
    # The kernels of gradients are as precise as short sums, whatever cards may be.
    short = next(each for each in typed_cases(PRODUCT, sum.operator) if each.dtype == sum.dtype)
    tolerance = (short if sum.leading in ("grad_output", "dy") else typed).tolerance(PRODUCT)
    gradients = arrays_of(gradient_of(acl, typed, **arrays))
    for name, found, terms in zip(typed.outputs, gradients, sum.outputs, strict=True):
        if terms is not None:
            expected = np.broadcast_to(np.float64(terms) * grad, found.shape)
            limit = tolerance.of(name).limit(expected)
            if sum.operator in ATTENTION:  # which adds up thousands of products in float32 before anything else
                limit = limit + OF_ATTENTION * np.abs(expected)
            assert (np.abs(found - expected) <= limit).all(), (found.flat[0], expected.flat[0])


def grows(name: str) -> bool:
    """Whether a tolerance of the operator's own long calls is that of long sums."""
    spec, dtype = OPERATORS[name], OPERATORS[name].dtypes_on(PRODUCT)[0]
    of_size = []
    for cells in (1 << 10, 1 << 22):
        found = [spec.tolerance(each.arguments(spec, dtype), PRODUCT, dtype) for each in samples_of(name).long(cells)]
        of_size.append(max(part.absolute for each in found for part in (each, *each.outputs.values())))
    return of_size[1] > of_size[0]


def test_every_operator_with_a_long_sum_has_one_here() -> None:
    # The errors of CTC are those of logarithms, which grow with the steps, and those of upsampling are of positions.
    here = {each.operator for each in LONG} | {"ctc_loss_backward", "upsample_bilinear2d"}
    assert [name for name in OPERATORS if grows(name) and name not in here] == []


def print_sums(acl: Library) -> None:
    """Runs in a process of its own, because a process has one vector level and one number of threads."""
    acl.call("aclInit", None)
    acl.call("aclrtSetDevice", 0)
    for sum in sums(1 << 16):
        if sum.operator in PRODUCTS:
            continue  # which have the bits of their level
        typed = sum.typed()
        arrays = arrays_for(typed, sum)
        grads = arrays[sum.leading]
        arrays[sum.leading] = np.random.default_rng(0).standard_normal(grads.shape).astype(grads.dtype)
        data = b"".join(each.tobytes() for each in arrays_of(gradient_of(acl, typed, **arrays)))
        print(sum, hashlib.sha256(data).hexdigest())


def test_long_sums_are_the_same_bits_at_every_level_and_with_any_number_of_threads(
    vector_levels: list[str], run_program: Callable[..., list[str]]
) -> None:
    first, *others = [
        run_program(call_of(print_sums), {"vector_level": level, "threads": threads})
        for level, threads in ((vector_levels[0], 1), *((level, 3) for level in vector_levels[1:]))
    ]
    assert len(first) == len([each for each in LONG if each.operator not in PRODUCTS])
    for other in others:
        assert set(other) ^ set(first) == set()
