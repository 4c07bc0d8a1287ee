"""Gradients around the lengths of vectors and blocks are right, and the same bits at every vector level, with any
number of threads and at any address."""

import functools
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from . import max_pool
from .acl import DATA_TYPES, Library
from .max_pool import Pool
from .values import assert_close, random

LEVELS = ("baseline", "avx2", "avx512")
HALVES_TOO = (np.float32, np.float16, ml_dtypes.bfloat16)
ALL = (*HALVES_TOO, np.float64, np.complex64, np.complex128)
LENGTHS = (*range(1, 10), 15, 16, 17, 31, 32, 33, 65)
"""Up to and around the vectors of each type, and the longest twice over."""

Run = tuple[np.ndarray, Callable[[np.ndarray], None]]


def at(array: np.ndarray, offset: int) -> np.ndarray:
    """A copy that begins so many bytes behind an address that suits vectors."""
    memory = np.zeros(array.nbytes + 128, np.uint8)
    begin = -memory.ctypes.data % 64 + offset
    view = memory[begin : begin + array.nbytes].view(array.dtype).reshape(array.shape)
    view[...] = array
    return view


def call(acl: Library, name: str, arrays: list[np.ndarray], out: np.ndarray, *rest: object) -> np.ndarray:
    """Runs an operator whose second tensor has the output's shape, on host memory as it is."""
    with ExitStack() as stack:
        handles = [
            stack.enter_context(acl.describe(each.shape, DATA_TYPES[each.dtype], address=each.ctypes.data))
            for each in (*arrays, out)
        ]
        handles.insert(1, handles[-1])
        given = [stack.enter_context(acl.int_array(each)) if isinstance(each, tuple) else each for each in rest]
        acl.run(name, *handles[:-1], *given, handles[-1])
    return out


def pooled(acl: Library, shape: tuple[int, ...], windows: tuple[int, int], dtype: type, offset: int) -> np.ndarray:
    grad = at(random((*shape[:-2], *windows), dtype), offset)
    return call(acl, "aclnnAdaptiveAvgPool2dBackward", [grad], at(np.full(shape, 7, dtype), offset))


