"""The matrix products: values of every shape, stride and type, and the same bits for any number of threads."""

import hashlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.long_shapes import MAX_BESIDE_BYTES, MAX_OF_TENSORS
from tools.abi.acl import Format, Library, Scalar

from .kernel_memory import MEBIBYTE, forget_peak, peak_bytes
from .products import FILL, TYPES, assert_product, numbers, product
from .programs_in_forks import call_of

SIZES = (1, 2, 3, 5, 17, 64, 130)
WITHIN = {
    "float32": {"rtol": 1e-5, "atol": 1e-4},
    "float16": {"rtol": 1e-3, "atol": 1e-2},
    "bfloat16": {"rtol": 1e-2, "atol": 1e-2},
}


@pytest.mark.parametrize("dtype", TYPES)
def test_small_sizes(acl: Library, dtype: str) -> None:
    for rows in SIZES:
        for columns in SIZES:
            for depth in SIZES:
                left, right = numbers(1, (rows, depth), dtype), numbers(2, (depth, columns), dtype)
                assert_product(product(acl, left, right, symbol="aclnnMm"), left, right)


def laid_out(array: np.ndarray) -> dict[str, np.ndarray]:
    """Returns views that have the elements of an array, each of a storage of its own."""
    rows, columns = array.shape[-2:]
    wide = np.full((*array.shape[:-2], rows, columns + 5), FILL, array.dtype)
    spread = np.full((*array.shape[:-2], 2 * rows, 3 * columns), FILL, array.dtype)
    flipped = np.flip(array, (-1, -2)).copy()
    views = {
        "row-major": array,
        "transposed": array.swapaxes(-1, -2).copy().swapaxes(-1, -2),
        "columns of more": wide[..., 2:-3],
        "spread": spread[..., ::2, 1::3],
        "reversed": flipped[..., ::-1, ::-1],
    }
    for view in (views["columns of more"], views["spread"]):
        view[...] = array
    return views


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(1, 70, 90), (50, 1, 70), (47, 61, 1), (130, 140, 150), (3, 4, 5)], ids=str)
def test_strides(acl: Library, dtype: str, shape: tuple[int, int, int]) -> None:
    rows, columns, depth = shape
    lefts, rights = laid_out(numbers(3, (rows, depth), dtype)), laid_out(numbers(4, (depth, columns), dtype))
    for name, left in lefts.items():
        for other, right in rights.items():
            for out in laid_out(np.full((rows, columns), 7, left.dtype)).values():
                assert_product(product(acl, left, right, out=out), left, right, name=f"{name} {other}")
            if dtype != "float32":
                assert_product(product(acl, left, right, out="float32"), left, right, name=f"{name} {other}")


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((7, 4, 5), (7, 5, 6)), ((1, 4, 5), (7, 5, 6)), ((7, 4, 5), (5, 6)), ((3, 1, 4, 5), (2, 5, 6)), ((5,), (5,)),
        ((2, 3, 1, 4, 5), (3, 2, 5, 6)), ((5,), (7, 5, 6)), ((3, 7, 4, 5), (5,)), ((4, 5), (7, 5, 6)),
        ((3, 1, 1, 5), (1, 2, 5, 1)), ((2, 70, 80), (2, 80, 90)), ((7, 1, 5), (1, 5, 6)),
    ],
    ids=str,
)  # fmt: skip
def test_batches(acl: Library, left: tuple[int, ...], right: tuple[int, ...]) -> None:
    for dtype in TYPES:
        first, second = numbers(5, left, dtype), numbers(6, right, dtype)
        assert_product(product(acl, first, second), first, second)
        if len(left) > 2:
            swapped = numbers(7, (left[-1], *left[1:-1], left[0]), dtype).swapaxes(0, -1)
            assert_product(product(acl, swapped, second), swapped, second)
        if len(right) > 2:
            repeated = np.broadcast_to(numbers(8, right[1:], dtype), right)
            assert_product(product(acl, first, repeated), first, repeated)


