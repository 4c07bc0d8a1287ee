"""Copies, fills and joined tensors: every pair of types, broadcasts, strides on both sides, and long lists."""

import re
from contextlib import ExitStack

import ml_dtypes
import numpy as np
import pytest

from tools.abi.acl import AclError, DataType, Library, Scalar

from .products import storage_of

INVALID, NULL = 161002, 161001
NAMES = (
    "float32", "float16", "bfloat16", "float64", "int8", "int16", "int32", "int64", "uint8", "bool", "complex64",
    "complex128",
)  # fmt: skip
TYPES = {name: np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name) for name in NAMES}


def copied(acl: Library, source: np.ndarray, target: np.ndarray, seen: np.ndarray | None = None) -> np.ndarray:
    """Returns the target's storage after a copy of the source, of which `seen` is a view of its storage."""
    storage = source if seen is None else seen.base
    with acl.tensor(storage, source if seen is None else seen) as src, acl.tensor(target) as self_ref:
        acl.run("aclnnInplaceCopy", self_ref.handle, src.handle)
        return self_ref.read_storage()


@pytest.mark.parametrize("source", NAMES)
def test_conversion(acl: Library, source: str) -> None:
    """Of numbers that both types hold, exactly; of others as numpy rounds."""
    for target in NAMES:
        values = np.array([0, 1, 2, 3.75, 100, 0.1, 5, 7] * 1000)
        if not {"uint8", "bool"} & {source, target}:
            values[::16] *= -1
            values[1::16] *= -1
        array = values.astype(TYPES[source])
        expected = array.real if np.iscomplexobj(array) and not target.startswith("complex") else array
        expected = array != 0 if target == "bool" else expected.astype(TYPES[target])
        found = copied(acl, array, np.zeros(array.shape, TYPES[target]))
        np.testing.assert_array_equal(found, expected, err_msg=target)


@pytest.mark.parametrize("target", ["int8", "int16", "int32", "int64", "uint8"])
def test_numbers_out_of_range_saturate(acl: Library, target: str) -> None:
    limits = np.iinfo(target)
    array = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, limits.max, limits.min], np.float64)
    expected = [0, limits.max, limits.min, limits.max, limits.min, limits.max, limits.min]
    assert copied(acl, array, np.ones(7, target)).tolist() == expected


@pytest.mark.parametrize("dtype", ["float32", "bool", "int16", "complex128"])
def test_views(acl: Library, dtype: str) -> None:
    base = (np.random.default_rng(4).random((30, 40, 6)) * 100).astype(TYPES[dtype])
    for seen in (base.T, base[::-1, ::2], base[3:9, 5:7].swapaxes(0, 2), base.transpose(1, 2, 0)):
        np.testing.assert_array_equal(copied(acl, base, np.zeros(seen.shape, base.dtype), seen), seen)
        # And into a target of other strides.
        storage = np.zeros(seen.shape[::-1], base.dtype)
        with acl.tensor(base, seen) as src, acl.tensor(storage, storage.T) as self_ref:
            acl.run("aclnnInplaceCopy", self_ref.handle, src.handle)
            np.testing.assert_array_equal(self_ref.read_storage().T, seen)


def test_broadcasts(acl: Library) -> None:
    for shape in ((), (5,), (4, 1), (3, 1, 5), (1, 1, 1)):
        source = np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)
        found = copied(acl, source, np.zeros((3, 4, 5), np.float64))
        np.testing.assert_array_equal(found, np.broadcast_to(source, (3, 4, 5)))


@pytest.mark.parametrize("shape", [(4,), (2, 3, 5), (3, 4, 5, 1), (1, 1, 1, 1)], ids=str)
def test_shapes_that_do_not_broadcast(acl: Library, shape: tuple[int, ...]) -> None:
    with pytest.raises(AclError, match="broadcast") as failure:
        copied(acl, np.zeros(shape, np.float32), np.zeros((3, 4, 5), np.float32))
    assert failure.value.code == INVALID


def test_nine_dimensions(acl: Library) -> None:
    with pytest.raises(AclError, match="at most 8") as failure:
        copied(acl, np.zeros((1,) * 9, np.float32), np.zeros((1,) * 9, np.float32))
    assert failure.value.code == INVALID


def test_nothing_to_copy(acl: Library) -> None:
    assert copied(acl, np.zeros((0, 3), np.float32), np.zeros((0, 3), np.float32)).size == 0


