"""aclnnInplaceCopy: every pair of types, broadcasts, and strides on both sides."""

import ml_dtypes
import numpy as np
import pytest

from tools.abi.acl import AclError, Library

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