@pytest.mark.parametrize("added", [(70,), (1,), (50, 70), (50, 1), (1, 70)], ids=str)
def test_addends(acl: Library, added: tuple[int, ...]) -> None:
    for dtype in TYPES:
        left, right = numbers(9, (50, 90), dtype), numbers(10, (90, 70), dtype)
        for each in {"as it is": numbers(11, added, dtype), "view": numbers(12, added[::-1], dtype).T}.values():
            for factors in ((1, 1), (0, 1), (1, 0), (-0.5, 3), (1e-7, 1), (1, -1e-7), (0, 0)):
                effective = tuple(0 if abs(each) < 1.19e-7 else each for each in factors)
                found = product(acl, left, right, each, factors)
                assert_product(found, left, right, each, effective, f"{dtype} {factors}")


def test_factors_that_are_not_finite(acl: Library) -> None:
    left, right, added = numbers(13, (9, 5)), numbers(14, (5, 33)), numbers(15, (33,))
    assert np.isnan(product(acl, left, right, added, (np.nan, 1))).all()
    assert np.isnan(product(acl, left, right, added, (1, np.nan))).all()
    # A factor of 0 leaves out what it stands before.
    poisoned = np.full((33,), np.nan, np.float32)
    assert_product(product(acl, left, right, poisoned, (0, 1)), left, right)
    np.testing.assert_array_equal(
        product(acl, np.full((9, 5), np.nan, np.float32), right, added, (1, 0)), np.broadcast_to(added, (9, 33))
    )
    # And no depth leaves the product out.
    none = product(acl, left[:, :0].copy(), right[:0].copy(), added, (2, np.nan))
    np.testing.assert_array_equal(none, np.broadcast_to(2 * added, (9, 33)))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("size", [3, 40, 130, 300])
def test_what_is_not_finite(acl: Library, dtype: str, size: int) -> None:
    """An infinity times 0 is NaN, a row or a column without one is as if there were none."""
    left, right = numbers(16, (size, size), dtype), numbers(17, (size, size), dtype)
    left[0, 1], left[1, 2], right[0, 1] = np.nan, np.inf, -np.inf
    right[2, :2] = 0
    with np.errstate(invalid="ignore"):
        truth = left.astype(np.float64) @ right.astype(np.float64)
    found = product(acl, left, right).astype(np.float64)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(truth))
    np.testing.assert_array_equal(np.isinf(found), np.isinf(truth))
    np.testing.assert_allclose(found[2:, 2:], truth[2:, 2:], rtol=0.02, atol=0.1)


def test_no_depth_and_nothing_at_all(acl: Library) -> None:
    for dtype in TYPES:
        zeros = product(acl, numbers(18, (3, 4, 0), dtype), numbers(19, (0, 5), dtype))
        np.testing.assert_array_equal(zeros.astype(np.float32), np.zeros((3, 4, 5)))
        for left, right in (((0, 4), (4, 5)), ((3, 4), (4, 0)), ((0, 3, 4), (4, 5)), ((2, 0, 0), (0, 5))):
            assert product(acl, numbers(20, left, dtype), numbers(21, right, dtype)).size == 0


# Around the sizes of tiles, panels, blocks and parts.
EDGES = (
    (12, 32, 256), (13, 33, 257), (11, 31, 255), (24, 96, 512), (97, 257, 300), (300, 290, 310), (385, 1030, 70),
    (2049, 70, 65), (66, 2049, 65), (1500, 1500, 2), (70, 1, 5000), (1, 1030, 5000), (1, 1, 100_003), (33, 65, 10_007),
    (40, 30, 140_000), (3, 70_000, 9), (70_000, 3, 9), (600, 30, 2060), (30, 700, 2060), (257, 255, 2100),
)  # fmt: skip


def laid_out_edges() -> Iterator[tuple[np.ndarray, np.ndarray, str]]:
    for number, (rows, columns, depth) in enumerate(EDGES):
        for dtype in TYPES:
            left, right = numbers(number, (rows, depth), dtype), numbers(number + 50, (depth, columns), dtype)
            yield left, right, f"{dtype} {rows} {columns} {depth}"
            # One of two transposed, both in turns.
            if number % 2:
                yield left.T.copy().T, right, f"{dtype} {rows} {columns} {depth} left"
            else:
                yield left, right.T.copy().T, f"{dtype} {rows} {columns} {depth} right"
    for left, right in (((2000, 4, 5), (2000, 5, 3)), ((1, 30, 40), (70, 40, 50)), ((3, 200, 150), (3, 150, 180))):
        yield numbers(98, left), numbers(99, right), f"{left} {right}"


