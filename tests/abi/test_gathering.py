"""Taking and adding by positions: positions out of range, views, every type, blocks of many positions, and order."""

import hashlib
from collections.abc import Callable
from contextlib import ExitStack

import ml_dtypes
import numpy as np
import pytest

from tools.abi.acl import AclError, Library, Scalar

from .products import storage_of
from .programs_in_forks import call_of

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
TYPES = ("float16", BFLOAT16, "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool")
COMPLEX = ("complex64", "complex128")
FILL = 3


def run(
    acl: Library, symbol: str, tensors: tuple[np.ndarray, ...], shape: tuple[int, ...], dim: int | None = None
) -> np.ndarray:
    """Runs an operator on views, the first of which has the type of the result."""
    with ExitStack() as stack:
        result = stack.enter_context(acl.tensor(np.full(shape, FILL, tensors[0].dtype)))
        handles = [stack.enter_context(acl.tensor(storage_of(each), each)).handle for each in tensors]
        axis = () if dim is None else (dim,)
        factor = (stack.enter_context(acl.scalar(Scalar(1, "float32"))),) if symbol == "aclnnIndexAdd" else ()
        acl.run(symbol, handles[0], *axis, *handles[1:], *factor, result.handle)
        return result.read_storage()


def whole(generator: np.random.Generator, shape: tuple[int, ...], dtype: object) -> np.ndarray:
    """Small whole numbers, whose sums are exact in every type of real numbers."""
    return generator.integers(0, 2 if dtype == "bool" else 8, shape).astype(dtype)


def taken(self: np.ndarray, index: np.ndarray, dim: int) -> np.ndarray:
    inside = tuple(slice(None) if axis == dim else slice(size) for axis, size in enumerate(index.shape))
    return np.take_along_axis(self[inside], index.astype(np.int64), dim)


def scattered(self: np.ndarray, index: np.ndarray, src: np.ndarray, dim: int) -> np.ndarray:
    sums = self.astype(np.complex128 if self.dtype.kind == "c" else np.int64)
    places = list(np.indices(index.shape))
    places[dim] = index
    np.add.at(sums, tuple(places), src[tuple(map(slice, index.shape))].astype(sums.dtype))
    return (sums != 0) if self.dtype == bool else sums.astype(self.dtype)


@pytest.mark.parametrize("dtype", [*TYPES, *COMPLEX], ids=str)
@pytest.mark.parametrize("wide", [np.int32, np.int64])
def test_every_type(acl: Library, dtype: object, wide: type) -> None:
    generator = np.random.default_rng(0)
    for shape, dim in (((9, 40), 0), ((9, 40), 1), ((4, 7, 33), 1), ((300, 3), 0), ((50,), 0)):
        self = whole(generator, shape, dtype)
        index = generator.integers(0, shape[dim], 37).astype(wide)
        picked = np.take(self, index, dim)
        np.testing.assert_array_equal(run(acl, "aclnnIndexSelect", (self, index), picked.shape, dim), picked)
        places = generator.integers(0, shape[dim], (*shape[:dim], 37, *shape[dim + 1 :])).astype(wide)
        src = whole(generator, places.shape, dtype)
        if dtype not in COMPLEX:
            found = run(acl, "aclnnGather", (self, places), places.shape, dim)
            np.testing.assert_array_equal(found, taken(self, places, dim))
            along = index.reshape([-1 if axis == dim else 1 for axis in range(self.ndim)])
            expected = scattered(self, np.broadcast_to(along, src.shape), src, dim)
            np.testing.assert_array_equal(run(acl, "aclnnIndexAdd", (self, index, src), shape, dim), expected)
        found = run(acl, "aclnnScatterAdd", (self, places, src), shape, dim)
        np.testing.assert_array_equal(found, scattered(self, places, src, dim))


