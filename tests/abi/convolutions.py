"""Calls of aclnnConvolution and aclnnConvolutionBackward on numpy arrays and views, and their results by definition."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import product as product_of

import numpy as np

from tools.abi.acl import DeviceTensor, Format, Library

from .products import FILL, ROUNDING, numbers, storage_of

Gradients = tuple[np.ndarray | None, np.ndarray | None, np.ndarray | None]
ALL = (True, True, True)
FORMATS = {3: Format.NCL, 4: Format.NCHW, 5: Format.NCDHW}


@dataclass(frozen=True)
class Convolution:
    """The shapes of a forward pass. Lists have one value for each spatial axis."""

    input: tuple[int, ...]
    weight: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int = 1
    transposed: bool = False
    output_padding: tuple[int, ...] = ()

    @property
    def output(self) -> tuple[int, ...]:
        axes = zip(self.input[2:], self.weight[2:], self.stride, self.sides, self.dilation, self.more, strict=True)
        if self.transposed:
            sizes = [(n - 1) * s - sum(p) + d * (k - 1) + more + 1 for n, k, s, p, d, more in axes]
        else:
            sizes = [(n + sum(p) - d * (k - 1) - 1) // s + 1 for n, k, s, p, d, _ in axes]
        channels = self.weight[1] * self.groups if self.transposed else self.weight[0]
        return (self.input[0], channels, *sizes)

    @property
    def sides(self) -> list[tuple[int, int]]:
        """The padding in front of and behind each axis."""
        if len(self.padding) == len(self.stride):
            return [(each, each) for each in self.padding]
        return list(zip(self.padding[::2], self.padding[1::2], strict=True))

    @property
    def more(self) -> tuple[int, ...]:
        return self.output_padding or (0,) * len(self.stride)


def convolution(
    input_: tuple[int, ...],
    weight: tuple[int, ...],
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] = 0,
    dilation: int | tuple[int, ...] = 1,
    groups: int = 1,
    output_padding: int | tuple[int, ...] | None = None,
) -> Convolution:
    """Returns a convolution, or a transposed one if output_padding is given."""

    def spread(value: int | tuple[int, ...]) -> tuple[int, ...]:
        return (value,) * (len(input_) - 2) if isinstance(value, int) else value

    lists = (spread(stride), spread(padding), spread(dilation))
    more = () if output_padding is None else spread(output_padding)
    return Convolution(input_, weight, *lists, groups, output_padding is not None, more)


def tensors_of(case: Convolution, dtype: str = "float32", seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns grad_output, input and weight."""
    shapes = (case.output, case.input, case.weight)
    return tuple(numbers(seed + number, shape, dtype) for number, shape in enumerate(shapes))


@contextmanager
def described(
    acl: Library,
    case: Convolution,
    tensors: tuple[np.ndarray, ...],
    mask: tuple[bool, ...] = ALL,
    outputs: tuple[np.ndarray | None, ...] = (None, None, None),
    cube_math_type: int = 0,
) -> Iterator[tuple[tuple[object, ...], list[tuple[np.ndarray, DeviceTensor] | None]]]:
    """Yields the call's arguments, and the outputs that are wanted: in given views, or in new arrays."""
    shapes = (case.input, case.weight, (case.output[1],))
    formats = (*[FORMATS[len(case.input)]] * 2, Format.ND)
    with ExitStack() as stack:

        def tensor(view: np.ndarray, format_: Format) -> DeviceTensor:
            return stack.enter_context(acl.tensor(storage_of(view), view, format_))

        def output(shape: tuple[int, ...], view: np.ndarray | None, format_: Format) -> tuple[np.ndarray, DeviceTensor]:
            view = np.full(shape, FILL, tensors[0].dtype) if view is None else view
            return view, tensor(view, format_)

        def array(values: tuple[int, ...]) -> object:
            return stack.enter_context(acl.int_array(values))

        given = [tensor(each, FORMATS[each.ndim]).handle for each in tensors]
        made = [
            output(*each) if is_wanted else None
            for *each, is_wanted in zip(shapes, outputs, formats, mask, strict=True)
        ]
        lists = map(array, (case.output[1:2], case.stride, case.padding, case.dilation))
        more, wanted = array(case.more), stack.enter_context(acl.bool_array(mask))
        results = (None if each is None else each[1].handle for each in made)
        yield (*given, *lists, case.transposed, more, case.groups, wanted, cube_math_type, *results), made


def gradients(
    acl: Library,
    case: Convolution,
    tensors: tuple[np.ndarray, ...],
    mask: tuple[bool, ...] = ALL,
    outputs: tuple[np.ndarray | None, ...] = (None, None, None),
    stream: object = None,
    cube_math_type: int = 0,
) -> Gradients:
    """Returns the gradients that are wanted."""
    with described(acl, case, tensors, mask, outputs, cube_math_type) as (arguments, made):
        acl.run("aclnnConvolutionBackward", *arguments, stream=stream)
        return tuple(None if each is None else _read(each[1].read_storage(), each[0]) for each in made)


def _read(storage: np.ndarray, of: np.ndarray) -> np.ndarray:
    view = np.ndarray(of.shape, of.dtype, storage, of.ctypes.data - storage_of(of).ctypes.data, of.strides)
    found = view.copy()
    view[...] = FILL
    assert (storage == FILL).all()  # nothing outside of the view was written
    return found


