"""Calls of the matrix products and of reductions on numpy arrays and views of them."""

from contextlib import ExitStack

import ml_dtypes
import numpy as np

from tools.abi.acl import DATA_TYPES, Format, Library, Scalar

TYPES = {"float32": np.dtype(np.float32), "float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16)}
FILL = 7

# The relative rounding errors of a result of the type.
ROUNDING = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}


def numbers(seed: int, shape: tuple[int, ...], dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(TYPES[dtype])


def storage_of(view: np.ndarray) -> np.ndarray:
    """Returns the array that a view is of."""
    return view if view.base is None else storage_of(view.base)


def product(
    acl: Library,
    left: np.ndarray,
    right: np.ndarray,
    added: np.ndarray | None = None,
    factors: tuple[float, float] = (1, 1),
    out: np.ndarray | str | None = None,
    symbol: str = "aclnnMatmul",
    stream: object = None,
) -> np.ndarray:
    """Returns the product of two views, or the sum of a third one and of it, in a view or in a new array of a type."""
    if not isinstance(out, np.ndarray):
        shape = np.broadcast_shapes(left.shape[:-2], right.shape[:-2]) + left.shape[-2:-1] + right.shape[1:][-1:]
        out = np.full(shape, FILL, left.dtype if out is None else TYPES[out])
    symbol = symbol if added is None else "aclnnAddmm"
    with ExitStack() as stack:

        def tensor(view: np.ndarray) -> object:
            return stack.enter_context(acl.tensor(storage_of(view), view, Format.ND))

        result = tensor(out)
        tensors = [tensor(each).handle for each in (added, left, right) if each is not None]
        scalars = [] if added is None else [stack.enter_context(acl.scalar(Scalar(each))) for each in factors]
        acl.run(symbol, *tensors, *scalars, result.handle, 0, stream=stream)
        storage = result.read_storage()
    view = np.ndarray(out.shape, out.dtype, storage, out.ctypes.data - storage_of(out).ctypes.data, out.strides)
    found = view.copy()
    view[...] = FILL
    assert (storage == FILL).all()  # nothing outside of the view was written
    return found


def reduced(
    acl: Library,
    array: np.ndarray,
    dims: tuple[int, ...],
    dtype: np.dtype | None = None,
    *,
    keeps: bool = False,
    symbol: str = "aclnnReduceSum",
) -> np.ndarray:
    axes = dims or tuple(range(array.ndim))
    dtype = array.dtype if dtype is None else np.dtype(dtype)
    out = np.full(np.empty(array.shape, np.int8).sum(axes, keepdims=keeps).shape, FILL, dtype)
    with (
        acl.tensor(storage_of(array), array, Format.ND) as self,
        acl.tensor(out, format_=Format.ND) as results,
        acl.int_array(dims) as axes_array,
    ):
        types = () if symbol == "aclnnAmax" else (DATA_TYPES[dtype],)
        acl.run(symbol, self.handle, axes_array, keeps, *types, results.handle)
        return results.read_storage()


def assert_product(
    found: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    added: np.ndarray | None = None,
    factors: tuple[float, float] = (1, 1),
    name: str = "",
) -> None:
    """Compares with the product in float64, by the errors of float32 sums and of one rounding."""
    wide = [np.asarray(each, np.float64) for each in (left, right)]
    truth = factors[1] * (wide[0] @ wide[1])
    sizes = abs(factors[1]) * (abs(wide[0]) @ abs(wide[1]))
    if added is not None:
        truth = truth + factors[0] * added.astype(np.float64)
        sizes = sizes + abs(factors[0] * added.astype(np.float64))
    depth = left.shape[-1]
    bound = (np.sqrt(depth) + 4) * 2.0**-23 * sizes + 2 * ROUNDING[found.dtype.name] * abs(truth) + 1e-7
    wrong = ~(abs(found.astype(np.float64) - truth) <= bound)
    assert not wrong.any(), (name, found.shape, depth, np.argwhere(wrong)[:3], found[wrong][:3], truth[wrong][:3])