def print_products(acl: Library, is_compared: bool) -> None:
    """Prints the bits of many products; they are also compared with numpy's if that is asked for."""
    acl.call("aclInit", None)
    acl.call("aclrtSetDevice", 0)
    for left, right, name in laid_out_edges():
        found = product(acl, left, right)
        print(name, hashlib.sha256(found.tobytes()).hexdigest())
        if is_compared:
            assert_product(found, left, right, name=name)


@pytest.mark.timeout(600)
def test_every_vector_level_and_the_same_bits_with_any_number_of_threads(
    run_program: Callable[..., list[str]], vector_levels: list[str]
) -> None:
    for level in vector_levels:
        first = run_program(call_of(print_products, True), {"vector_level": level, "threads": 1})
        assert len(first) == 6 * len(EDGES) + 3
        for threads in (2, 3, 8):
            assert run_program(call_of(print_products, False), {"vector_level": level, "threads": threads}) == first


def test_the_same_bits_for_any_number_of_callers(acl: Library) -> None:
    given = [(left, right) for left, right, _ in laid_out_edges() if left.size + right.size < 300_000]
    alone = [product(acl, *each).tobytes() for each in given]

    def again(_: int) -> list[bytes]:
        acl.call("aclrtSetDevice", 0)
        with acl.stream() as stream:
            return [product(acl, *each, stream=stream).tobytes() for each in given]

    with ThreadPoolExecutor(4) as callers:
        assert list(callers.map(again, range(4))) == [alone] * 4


def test_a_million_small_products(acl: Library) -> None:
    left, right = numbers(30, (1_000_000, 2, 3)), numbers(31, (1_000_000, 3, 2))
    found = product(acl, left, right, symbol="aclnnBatchMatMul")
    np.testing.assert_allclose(found, left @ right, rtol=1e-5, atol=1e-6)


@pytest.mark.needs("host memory")
def test_memory(run_program: Callable[..., list[str]]) -> None:
    """A kernel takes what phase 1 says of workspace, and little else."""
    assert run_program(call_of(print_memory), {"threads": 64}) == []


def print_memory(acl: Library) -> None:
    acl.call("aclInit", None)
    acl.call("aclrtSetDevice", 0)
    for shapes_ in (*(((m, k), (k, n)) for m, n, k in EDGES), ((5000, 8, 8), (5000, 8, 8)), ((900, 900), (900, 900))):
        for dtype in TYPES:
            left, right = (numbers(1, shape, dtype) for shape in shapes_)
            out = np.zeros((*left.shape[:-1], right.shape[-1]), left.dtype)
            tensor_bytes = left.nbytes + right.nbytes + out.nbytes
            with acl.tensor(left) as first, acl.tensor(right) as second, acl.tensor(out) as result:
                given = (first.handle, second.handle, result.handle, 0)
                size, executor = acl.plan("aclnnMatmul", *given)
                workspace = np.zeros(size, np.uint8)
                before = forget_peak()
                acl.call("aclnnMatmul", workspace.ctypes.data, size, executor, None)
                acl.call("aclrtSynchronizeStream", None)
                beside = peak_bytes() - before
            if tensor_bytes + size > MAX_OF_TENSORS * tensor_bytes + MAX_BESIDE_BYTES or beside > 2 * MEBIBYTE:
                print(shapes_, dtype, tensor_bytes, size, beside)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(40, 50, 70), (1, 50, 70), (4, 4, 5000), (300, 310, 320)], ids=str)
def test_the_sum_may_overwrite_what_is_added(acl: Library, dtype: str, shape: tuple[int, int, int]) -> None:
    """As CANN's aclnnInplaceAddmm does."""
    rows, columns, depth = shape
    left, right, addend = (
        numbers(seed, each, dtype) for seed, each in enumerate(((rows, depth), (depth, columns), (rows, columns)))
    )
    with (
        acl.tensor(left, format_=Format.ND) as mat1,
        acl.tensor(right, format_=Format.ND) as mat2,
        acl.tensor(addend, format_=Format.ND) as out,
        acl.scalar(Scalar(0.5)) as half,
    ):
        acl.run("aclnnAddmm", out.handle, mat1.handle, mat2.handle, half, half, out.handle, 0)
        found = out.read_storage().reshape(rows, columns).astype(np.float64)
    wide = [each.astype(np.float64) for each in (left, right, addend)]
    np.testing.assert_allclose(found, (wide[2] + wide[0] @ wide[1]) / 2, **WITHIN[dtype])