def test_null(acl: Library) -> None:
    with acl.tensor(np.zeros(3, np.float32)) as tensor:
        for arguments in ((None, tensor.handle), (tensor.handle, None)):
            with pytest.raises(AclError) as failure:
                acl.run("aclnnInplaceCopy", *arguments)
            assert failure.value.code == NULL


def written(acl: Library, source: np.ndarray, target: np.ndarray) -> None:
    """Copies into a view and checks its storage, of which nothing else may change."""
    storage, src = storage_of(target), storage_of(source)
    with acl.tensor(src, source) as given, acl.tensor(storage, target) as self_ref:
        acl.run("aclnnInplaceCopy", self_ref.handle, given.handle)
        found = self_ref.read_storage()
    target[...] = source
    np.testing.assert_array_equal(found, storage)


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "float64", "complex128"])
def test_parts_of_tensors(acl: Library, dtype: str) -> None:
    """Tiles, rows of any step, and single elements."""
    generator = np.random.default_rng(5)
    for shape in ((70, 90), (33, 65, 8), (5, 100, 41), (9, 9)):

        def made(sizes: tuple[int, ...]) -> np.ndarray:
            return generator.integers(0, 99, sizes).astype(dtype)

        for target in (
            made(shape).T, made((2, *shape))[1], made((*shape, 2))[..., 1], made(shape)[::-1],
            made(tuple(2 * each for each in shape))[tuple(slice(1, None, 2) for _ in shape)],
            made((*shape[:-1], 3 * shape[-1]))[..., shape[-1] : 2 * shape[-1]],
        ):  # fmt: skip
            written(acl, made(target.shape), target)
            written(acl, made(target.shape[::-1]).T, target)
            written(acl, made(target.shape[-1:]), target)
            written(acl, made(()), target)
            written(acl, made((*target.shape[:-1], 1)).real.astype("float32"), target)


def filled(acl: Library, target: np.ndarray, value: Scalar) -> np.ndarray:
    with acl.tensor(storage_of(target), target) as self_ref, acl.scalar(value) as number:
        acl.run("aclnnInplaceFillScalar", self_ref.handle, number)
        return self_ref.read_storage()


@pytest.mark.parametrize("name", NAMES)
def test_fills(acl: Library, name: str) -> None:
    for value in (Scalar(3, "int64"), Scalar(2.75, "float32"), Scalar(True, "bool"), Scalar(0.1, "float64")):
        base = np.zeros((6, 70, 9), TYPES[name])
        for target in (base.copy(), base.copy()[::2, 1], base.copy().T[::-2], np.zeros((), base.dtype)):
            found = filled(acl, target, value)
            target[...] = np.asarray(value.value).astype(value.dtype).astype(target.dtype)
            np.testing.assert_array_equal(found, storage_of(target))
    assert filled(acl, np.zeros((0, 2), TYPES[name]), Scalar(1)).size == 0


def test_a_fill_needs_a_number(acl: Library) -> None:
    with acl.tensor(np.zeros(3, np.float32)) as tensor:
        for arguments in ((None, None), (tensor.handle, None)):
            with pytest.raises(AclError) as failure:
                acl.run("aclnnInplaceFillScalar", *arguments)
            assert failure.value.code == NULL


def joined(acl: Library, arrays: list[np.ndarray], dim: int, dtype: object = None) -> np.ndarray:
    """Returns the tensors behind each other, and checks a result in every second column as well."""
    kept = [each for each in arrays if each.shape != (0,)]
    shape = np.concatenate(kept, dim).shape
    out = np.full((*shape[:-1], 2 * shape[-1]), 7, arrays[0].dtype if dtype is None else dtype)
    with acl.list_of(arrays) as tensors, acl.tensor(out, out[..., ::2]) as result:
        acl.run("aclnnCat", tensors, dim, result.handle)
        found = result.read_storage()
    np.testing.assert_array_equal(found[..., 1::2], out[..., 1::2])
    return found[..., ::2]


@pytest.mark.parametrize("name", [each for each in NAMES if each != "complex128"])
def test_joined_tensors(acl: Library, name: str) -> None:
    generator = np.random.default_rng(6)

    def made(*shape: int) -> np.ndarray:
        return generator.integers(0, 2 if name == "bool" else 99, shape).astype(TYPES[name])

    for arrays, dim in (
        ([made(3, 4), made(5, 4), made(0, 4)], 0), ([made(3, 4), made(3, 40), np.zeros(0, TYPES[name])], -1),
        ([made(2, 3, 4).T, made(4, 9, 2)[:, ::2], made(4, 1, 2)], 1), ([made(7)], 0), ([made(5), made(0), made(2)], 0),
        ([made(100, 300), made(50, 300), made(1, 300)], 0), ([made(70, 1), made(70, 90).T.copy().T], 1),
    ):  # fmt: skip
        kept = [each for each in arrays if each.shape != (0,)]
        np.testing.assert_array_equal(joined(acl, arrays, dim), np.concatenate(kept, dim))


