"""Softmax and normalisations: what is divided, far from zero, not finite, empty, or of another type."""

import json
from collections.abc import Callable
from contextlib import ExitStack

import numpy as np
import pytest
from ml_dtypes import bfloat16

from aclgrad import reference
from aclgrad.operators.batch_norm.samples import batch_norm_case
from aclgrad.operators.cases import TypedCase
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.products import Product
from tests.bounds import assert_defined
from tests.call_file import PRODUCT
from tools.abi.acl import Library

from .table_calls import abi_names
from .table_gradients import assert_exact, call, device_arrays, gradient_of, run, unwritten

NAN, INF = np.nan, np.inf
SOFTMAXES = pytest.mark.parametrize("name", ["softmax", "log_softmax"])


@SOFTMAXES
@pytest.mark.parametrize("shape", [(3, 8192), (2, 8193), (1, 40_000), (2, 20_000, 3), (1, 8200, 700), (5, 33, 1100)])
def test_rows_in_parts(acl: Library, name: str, shape: tuple[int, ...]) -> None:
    typed = call(name, self=shape, dim=1)
    assert_defined(typed, gradient_of(acl, typed), PRODUCT)


@SOFTMAXES
@pytest.mark.parametrize("length", [5, 9000])
@pytest.mark.parametrize("across", [1, 3])
def test_logits_that_are_masked_or_not_finite(acl: Library, name: str, length: int, across: int) -> None:
    """Also where a whole part of a row is masked."""
    logits = np.random.default_rng(1).standard_normal((8, length, across)).astype(np.float32)
    logits[0, : length - 1], logits[1, 1:] = -INF, -INF
    logits[2], logits[3, 0], logits[4, -1] = -INF, NAN, INF
    logits[5], logits[6], logits[7] = 3e38, logits[6] * 1e37, -3e38
    assert_exact(acl, call(name, self=logits.shape, dim=1), {"self": logits})


@SOFTMAXES
def test_a_row_has_the_same_bits_along_every_axis(acl: Library, name: str) -> None:
    generator = np.random.default_rng(1)
    for length in (7, 100, 9000):
        logits = generator.standard_normal((length, 5)).astype(np.float32)
        beside = gradient_of(acl, call(name, self=(length, 5), dim=0), self=logits)
        behind = gradient_of(acl, call(name, self=(5, length), dim=1), self=logits.T.copy())
        assert beside.T.tobytes() == behind.tobytes()


def layers(rows: int, columns: int, dtype: str = "float32") -> TypedCase:
    shapes = {"input": (rows, columns), "weight": (columns,), "bias": (columns,)}
    return call("layer_norm", dtype, **shapes, normalized_shape=(columns,))


@pytest.mark.parametrize(
    ("rows", "columns"), [(1, 8192), (1, 8193), (3, 20000), (70, 8193), (2100, 33), (5000, 7), (20000, 1), (33, 2100)]
)
def test_layers_in_parts_and_chunks(acl: Library, rows: int, columns: int) -> None:
    typed = layers(rows, columns)
    assert_defined(typed, gradient_of(acl, typed), PRODUCT)


@pytest.mark.parametrize("shape", [(2, 6, 8193), (1, 4, 40_000), (300, 6, 5), (2, 600, 31), (2, 600, 32), (9, 1200)])
def test_groups_in_parts_and_chunks(acl: Library, shape: tuple[int, ...]) -> None:
    sizes = {"n": shape[0], "c": shape[1], "hxw": int(np.prod(shape[2:])), "group": 2}
    typed = call("group_norm", self=shape, gamma=shape[1:2], beta=shape[1:2], **sizes)
    assert_defined(typed, gradient_of(acl, typed), PRODUCT)


@pytest.mark.parametrize("columns", [64, 9000])
def test_values_far_from_zero_keep_their_digits(acl: Library, columns: int) -> None:
    """The mean is 4096 times the deviation: only its own rounding counts."""
    typed = layers(4, columns)
    arrays = typed.arrays()
    arrays["input"] = np.round(arrays["input"] * 64).astype(np.float32) / 64 + 4096
    truths = reference.define("layer_norm", arrays, typed.attributes)
    rounding = 2.0**-12 * np.abs(arrays["weight"]).max()
    for found, truth, atol in zip(gradient_of(acl, typed, **arrays), truths, (rounding, 2.0**-12, 1e-6), strict=True):
        np.testing.assert_allclose(found, truth, rtol=1e-6, atol=atol)