def _taps(case: Convolution, small: tuple[int, ...], big: tuple[int, ...]) -> Iterator[tuple[object, ...]]:
    """Yields each tap with the positions of the small and of the big tensor that it connects."""
    for tap in product_of(*map(range, case.weight[2:])):
        ranges = []
        for k, n, m, s, (p, _), d in zip(tap, small, big, case.stride, case.sides, case.dilation, strict=True):
            ranges.append([(q, q * s - p + k * d) for q in range(n) if 0 <= q * s - p + k * d < m])
        if all(ranges):
            from_, to = (np.ix_(*[[pair[i] for pair in each] for each in ranges]) for i in (0, 1))
            yield tap, (slice(None), slice(None), *from_), (slice(None), slice(None), *to)


def truths(case: Convolution, tensors: tuple[np.ndarray, ...]) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
    """Returns the gradients in float64, and the sums of their terms' magnitudes."""
    wide = [np.asarray(each, np.float64) for each in tensors]
    return _sums(case, *wide), _sums(case, *map(abs, wide))


def _sums(
    case: Convolution, grad_output: np.ndarray, input_: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    small, big = (input_, grad_output) if case.transposed else (grad_output, input_)
    of_small, of_big, of_weight = _every_sum(case, small, big, weight)
    bias = grad_output.sum((0, *range(2, grad_output.ndim)))
    return (of_small if case.transposed else of_big), of_weight, bias


def _every_sum(
    case: Convolution, small: np.ndarray, big: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the sums of each tensor over the products of the other two."""
    of_small, of_big, of_weight = (np.zeros(each.shape) for each in (small, big, weight))
    outs, ins = weight.shape[0] // case.groups, weight.shape[1]
    for tap, from_, to in _taps(case, small.shape[2:], big.shape[2:]):
        for group in range(case.groups):
            some, others = slice(group * outs, (group + 1) * outs), slice(group * ins, (group + 1) * ins)
            factor = weight[(some, slice(None), *tap)]
            smalls, bigs = small[:, some][from_], big[:, others][to]
            flat = [each.reshape(*each.shape[:2], -1) for each in (smalls, bigs)]
            of_weight[(some, slice(None), *tap)] += np.einsum("nop,ncp->oc", *flat)
            of_big[:, others][to] += np.einsum("no...,oc->nc...", smalls, factor)
            of_small[:, some][from_] += np.einsum("nc...,oc->no...", bigs, factor)
    return of_small, of_big, of_weight


def result(
    acl: Library,
    case: Convolution,
    tensors: tuple[np.ndarray, np.ndarray, np.ndarray | None],
    output: np.ndarray | None = None,
) -> np.ndarray:
    """Returns the convolution of an input by a weight, with a bias or None: in a given view, or in a new array."""
    view = np.full(case.output, FILL, tensors[0].dtype) if output is None else output
    with ExitStack() as stack:
        input_, weight, bias, made = (
            None
            if each is None
            else stack.enter_context(acl.tensor(storage_of(each), each, FORMATS.get(each.ndim, Format.ND)))
            for each in (*tensors, view)
        )
        lists = [stack.enter_context(acl.int_array(each)) for each in (case.stride, case.padding, case.dilation)]
        more = stack.enter_context(acl.int_array(case.more))
        handles = [None if each is None else each.handle for each in (input_, weight, bias)]
        acl.run("aclnnConvolution", *handles, *lists, case.transposed, more, case.groups, made.handle, 0)
        return _read(made.read_storage(), view)


def assert_result(
    found: np.ndarray, case: Convolution, tensors: tuple[np.ndarray, np.ndarray, np.ndarray | None], name: object = ""
) -> None:
    """Compares with sums in float64, by the errors of float32 sums and of one rounding."""
    truth, size = (
        _result(case, *[None if each is None else of(each.astype(np.float64)) for each in tensors])
        for of in (np.asarray, np.abs)
    )
    depth = tensors[1].size / case.output[1] + 2
    bound = (np.sqrt(depth) + 4) * 2.0**-23 * size + 2 * ROUNDING[found.dtype.name] * abs(truth) + 1e-7
    wrong = ~(abs(found.astype(np.float64) - truth) <= bound)
    assert not wrong.any(), (name, case, np.argwhere(wrong)[:3], found[wrong][:3], truth[wrong][:3])


def _result(case: Convolution, input_: np.ndarray, weight: np.ndarray, bias: np.ndarray | None) -> np.ndarray:
    other = np.zeros(case.output)
    small, big = (input_, other) if case.transposed else (other, input_)
    of_small, of_big, _ = _every_sum(case, small, big, weight)
    found = of_big if case.transposed else of_small
    return found if bias is None else found + bias.reshape(-1, *[1] * len(case.stride))


def assert_gradients(found: Gradients, case: Convolution, tensors: tuple[np.ndarray, ...], name: object = "") -> None:
    """Compares with sums in float64, by the errors of float32 sums and of one rounding."""
    for result, truth, size in zip(found, *truths(case, tensors), strict=True):
        if result is None:
            continue
        assert result.shape == truth.shape
        depth = sum(each.size for each in tensors) / max(result.size, 1) + 300
        bound = (np.sqrt(depth) + 4) * 2.0**-23 * size + 2 * ROUNDING[result.dtype.name] * abs(truth) + 1e-7
        wrong = ~(abs(result.astype(np.float64) - truth) <= bound)
        assert not wrong.any(), (name, case, np.argwhere(wrong)[:3], result[wrong][:3], truth[wrong][:3])
