"""Calls of attention and its gradients on numpy arrays and views, and their results by definition."""

import math
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np

from tools.abi.acl import Format, Library

from .products import FILL, ROUNDING, numbers, storage_of

MASKED = float(np.finfo(np.float32).min)
LANES = 8
EPSILON = 2.0**-23
ALL_TOKENS = 2**31 - 1
TRIANGLE = np.triu(np.ones((2048, 2048), np.bool_), 1)
"""The mask of the causal modes, whatever the number of positions is."""

Tensors = dict[str, np.ndarray]


@dataclass(frozen=True)
class Attention:
    """The sizes of a call and what its masks are shaped like: four letters, 1 where they are broadcast."""

    batches: int
    heads: int
    rows: int
    keys: int
    depth: int
    key_heads: int = 0
    value_depth: int = 0
    layout: str = "BNSD"
    mask: tuple[int, ...] = ()
    bias: tuple[int, ...] = ()
    mode: int = 0
    pse_type: int = 0
    scale: float = 0.0

    @property
    def sharing(self) -> int:
        """How many heads of the query share one of the key."""
        return self.heads // (self.key_heads or self.heads)

    @property
    def factor(self) -> float:
        return self.scale or 1 / math.sqrt(self.depth)

    def shape(self, name: str) -> tuple[int, ...]:
        """Returns the shape of a tensor in the layout."""
        is_of_keys = name in ("key", "value")
        heads = self.heads // self.sharing if is_of_keys else self.heads
        positions = self.keys if is_of_keys else self.rows
        depth = self.depth if name in ("query", "key") else (self.value_depth or self.depth)
        sizes = {"B": self.batches, "N": heads, "S": positions, "D": depth, "H": heads * depth}
        return tuple(sizes[axis] for axis in self.layout)

    def by_head(self, array: np.ndarray, name: str) -> np.ndarray:
        """Returns a tensor of the layout as (B, N, S, D), in float64."""
        wide = array.astype(np.float64)
        if "H" in self.layout:
            heads = self.heads // (self.sharing if name in ("key", "value") else 1)
            wide = wide.reshape(*wide.shape[:2], heads, -1)
        axes = [(self.layout.replace("H", "ND")).index(axis) for axis in "BNSD"]
        return wide.transpose(axes)


def tensors_of(case: Attention, dtype: str = "float32", seed: int = 0) -> Tensors:
    """Returns query, key, value and dy, and mask and bias if the case has any; each row sees its first key."""
    names = ("query", "key", "value", "dy")
    tensors = {name: numbers(seed + number, case.shape(name), dtype) for number, name in enumerate(names)}
    if case.mask:
        tensors["mask"] = np.random.default_rng(seed + 8).uniform(size=case.mask) < 0.3
        tensors["mask"][..., 0] = False
    if case.bias:
        tensors["bias"] = numbers(seed + 9, case.bias, dtype)
    if case.mode in (2, 3):
        tensors["mask"] = TRIANGLE
    return tensors