def test_layers_of_nothing_and_results_of_other_types(acl: Library) -> None:
    out, mean, rstd = gradient_of(acl, call("layer_norm", input=(3, 0), normalized_shape=(0,)))
    np.testing.assert_array_equal(mean, np.zeros((3, 1)))
    np.testing.assert_array_equal(rstd, np.full((3, 1), NAN))
    assert out.size == 0
    typed = layers(5, 30)
    types = {"out": bfloat16, "mean_out": np.float16, "rstd_out": bfloat16}
    outputs = {name: unwritten(typed.outputs[name]).astype(type) for name, type in types.items()}
    for found, exact in zip(gradient_of(acl, typed, **outputs), gradient_of(acl, typed), strict=True):
        assert (found == exact.astype(found.dtype)).all()


@pytest.mark.parametrize("shape", [(70, 5), (300, 513), (9, 40, 31), (3, 2, 8193), (65, 3, 2)], ids=str)
@pytest.mark.parametrize("training", [True, False])
def test_channels_in_blocks_and_chunks_of_samples(acl: Library, shape: tuple[int, ...], training: bool) -> None:
    typed = TypedCase(OPERATORS["batch_norm"], batch_norm_case("call", shape, training=training), "float32")
    assert_defined(typed, gradient_of(acl, typed), PRODUCT)


CHANNELS = """
input = np.arange(12, dtype=np.float32).reshape(3, 2, 2) ** 2
names = ("running_mean", "running_var", "save_mean", "save_invstd")
for training in (False, True):
    arrays = {name: np.array([1, 2], np.float32) for name in names}
    with ExitStack() as stack:
        running_mean, running_var, save_mean, save_invstd = made = [
            stack.enter_context(acl.tensor(arrays[name])) for name in names
        ]
        given, output = (stack.enter_context(acl.tensor(each)) for each in (input, np.zeros_like(input)))
        statistics = None, None, running_mean.handle, running_var.handle, training, 0.25, 0.5
        saved = save_mean.handle, save_invstd.handle
        acl.run("aclnnBatchNorm", given.handle, *statistics, output.handle, *saved)
        print([each.read_storage().round(3).tolist() for each in made])
"""


@pytest.mark.parametrize("product", [Product.ATLAS_A2, Product.ASCEND_950])
def test_statistics_of_channels_are_written_in_place(run_program: Callable[..., list[str]], product: Product) -> None:
    """Unless they are constant. Off the 950, the variance is saved as it is."""
    program = "import numpy as np\nfrom contextlib import ExitStack\nacl.call('aclInit', None)\n"
    lines = run_program(program + "acl.call('aclrtSetDevice', 0)\n" + CHANNELS, {"product": product})
    channels = (np.arange(12.0).reshape(3, 2, 2) ** 2).swapaxes(0, 1).reshape(2, 6)
    mean, variance = channels.mean(1), channels.var(1)
    kept = np.array([1, 2])
    rstd = 1 / np.sqrt(variance + 0.5) if product is Product.ASCEND_950 else variance
    trained = [0.75 * kept + 0.25 * mean, 0.75 * kept + 0.25 * channels.var(1, ddof=1), mean, rstd]
    for line, expected in zip(lines, ([kept] * 4, trained), strict=True):
        np.testing.assert_allclose(json.loads(line), expected, 1e-4, 1e-3)


def test_batches_of_nothing(acl: Library) -> None:
    typed = TypedCase(OPERATORS["batch_norm"], batch_norm_case("call", (0, 3, 2)), "float32")
    names = abi_names(typed.spec)
    with ExitStack() as stack:
        tensors = {name: stack.enter_context(acl.tensor(array)) for name, array in device_arrays(typed).items()}
        run(acl, typed, tensors)
        saved = [tensors[names[name]].read_storage() for name in ("save_mean", "save_invstd")]
    np.testing.assert_array_equal(saved, [[0] * 3, [NAN] * 3])


def test_groups_of_nothing(acl: Library) -> None:
    _, mean, rstd = gradient_of(acl, call("group_norm", self=(2, 4, 0), n=2, c=4, hxw=0, group=2))
    np.testing.assert_array_equal(mean, np.zeros((2, 2)))
    np.testing.assert_array_equal(rstd, np.full((2, 2), NAN))