def check_pooled(result: np.ndarray, windows: tuple[int, int]) -> None:
    height, width = result.shape[-2:]
    grad = random((*result.shape[:-2], *windows), result.dtype).astype(np.float64)
    expected = np.zeros(result.shape)
    scale = np.zeros(result.shape)
    for i, j in np.ndindex(*windows):
        rows = slice(i * height // windows[0], -(-(i + 1) * height // windows[0]))
        columns = slice(j * width // windows[1], -(-(j + 1) * width // windows[1]))
        area = (rows.stop - rows.start) * (columns.stop - columns.start)
        expected[..., rows, columns] += grad[..., i : i + 1, j : j + 1] / area
        scale[..., rows, columns] += abs(grad[..., i : i + 1, j : j + 1]) / area
    assert_close(result, expected, scale)


def padded(acl: Library, shape: tuple[int, ...], padding: tuple[int, ...], dtype: type, offset: int) -> np.ndarray:
    left, right, top, bottom = padding
    grad = at(random((*shape[:-2], shape[-2] + top + bottom, shape[-1] + left + right), dtype), offset)
    return call(acl, "aclnnReplicationPad2dBackward", [grad], at(np.full(shape, 7, dtype), offset), padding)


def check_padded(result: np.ndarray, padding: tuple[int, ...]) -> None:
    left, right, top, bottom = padding
    height, width = result.shape[-2:]
    shape = (*result.shape[:-2], height + top + bottom, width + left + right)
    grad = random(shape, result.dtype).astype(np.complex128)
    wide = np.zeros((*result.shape[:-2], height, shape[-1]), np.complex128)
    np.add.at(wide, (..., np.clip(np.arange(shape[-2]) - top, 0, height - 1), slice(None)), grad)
    expected = np.zeros(result.shape, np.complex128)
    np.add.at(expected, (..., np.clip(np.arange(shape[-1]) - left, 0, width - 1)), wide)
    scale = np.full(result.shape, abs(grad).max() * (1 + abs(np.array(padding)).max()) ** 2)
    exact = expected if result.dtype.kind == "c" else expected.real
    assert_close(result, exact, scale)


chosen = functools.cache(max_pool.choose)


def max_pooled(acl: Library, pool: Pool, dtype: type, offset: int) -> np.ndarray:
    grad = at(random(pool.grad_shape, dtype), offset)
    layout = max_pool.mask_layout if pool.kernel == (1,) else max_pool.argmax_layout
    indices = at(layout(pool, chosen(pool)), offset)
    return call(
        acl, "aclnnMaxPool2dWithMaskBackward", [grad, indices], at(np.full(pool.shape, 7, dtype), offset),
        pool.kernel, pool.stride, pool.padding, (1,), pool.ceil_mode,
    )  # fmt: skip


def check_max_pooled(result: np.ndarray, pool: Pool) -> None:
    argmax = max_pool.positions(pool, chosen(pool))
    assert_close(result, *max_pool.gradient(pool, random(pool.grad_shape, result.dtype), argmax))


def runs(
    acl: Library, offset: int, lengths: range | tuple[int, ...] = LENGTHS
) -> Iterator[tuple[np.ndarray, Callable[[np.ndarray], None]]]:
    """Yields results, and what checks them against the definition."""
    for dtype in HALVES_TOO:
        for width in LENGTHS:
            for windows in {(2, max(1, width // 3)), (5, width), (3, width + 2)}:
                shape = (2, 5, width)
                yield pooled(acl, shape, windows, dtype, offset), lambda r, w=windows: check_pooled(r, w)
            for kernel, stride in ((3, 2), (2, 1), (1, 1)):
                if width >= kernel:
                    pool = Pool((1, 2, 5, width), (kernel,), (stride,), (kernel // 2,))
                    yield max_pooled(acl, pool, dtype, offset), lambda r, p=pool: check_max_pooled(r, p)
    for dtype in ALL:
        for width in LENGTHS:
            for padding in ((2, 3, 1, 2), (0, 0, 2, 0), (0, 1, 0, 0)):
                yield padded(acl, (2, 4, width), padding, dtype, offset), lambda r, p=padding: check_padded(r, p)
    # Several pieces of a parallel loop.
    yield pooled(acl, (3, 150, 140), (11, 13), np.float32, offset), lambda r: check_pooled(r, (11, 13))
    yield padded(acl, (3, 150, 140), (9, 8, 7, 6), np.float32, offset), lambda r: check_padded(r, (9, 8, 7, 6))
    # Around the cells of a band of sums, and more windows than are looked at together.
    for height in (181, 182):
        pool = Pool((1, 2, height, 181), (3,), (2,), (1,))
        yield max_pooled(acl, pool, np.float32, offset), lambda r, p=pool: check_max_pooled(r, p)


def print_digests(acl: Library, offset: int) -> None:
    """Runs in a process of its own, because a process has one vector level and one number of threads."""
    import hashlib

    acl.call("aclInit", None)
    acl.call("aclrtSetDevice", 0)
    digest = hashlib.sha256()
    count = 0
    for result, _ in runs(acl, offset):
        digest.update(np.ascontiguousarray(result).tobytes())
        count += 1
    print(count, digest.hexdigest())


def supported(library_path: str, run_program: Callable[..., list[str]], tmp_path: Path) -> list[str]:
    """The levels that aclInit takes on this processor."""
    levels = []
    for level in LEVELS:
        config = tmp_path / f"{level}.json"
        config.write_text(json.dumps({"host": {"vector_level": level}}))
        program = f"print(acl.aclInit({str(config)!r}.encode()))\n"
        if run_program(program) == ["0"]:
            levels.append(level)
    return levels


@pytest.mark.timeout(600)
def test_results_are_those_of_the_definition(acl: Library) -> None:
    for result, check in runs(acl, 0):
        check(result)


@pytest.mark.timeout(600)
def test_results_are_the_same_bits_everywhere(
    library_path: str, run_program: Callable[..., list[str]], tmp_path: Path
) -> None:
    levels = supported(library_path, run_program, tmp_path)
    assert levels[0] == "baseline"
    printed = {}
    for level, threads, offset in [
        *((level, 1, 0) for level in levels),
        (levels[-1], 2, 0),
        (levels[-1], 3, 1),
        ("baseline", 3, 3),
    ]:
        config = tmp_path / "config.json"
        config.write_text(json.dumps({"host": {"vector_level": level, "threads": threads}}))
        program = f"from abi.{Path(__file__).stem} import print_digests\nprint_digests(acl, {offset})\n"
        (printed[level, threads, offset],) = run_program(program, ACL_HOST_CONFIG=str(config))
    assert len(set(printed.values())) == 1, printed


def test_a_level_that_there_is_not_is_refused(
    acl: Library, run_program: Callable[..., list[str]], tmp_path: Path
) -> None:
    config = tmp_path / "config.json"
    config.write_text('{"host": {"vector_level": "mmx"}}')
    program = f"print(acl.aclInit({str(config)!r}.encode()), acl.message())\n"
    (line,) = run_program(program)
    assert line.startswith("100000 ")
    assert "host.vector_level must be one of baseline" in line


@pytest.mark.parametrize("data_type", [np.float16, ml_dtypes.bfloat16], ids=str)
def test_every_half_value_survives_and_rounds_to_even(acl: Library, data_type: type) -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(data_type)
    with np.errstate(invalid="ignore"):
        finite = np.where(np.isfinite(every.astype(np.float32)), every, 0).astype(data_type)
    shape = (1, 2, 1 << 16)
    # Rows of two are added to one: each value to the next one of its exponent, which ends between two values.
    pairs = np.stack([finite, np.roll(finite, 3)]).reshape(shape)
    out = call(acl, "aclnnReplicationPad2dBackward", [pairs], np.zeros((1, 1, 1 << 16), data_type), (0, 0, 1, 0))
    with np.errstate(over="ignore"):
        expected = (pairs[0, 0].astype(np.float32) + pairs[0, 1].astype(np.float32)).astype(data_type)
    np.testing.assert_array_equal(out[0, 0], expected)