def values(
    acl: Library, case: Attention, tensors: Tensors, output: np.ndarray | None = None, stream: object = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the largest scores and the sums, eight times each, and the result: in a given view, or a new array."""
    statistic = (case.batches, case.heads, case.rows, LANES)
    result = np.full(case.shape("dy"), FILL, tensors["query"].dtype) if output is None else output
    outputs = [np.full(statistic, FILL, np.float32), np.full(statistic, FILL, np.float32), result]
    with ExitStack() as stack:
        given = _Given(acl, stack)
        made = [given.tensor(each) for each in outputs]
        inputs = [given.handle(tensors.get(name)) for name in ("query", "key", "value", "bias")]
        arguments = [*inputs, None, None, given.handle(tensors.get("mask")), *given.numbers(case)]
        acl.run(
            f"aclnnFlashAttentionScore{'V2' if case.bias else ''}",
            *arguments, made[0].handle, made[1].handle, None, made[2].handle, stream=stream,
        )  # fmt: skip
        largest, sums, result = [_read(*each) for each in zip(made, outputs, strict=True)]
    return largest, sums, result


def gradients(
    acl: Library,
    case: Attention,
    tensors: Tensors,
    passed: tuple[np.ndarray, np.ndarray, np.ndarray],
    outputs: tuple[np.ndarray, ...] | None = None,
    stream: object = None,
) -> tuple[np.ndarray, ...]:
    """Returns the gradients of query, key and value, by the forward pass's statistics and result."""
    operands = ("query", "key", "value")
    made_in = outputs or tuple(np.full(case.shape(name), FILL, tensors["query"].dtype) for name in operands)
    largest, sums, result = passed
    with ExitStack() as stack:
        given = _Given(acl, stack)
        made = [given.tensor(each) for each in made_in]
        inputs = [given.handle(tensors.get(name)) for name in (*operands, "dy", "bias")]
        masks = [None, None, given.handle(tensors.get("mask"))]
        saved = [given.handle(largest), given.handle(sums), None, given.handle(result)]
        acl.run(
            f"aclnnFlashAttentionScoreGrad{'V2' if case.bias else ''}",
            *inputs, *masks, *saved, *given.numbers(case), *(each.handle for each in made), None, stream=stream,
        )  # fmt: skip
        return tuple(_read(*each) for each in zip(made, made_in, strict=True))


class _Given:
    """The arguments of a call, for as long as the stack is open."""

    def __init__(self, acl: Library, stack: ExitStack) -> None:
        self._acl, self._stack = acl, stack

    def tensor(self, view: np.ndarray) -> object:
        return self._stack.enter_context(self._acl.tensor(storage_of(view), view, Format.ND))

    def handle(self, view: np.ndarray | None) -> object:
        return None if view is None else self.tensor(view).handle

    def numbers(self, case: Attention) -> list[object]:
        """Returns the arguments from the prefix to the type of pse; V1 adds the bias before the scale and has none."""
        lists = [self._stack.enter_context(self._acl.int_array(())) for _ in range(3 if case.bias else 1)]
        tokens = (ALL_TOKENS, 0 if case.mode in (2, 3) else ALL_TOKENS)
        more = [case.pse_type] if case.bias else []
        return [*lists, case.factor, 1.0, *tokens, case.heads, case.layout.encode(), 0, case.mode, *more]


def _read(made: object, of: np.ndarray) -> np.ndarray:
    storage = made.read_storage()
    view = np.ndarray(of.shape, of.dtype, storage, of.ctypes.data - storage_of(of).ctypes.data, of.strides)
    found = view.copy()
    view[...] = FILL
    assert (storage == FILL).all()  # nothing outside of the view was written
    return found


def lanes_of(statistic: np.ndarray) -> np.ndarray:
    """Returns (B, N, S) as devices have it, eight times, in memory that holds it once."""
    return np.broadcast_to(statistic[..., None], (*statistic.shape, LANES))


class Truth:
    """The forward pass of a case in float64, and how wrong sums of float32 may be."""

    def __init__(self, case: Attention, tensors: Tensors) -> None:
        self.case = case
        self.query, self.key, self.value, self.dy = (
            case.by_head(tensors[name], name) for name in ("query", "key", "value", "dy")
        )
        self.key, self.value = (np.repeat(each, case.sharing, 1) for each in (self.key, self.value))
        keys = self.key.swapaxes(-1, -2)
        bias = np.float64(0) if "bias" not in tensors else tensors["bias"].astype(np.float64)
        bias = bias * (np.float32(case.factor) if case.pse_type == 1 else 1)
        scores = np.float64(np.float32(case.factor)) * (self.query @ keys) + bias
        sizes = np.float64(np.float32(case.factor)) * (abs(self.query) @ abs(keys)) + abs(bias)
        # Largest error of a score, by the errors of float32 sums.
        self.score_error = (math.sqrt(case.depth) + 4) * EPSILON * np.nan_to_num(sizes, posinf=0.0)
        self.scores = np.where(self.masked(tensors), MASKED, scores)

    def masked(self, tensors: Tensors) -> np.ndarray:
        case = self.case
        if case.mode in (2, 3):
            rows, keys = np.arange(case.rows)[:, None], np.arange(case.keys)
            return keys > rows + (case.keys - case.rows if case.mode == 3 else 0)
        return tensors["mask"].astype(bool) if "mask" in tensors else np.zeros((1, 1), bool)

    def values(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns the largest scores, the sums and the result, as (B, N, S) and (B, N, S, D)."""
        largest = self.scores.max(-1)
        powers = np.exp(self.scores - largest[..., None])
        sums = powers.sum(-1)
        result = powers / sums[..., None] @ self.value
        is_nothing = largest <= MASKED
        sums[is_nothing], result[is_nothing] = -MASKED, 0
        return largest, sums, result

    def shares(self, largest: np.ndarray, sums: np.ndarray) -> np.ndarray:
        """Returns the probabilities by given statistics."""
        return np.exp(self.scores - largest[..., None].astype(np.float64)) / sums[..., None].astype(np.float64)


def assert_values(found: tuple[np.ndarray, ...], case: Attention, tensors: Tensors, name: object = "") -> None:
    truth = Truth(case, tensors)
    largest, sums, result = truth.values()
    for each in found[:2]:
        assert each.shape[-1] == LANES
        assert (each == each[..., :1]).all(), name
    error = truth.score_error.max(-1, initial=0)
    _near(found[0][..., 0], largest, error + EPSILON * abs(largest), ("softmax_max", name, case))
    share_error = 2 * error + 2 * EPSILON * (abs(np.where(largest <= MASKED, 0, largest)) + 4)
    _near(found[1][..., 0], sums, (share_error + 8 * EPSILON) * sums, ("softmax_sum", name, case))
    shares = truth.shares(largest, sums)
    terms = shares @ abs(truth.value)
    relative = share_error[..., None] + (math.sqrt(case.keys) + 8) * EPSILON
    bound = relative * terms + 2 * ROUNDING[found[2].dtype.name] * abs(result) + 1e-7
    _near(case.by_head(found[2], "dy"), result, bound, ("attention_out", name, case))


def assert_gradients(
    found: tuple[np.ndarray, ...],
    case: Attention,
    tensors: Tensors,
    passed: tuple[np.ndarray, np.ndarray, np.ndarray],
    name: object = "",
) -> None:
    """Compares with sums in float64 by the statistics that were given, by the errors of float32 sums and a rounding."""
    truth, factor = Truth(case, tensors), case.factor
    largest, sums = (each[..., 0] for each in passed[:2])
    shares, result = truth.shares(largest, sums), case.by_head(passed[2], "dy")
    values = truth.value.swapaxes(-1, -2)
    products = (truth.dy * result).sum(-1, keepdims=True)
    gradients_ = shares * (truth.dy @ values - products)
    # Errors of each share and of each gradient of a score.
    known = np.where(abs(largest) < -MASKED, abs(largest), 0)[..., None]
    relative = truth.score_error + 2 * EPSILON * (known + 4 + abs(np.where(truth.scores <= MASKED, 0, truth.scores)))
    size = abs(truth.dy) @ abs(values) + abs(truth.dy * result).sum(-1, keepdims=True)
    depth = math.sqrt(truth.value.shape[-1]) + 6
    errors = shares * (relative * abs(truth.dy @ values - products) + depth * EPSILON * size)

    def grouped(of_heads: np.ndarray) -> np.ndarray:
        return of_heads.reshape(case.batches, -1, case.sharing, *of_heads.shape[2:]).sum(2)

    def transposed(array: np.ndarray) -> np.ndarray:
        return array.swapaxes(-1, -2)

    queries, in_keys = math.sqrt(case.keys) + 6, math.sqrt(case.rows * case.sharing) + 6
    parts = {
        "query": (
            factor * (gradients_ @ truth.key),
            factor * ((errors + queries * EPSILON * abs(gradients_)) @ abs(truth.key)),
        ),
        "key": (
            factor * grouped(transposed(gradients_) @ truth.query),
            factor * grouped(transposed(errors + in_keys * EPSILON * abs(gradients_)) @ abs(truth.query)),
        ),
        "value": (
            grouped(transposed(shares) @ truth.dy),
            grouped(transposed(shares * (relative + in_keys * EPSILON)) @ abs(truth.dy)),
        ),
    }
    for array, (part, (exact, error)) in zip(found, parts.items(), strict=True):
        bound = error + 2 * ROUNDING[array.dtype.name] * abs(exact) + 1e-7
        _near(case.by_head(array, part), exact, bound, (part, name, case))


def _near(found: np.ndarray, truth: np.ndarray, bound: np.ndarray, name: object) -> None:
    assert found.shape == truth.shape, name
    wrong = ~(abs(found.astype(np.float64) - truth) <= bound)
    assert not wrong.any(), (name, np.argwhere(wrong)[:3], found[wrong][:3], truth[wrong][:3], bound[wrong][:3])