def test_integers_wrap_around(acl: Library) -> None:
    for dtype in ("int8", "int32", "int64", "uint8"):
        most = np.iinfo(dtype).max
        self, src = np.full(3, most, dtype), np.full(5, most, dtype)
        index = np.array([0, 0, 1, 0, 0])
        expected = self.copy()
        np.add.at(expected, index, src)
        for symbol in ("aclnnScatterAdd", "aclnnIndexAdd"):
            np.testing.assert_array_equal(run(acl, symbol, (self, index, src), (3,), 0), expected)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_views(acl: Library, dtype: str) -> None:
    generator = np.random.default_rng(1)
    base, more = whole(generator, (12, 10, 14), dtype), whole(generator, (12, 20, 14), dtype)
    for self, src in ((base.T, more.T), (base[::-1, ::2], more[:, ::-3]), (base[3:9, :, 5:7], more[2:8, :, 1:3])):
        for dim in range(3):
            shape = tuple(min(sizes) for sizes in zip(self.shape, src.shape, strict=True))
            index = generator.integers(0, self.shape[dim], (*shape[::-1], 2))[..., 0].T  # steps over every second
            found = run(acl, "aclnnGather", (self, index), index.shape, dim)
            np.testing.assert_array_equal(found, taken(self, index, dim))
            found = run(acl, "aclnnScatterAdd", (self, index, src), self.shape, dim)
            np.testing.assert_array_equal(found, scattered(self, index, src, dim))
            rows = np.arange(0, 2 * self.shape[dim], 2)[::-2] // 2
            found = run(acl, "aclnnIndexSelect", (self, rows), np.take(self, rows, dim).shape, dim)
            np.testing.assert_array_equal(found, np.take(self, rows, dim))


