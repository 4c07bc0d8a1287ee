"""The kernels of attention around the sizes of their blocks: values, bits and workspaces for any threads."""

import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tools.abi.acl import DataType, Library

from .attention import ALL_TOKENS, LANES, Attention, assert_gradients, assert_values, gradients, tensors_of, values
from .kernel_memory import MEBIBYTE
from .programs_in_forks import call_of

# Rows of a block and of several at a time, and keys of a block, each with one less and one more.
ROWS = tuple(Attention(1, 2, rows, 33, 9, 1) for rows in (1, 143, 144, 145, 288, 289, 575, 576, 577, 1153))
KEYS = tuple(Attention(1, 3, 35, keys, 9, 1, 5) for keys in (1, 15, 16, 17, 191, 192, 193, 383, 384, 385))
HEADS = tuple(Attention(1, 2, 7, 9, depth) for depth in (1, 15, 16, 17, 31, 33, 255, 256, 257, 768))
MASKS = (
    Attention(2, 4, 150, 200, 8, 2, mode=2),
    Attention(2, 4, 150, 200, 8, 2, mode=3),
    Attention(2, 4, 300, 40, 8, 2, mode=3),
    Attention(1, 2, 150, 200, 16, mask=(150, 200)),
    Attention(2, 2, 150, 200, 16, 1, layout="BSH", mask=(2, 1, 150, 200)),
    Attention(2, 2, 150, 200, 16, layout="SBH", bias=(2, 2, 1, 200), pse_type=1),
    Attention(1, 2, 150, 200, 16, layout="BSND", mask=(1, 1, 150, 200), bias=(1, 2, 150, 200)),
)
# More tiles of a sum than are added up in float: of rows, of the heads that share a key, and of keys.
LONG = (
    Attention(1, 1, 2449, 20, 8),
    Attention(1, 1, 2449, 2449, 4, mode=2),
    Attention(1, 20, 7, 200, 8, 1),
    Attention(1, 2, 20, 3265, 8, 1),
    Attention(1, 2, 150, 6200, 3, mode=3),
)
CASES = (*ROWS, *KEYS, *HEADS, *MASKS, *LONG)
TYPES = ("float32", "float16", "float32", "bfloat16")


def print_results(acl: Library, is_compared: bool) -> None:
    """Prints the bits of many results; they are also compared with their definition if that is asked for."""
    acl.call("aclInit", None)
    acl.call("aclrtSetDevice", 0)
    for number, case in enumerate(CASES):
        tensors = tensors_of(case, TYPES[number % 4], number)
        passed = values(acl, case, tensors)
        found = gradients(acl, case, tensors, passed)
        print(number, *(hashlib.sha256(each.tobytes()).hexdigest() for each in (*passed, *found)))
        if is_compared:
            assert_values(passed, case, tensors, number)
            assert_gradients(found, case, tensors, passed, number)


@pytest.mark.timeout(600)
def test_every_vector_level_and_the_same_bits_with_any_number_of_threads(
    run_program: Callable[..., list[str]], vector_levels: list[str]
) -> None:
    """One thread makes whole heads; several make heads, or blocks of keys and then of rows."""
    for level in vector_levels:
        first = run_program(call_of(print_results, True), {"vector_level": level, "threads": 1})
        assert len(first) == len(CASES)
        for threads in (2, 3, 8):
            assert run_program(call_of(print_results, False), {"vector_level": level, "threads": threads}) == first


def test_the_same_bits_for_any_number_of_callers(acl: Library) -> None:
    given = [(case, tensors_of(case)) for case in (*ROWS[3:5], *KEYS[-2:], *MASKS)]

    def bits(stream: object = None) -> list[bytes]:
        found = []
        for case, tensors in given:
            passed = values(acl, case, tensors, stream=stream)
            found += [*passed, *gradients(acl, case, tensors, passed, stream=stream)]
        return [each.tobytes() for each in found]

    def again(_: int) -> list[bytes]:
        acl.call("aclrtSetDevice", 0)
        with acl.stream() as stream:
            return bits(stream)

    alone = bits()
    with ThreadPoolExecutor(4) as callers:
        assert list(callers.map(again, range(4))) == [alone] * 4


