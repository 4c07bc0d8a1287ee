"""Views of handles name exactly the elements that numpy's views of an array name."""

import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

import aclgrad
from aclgrad._client.calls.handles import Handle
from aclgrad.tensors import DTYPES, TensorType

Array = np.ndarray[Any, Any]
SHAPES = st.lists(st.integers(0, 4), max_size=4).map(tuple)
BOUND = st.one_of(st.none(), st.integers(-7, 7), st.sampled_from([sys.maxsize, -sys.maxsize, 10**30, -(10**30)]))
STEP = st.one_of(st.none(), st.integers(1, 5), st.sampled_from([2**32, 10**30]))


def whole(shape: tuple[int, ...]) -> tuple[Array, Handle]:
    """Returns an array whose elements are their positions, and a handle of its shape."""
    array = np.arange(np.prod(shape, dtype=np.int64)).reshape(shape)
    return array, Handle(None, 0, "out", TensorType(DTYPES["float32"], shape))


def positions(handle: Handle) -> Array:
    """Returns the positions of the elements that a handle names, as they go to a server."""
    if handle.view is None:
        return whole(handle.shape)[0]
    count = handle.view.end(handle.shape)
    elements = np.arange(max(count, 1))
    strides = [8 * each if size > 1 else 0 for size, each in zip(handle.shape, handle.view.strides, strict=True)]
    start = handle.view.offset if handle.size else 0
    return as_strided(elements[start:], handle.shape, strides).copy()


def check(handle: Handle, expected: Array, whole: Array) -> None:
    assert (handle.shape, handle.ndim, handle.size) == (expected.shape, expected.ndim, expected.size)
    np.testing.assert_array_equal(positions(handle), expected)
    assert handle.view is None or not handle.size or 0 <= handle.view.offset < whole.size
    assert handle.view is None or all(0 <= each < 2**63 for each in handle.view.strides)
    values = handle.taken_from(whole.astype(np.float32))
    np.testing.assert_array_equal(values, expected)


def draw_items(draw: Any, rank: int) -> tuple[Any, ...]:
    taken = draw(st.integers(0, rank))
    items = draw(
        st.lists(st.one_of(st.builds(slice, BOUND, BOUND, STEP), st.integers(-5, 5)), min_size=taken, max_size=taken)
    )
    for extra in draw(st.lists(st.none(), max_size=2)) + ([Ellipsis] if draw(st.booleans()) else []):
        items.insert(draw(st.integers(0, len(items))), extra)
    return tuple(items)


def draw_broadcast(draw: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    added = draw(st.lists(st.integers(0, 3), max_size=2))
    return (*added, *(draw(st.integers(0, 4)) if size == 1 else size for size in shape))


def draw_sizes(draw: Any, count: int) -> tuple[int, ...]:
    """Draws a shape of so many elements, often with a size left to be found."""
    sizes = []
    left = count
    for _ in range(draw(st.integers(0, 3))):
        size = draw(st.sampled_from([each for each in range(1, left + 1) if left % each == 0] or [0, 1, 3]))
        sizes.append(size)
        left = left // size if size else left
    sizes.append(left)
    shape = draw(st.permutations(sizes))
    at = draw(st.integers(-3, len(shape) - 1))
    return tuple(-1 if i == at else size for i, size in enumerate(shape))


@given(data=st.data(), shape=SHAPES)
def test_chains_of_views(data: st.DataObject, shape: tuple[int, ...]) -> None:
    array, handle = whole(shape)
    expected = array
    for _ in range(data.draw(st.integers(1, 4))):
        kind = data.draw(st.sampled_from(["index", "transpose", "reshape", "broadcast"]))
        if kind == "index":
            items = draw_items(data.draw, expected.ndim)
            try:
                # With ... numpy makes a view of one element, too.
                viewed = expected[items if Ellipsis in items else (*items, Ellipsis)]
            except IndexError:
                with pytest.raises(IndexError):
                    handle[items]
                continue
            handle, expected = handle[items], viewed
        elif kind == "transpose":
            axes = data.draw(st.permutations(range(expected.ndim)))
            handle, expected = handle.transpose(*axes), expected.transpose(axes)
        elif kind == "broadcast":
            sizes = draw_broadcast(data.draw, expected.shape)
            handle, expected = handle.broadcast_to(sizes), np.broadcast_to(expected, sizes)
        else:
            sizes = draw_sizes(data.draw, expected.size)
            try:
                viewed = expected.reshape(sizes)
            except ValueError:
                with pytest.raises(aclgrad.InvalidFieldError):
                    handle.reshape(sizes)
                continue
            if expected.size and not np.shares_memory(viewed, array):
                with pytest.raises(aclgrad.InvalidFieldError, match="a view copies nothing"):
                    handle.reshape(sizes)
                continue
            handle, expected = handle.reshape(sizes), viewed
        check(handle, expected, array)
    check(handle.T, expected.T, array)


@pytest.mark.parametrize("sizes", [(3, 5), (3,), (2, 3, 1), (3, -1), (0, 3), (-1, 3)], ids=str)
def test_shapes_to_which_nothing_is_broadcast(sizes: tuple[int, ...]) -> None:
    handle = whole((2, 3))[1]
    with pytest.raises(aclgrad.InvalidFieldError, match="cannot be broadcast"):
        handle.broadcast_to(sizes)
    with pytest.raises(ValueError, match=r"broadcast|more dimensions"):
        np.broadcast_to(whole((2, 3))[0], sizes)


@pytest.mark.parametrize("sizes", [(4,), (-1, 4), (-1, -1), (-2, -3), (0, -1), (7, 0), ()], ids=str)
def test_shapes_of_other_counts(sizes: tuple[int, ...]) -> None:
    with pytest.raises(aclgrad.InvalidFieldError, match="has 6 elements"):
        whole((2, 3))[1].reshape(sizes)


@pytest.mark.parametrize("axes", [(0,), (0, 0), (0, 2), (-3, 0), (0, 1, 2)], ids=str)
def test_axes_that_it_does_not_have(axes: tuple[int, ...]) -> None:
    with pytest.raises(aclgrad.InvalidFieldError, match="name each of the 2 axes once"):
        whole((2, 3))[1].transpose(*axes)


ITEMS = [
    slice(None, None, -1),
    slice(None, None, 0),
    slice("a", None),
    slice(0.5, None),
    True,
    np.True_,
    np.array([True, False]),
    [0, 1],
    np.array([0, 1]),
    0.0,
    "a",
    (..., ...),
    (0, 0, 0),
    (Ellipsis, 0, 0, 0),
]


@pytest.mark.parametrize("items", ITEMS, ids=repr)
def test_items_that_make_no_view(items: Any) -> None:
    with pytest.raises(aclgrad.InvalidFieldError, match=r"^index"):
        whole((2, 3))[1][items]


def test_both_forms_of_arguments() -> None:
    handle = whole((2, 3))[1]
    assert handle.transpose([1, 0]).shape == handle.transpose(1, 0).shape == handle.transpose(-1, 0).shape == (3, 2)
    assert handle.transpose().shape == handle.T.shape == (3, 2)
    assert handle.reshape([3, -1]).shape == handle.reshape(3, np.int64(2)).shape == (3, 2)
    assert handle.broadcast_to([4, 2, 3]).shape == handle.broadcast_to(4, 2, 3).shape == (4, 2, 3)
    assert [row.shape for row in handle] == [(3,), (3,)]
    assert len(handle) == 2
    with pytest.raises(TypeError):
        len(whole(())[1])
    with pytest.raises(TypeError):
        np.ones((2, 3)) * handle