@pytest.mark.parametrize(
    ("shape", "index", "dim"),
    [
        ((7 * 65536 + 1,), (400_000,), 0),
        ((140_000, 2), (90_000, 2), 0),
        ((2, 70_000), (2, 30), 1),
        ((3, 70_000, 2), (2, 5000, 1), 1),
        ((40_000, 3), (50_000, 3), 0),
        ((5, 300, 90), (4, 2000, 80), 1),
        ((2000, 9), (1500, 30), 1),
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", ["float32", "float16", "int64"])
def test_many_positions(acl: Library, shape: tuple[int, ...], index: tuple[int, ...], dim: int, dtype: str) -> None:
    """A tenth of them is the first one, and some lie at the ends of blocks."""
    generator = np.random.default_rng(2)
    places = generator.integers(0, shape[dim], index)
    places.reshape(-1)[::10] = 0
    places.reshape(-1)[1::10] = np.minimum(65535, shape[dim] - 1)
    places.reshape(-1)[2::10] = shape[dim] - 1
    self, src = np.zeros(shape, dtype), np.ones(index, dtype)
    if dtype == "float16":
        src.reshape(-1)[::10] = 0  # sums of ones would overflow
        src.reshape(-1)[1::10] = 0
        src.reshape(-1)[2::10] = 0
    found = run(acl, "aclnnScatterAdd", (self, places, src), shape, dim)
    np.testing.assert_array_equal(found, scattered(self, places, src, dim))
    np.testing.assert_array_equal(run(acl, "aclnnGather", (found, places), index, dim), taken(found, places, dim))


@pytest.mark.parametrize(
    ("rows", "columns", "count", "outer"),
    [
        (3, 131073, 9, 1), (2, 300000, 9, 1), (140000, 1, 9, 2), (131072, 3, 9, 1), (700, 600, 2000, 2),
        (200_000, 1, 300_000, 3),
    ],
    ids=str,
)  # fmt: skip
def test_tiles_of_slices(acl: Library, rows: int, columns: int, count: int, outer: int) -> None:
    generator = np.random.default_rng(3)
    index = generator.integers(0, rows, count)
    index[::3] = 0
    for dtype in ("float32", "int32"):
        self, source = whole(generator, (outer, rows, columns), dtype), whole(generator, (outer, count, columns), dtype)
        expected = self.astype(np.int64)
        for each, added in zip(expected, source, strict=True):
            np.add.at(each, index, added.astype(np.int64))
        found = run(acl, "aclnnIndexAdd", (self, index, source), self.shape, 1)
        np.testing.assert_array_equal(found, expected.astype(dtype))


def test_sums_are_rounded_once(acl: Library) -> None:
    """Float16 would lose each of the ones."""
    self, index = np.full(2, 2048, np.float16), np.zeros(2000, np.int64)
    source = np.ones(2000, np.float16)
    for symbol in ("aclnnIndexAdd", "aclnnScatterAdd"):
        assert run(acl, symbol, (self, index, source), (2,), 0).tolist() == [4048, 2048]


@pytest.mark.parametrize("alpha", [Scalar(-2, "int64"), Scalar(0.5, "float32"), Scalar(True, "bool"), Scalar(3.0)])
def test_what_slices_are_multiplied_by(acl: Library, alpha: Scalar) -> None:
    for dtype in ("float32", "int32"):
        self, index = np.arange(6, dtype=dtype).reshape(3, 2), np.array([2, 0, 2])
        source = np.arange(6, dtype=dtype).reshape(3, 2) + 1
        factor = int(alpha.value.real) if dtype == "int32" else alpha.value
        expected = self.astype(np.float64)
        np.add.at(expected, index, source * factor)
        with (
            acl.tensor(self) as first, acl.tensor(index) as second, acl.tensor(source) as third,
            acl.tensor(np.zeros_like(self)) as out, acl.scalar(alpha) as given,
        ):  # fmt: skip
            acl.run("aclnnIndexAdd", first.handle, 0, second.handle, third.handle, given, out.handle)
            np.testing.assert_array_equal(out.read_storage(), expected.astype(dtype))


@pytest.mark.needs("bad values")
@pytest.mark.parametrize("position", [-1, 4, 2**31, 2**60, -(2**63)])
@pytest.mark.parametrize("columns", [1, 2, 40])
def test_a_position_out_of_range_faults(acl: Library, position: int, columns: int) -> None:
    self, index = np.ones((4, columns), np.float32), np.array([0, 3, position, 1])
    wide = np.broadcast_to(index[:, None], (4, columns)).copy()
    source, shape = np.ones((4, columns), np.float32), (4, columns)
    told = f"an element is {position}, and there are 4 positions"
    for symbol, tensors, dim in (
        ("aclnnEmbedding", (self, index), None), ("aclnnIndexSelect", (self, index), 0),
        ("aclnnIndexAdd", (self, index, source), 0), ("aclnnGather", (self, wide), 0),
        ("aclnnScatterAdd", (self, wide, source), 0),
    ):  # fmt: skip
        with pytest.raises(AclError, match=told):
            run(acl, symbol, tensors, shape, dim)


@pytest.mark.parametrize("length", [1, 4095, 100_000, 9_000_000])
def test_long_slices(acl: Library, length: int) -> None:
    """Longer ones are copied in parts, and around the caches if there is much of them."""
    self = np.arange(3 * length, dtype=np.float32).reshape(3, length)
    index = np.array([2, 0, 0])
    np.testing.assert_array_equal(run(acl, "aclnnIndexSelect", (self, index), self.shape, 0), self[index])
    np.testing.assert_array_equal(run(acl, "aclnnEmbedding", (self, index), self.shape), self[index])


def print_bits(acl: Library) -> None:
    acl.call("aclInit", None)
    acl.call("aclrtSetDevice", 0)
    generator = np.random.default_rng(4)
    for rows, columns, count in ((3, 70, 5000), (100_000, 2, 200_000), (2000, 300, 500)):
        for dtype in ("float32", "float16", BFLOAT16):
            self, source = (generator.standard_normal((each, columns)).astype(dtype) for each in (rows, count))
            index = generator.integers(0, rows, count)
            wide = generator.integers(0, rows, (count, columns))
            for symbol, positions in (("aclnnIndexAdd", index), ("aclnnScatterAdd", wide)):
                found = run(acl, symbol, (self, positions, source), self.shape, 0)
                print(hashlib.sha256(found.tobytes()).hexdigest())


def test_the_same_bits_everywhere(run_program: Callable[..., list[str]], vector_levels: list[str]) -> None:
    first = run_program(call_of(print_bits), {"vector_level": "baseline", "threads": 1})
    for level in vector_levels:
        assert run_program(call_of(print_bits), {"vector_level": level, "threads": 5}) == first