def test_heads_and_sequences_have_their_bits_alone(acl: Library) -> None:
    case = Attention(3, 4, 150, 200, 16, 2, mask=(3, 1, 150, 200))
    tensors = tensors_of(case)
    passed = values(acl, case, tensors)
    every = gradients(acl, case, tensors, passed)
    alone = Attention(1, 2, 150, 200, 16, 1, mask=(1, 1, 150, 200))
    for batch in range(3):
        for head in range(2):
            place = {
                name: (slice(batch, batch + 1), slice(head, head + 1) if count == 2 else slice(2 * head, 2 * head + 2))
                for name, count in (("query", 4), ("key", 2), ("value", 2), ("dy", 4))
            }
            some = {name: tensors[name][where].copy() for name, where in place.items()}
            some["mask"] = tensors["mask"][batch : batch + 1].copy()
            own = values(acl, alone, some)
            for each, other in zip(own, passed, strict=True):
                assert each.tobytes() == other[place["query"]].tobytes()
            found = gradients(acl, alone, some, own)
            for each, other, name in zip(found, every, ("query", "key", "value"), strict=True):
                assert each.tobytes() == other[place[name]].tobytes(), (batch, head, name)


# Shapes whose tiles, panels or sums would be large if these grew with them.
ABSURD = (
    (1, 1, 1, 2**20, 2**20, 64), (1, 64, 64, 2**20, 2**20, 128), (1, 8, 1, 2**17, 2**17, 768),
    (1, 1, 1, 2**20, 1, 768), (1, 1, 1, 1, 2**20, 768), (2**21, 1, 1, 1, 1, 1), (4, 2048, 1, 512, 512, 64),
    (1, 12, 12, 1024, 1024, 64), (8, 32, 8, 4096, 4096, 128), (1, 12, 12, 8192, 8192, 64),
)  # fmt: skip


def print_workspaces(acl: Library) -> None:
    """Prints the largest workspace of phase 1, of tensors without memory, in bytes."""
    acl.call("aclInit", None)
    acl.call("aclrtSetDevice", 0)
    print(max(size for sizes in ABSURD for type in TYPES_OF_ACL for size in _workspaces(acl, *sizes, type)))


TYPES_OF_ACL = (DataType.FLOAT, DataType.BF16)


def _workspaces(
    acl: Library, batches: int, heads: int, key_heads: int, rows: int, keys: int, depth: int, type: DataType
) -> list[int]:
    of_query, of_key = (batches, heads, rows, depth), (batches, key_heads, keys, depth)
    with (
        acl.describe(of_query, type, address=64) as query,
        acl.describe(of_key, type, address=64) as key,
        acl.describe((*of_query[:3], LANES), DataType.FLOAT, address=64) as statistic,
    ):
        numbers = (None, 1.0, 1.0, ALL_TOKENS, ALL_TOKENS, heads, b"BNSD", 0, 0)
        forward = (query, key, key, None, None, None, None, *numbers, statistic, statistic, None, query)
        saved = (statistic, statistic, None, query)
        backward = (query, key, key, query, None, None, None, None, *saved, *numbers, query, key, key, None)
        sizes = []
        for name, arguments in (("aclnnFlashAttentionScore", forward), ("aclnnFlashAttentionScoreGrad", backward)):
            size, executor = acl.plan(name, *arguments)
            acl.call("aclDestroyAclOpExecutor", executor)
            sizes.append(size)
        return sizes


@pytest.mark.parametrize("threads", [1, 2, 64])
def test_workspaces_do_not_grow_with_shapes_and_threads(run_program: Callable[..., list[str]], threads: int) -> None:
    (largest,) = run_program(call_of(print_workspaces), {"threads": threads})
    assert int(largest) <= 64 * MEBIBYTE


def test_causal_tiles_that_are_skipped_leave_bits_alone(acl: Library) -> None:
    """The same mask as a tensor, by which nothing is skipped."""
    for rows, keys, mode in ((700, 700, 2), (300, 900, 2), (300, 900, 3), (900, 300, 3)):
        case = Attention(1, 2, rows, keys, 8, mode=mode)
        tensors = tensors_of(case)
        shift = keys - rows if mode == 3 else 0
        whole = Attention(1, 2, rows, keys, 8, mask=(rows, keys))
        masked = tensors | {"mask": np.arange(keys) > np.arange(rows)[:, None] + shift}
        passed = values(acl, case, tensors)
        for each, other in zip(values(acl, whole, masked), passed, strict=True):
            np.testing.assert_array_equal(each, other)
        found = gradients(acl, case, tensors, passed)
        for each, other in zip(gradients(acl, whole, masked, passed), found, strict=True):
            np.testing.assert_allclose(each, other, rtol=0, atol=1e-36)