def test_joined_tensors_of_several_types(acl: Library) -> None:
    """Each becomes the promoted type first, and then that of the result."""
    first, second = np.array([2**24 + 1, 5], np.int32), np.array([0.5, -1], np.float16)
    # int32 and float16 make float16, which has no such number.
    assert joined(acl, [first, second], 0, np.float32).tolist() == [np.inf, 5, 0.5, -1]
    assert joined(acl, [np.array([True]), np.array([300], np.int16)], 0, np.float64).tolist() == [1, 300]
    assert joined(acl, [np.array([1.5], np.float32), second], 0, "float32").tolist() == [1.5, 0.5, -1]
    # A tensor alone is cast at once.
    assert joined(acl, [first, np.zeros((0,), np.float16)], 0, np.float64).tolist() == [2**24 + 1, 5]


@pytest.mark.parametrize("count", [1, 33, 1000])
def test_long_lists(acl: Library, count: int) -> None:
    arrays = [np.full((3, 1 + number % 5), number, np.float32) for number in range(count)]
    np.testing.assert_array_equal(joined(acl, arrays, 1), np.concatenate(arrays, 1))
    wide = [np.full((1 + number % 3, 4000), number, np.float32) for number in range(count)]
    np.testing.assert_array_equal(joined(acl, wide, 0), np.concatenate(wide))


def refusal(acl: Library, arrays: list[np.ndarray], dim: int, out: np.ndarray | None) -> tuple[int, str]:
    with ExitStack() as stack:
        tensors = stack.enter_context(acl.list_of(arrays))
        result = None if out is None else stack.enter_context(acl.tensor(out)).handle
        with pytest.raises(AclError) as failure:
            acl.run("aclnnCat", tensors, dim, result)
    return failure.value.code, failure.value.message


def test_what_does_not_join(acl: Library) -> None:
    one, out = np.zeros((2, 3), np.float32), np.zeros((4, 3), np.float32)
    for arrays, dim, result, code, told in (
        ([one, one], 0, None, NULL, "out must not be null"),
        ([one, np.zeros((2, 3), np.complex128)], 0, out, INVALID, r"tensors\[1\]: expected data type"),
        ([one, one], 0, out.astype(np.int32), INVALID, "out: expected a data type that holds FLOAT"),
        ([one, one], 2, out, INVALID, "dim: expected a value from -2 to 1"),
        ([np.zeros((), np.float32)] * 2, 0, out, INVALID, "dim: expected"),
        ([one, one[0]], 0, out, INVALID, r"tensors\[1\]: expected the rank"),
        ([one, one[:, :2].copy()], 0, out, INVALID, r"tensors\[1\]: expected dim 1"),
        ([one, one], 0, out[:3].copy(), INVALID, "out: expected the shape of the tensors behind each other"),
        ([one, one[:0]], 0, out, 561103, "out: expected the shape of the tensors behind each other"),
    ):  # fmt: skip
        found = refusal(acl, arrays, dim, result)
        assert found[0] == code, (found, told)
        if "texts" in acl.abilities:
            assert re.search(told, found[1]), (found, told)


def test_lists_without_what_counts(acl: Library) -> None:
    """Not even a result is needed then. A null tensor, and a null list, are refused."""
    nothing = np.zeros(0, np.float32)
    with acl.list_of([nothing, nothing]) as tensors:
        acl.run("aclnnCat", tensors, 5, None)
    with acl.tensor_list([]) as tensors:
        acl.run("aclnnCat", tensors, 0, None)
    with acl.tensor(nothing) as out:
        with pytest.raises(AclError) as failure:
            acl.run("aclnnCat", None, 0, out.handle)
        assert failure.value.code == NULL
        with acl.tensor_list([acl.create_tensor((2,), DataType.FLOAT), None]) as tensors:
            with pytest.raises(AclError) as failure:
                acl.run("aclnnCat", tensors, 0, out.handle)
            assert failure.value.code == NULL
