"""Rows of acc_check's details CSV: a device's gradient compared with its reference, by mindstudio-probe 26's formulas.

b is an element of the reference and d the device's. Formulas and limits are those of msprobe's
pytorch/api_accuracy_checker; its documents state others in places.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]
Figures = dict[str, float]

TITLE: Final = (
    *("API Name", "Bench Dtype", "DEVICE Dtype", "Shape", "余弦相似度", "最大绝对误差", "双百指标", "双千指标"),
    *("双万指标", "二进制一致错误率", "误差均衡性", "均方根误差", "小值域错误占比", "相对误差最大值", "相对误差平均值"),
    *("inf/nan错误率", "相对误差错误率", "绝对误差错误率", "ULP误差最大值", "ULP误差平均值", "ULP误差大于阈值占比"),
    *("Status", "Message"),
)
"""The columns of the details CSV in order; unfilled cells hold one space."""
SPACE: Final = " "
"""msprobe's text of an empty cell; its reader takes no other."""


class Status(StrEnum):
    """The status of a row, or of an API."""

    PASS = "pass"
    WARNING = "warning"
    ERROR = "error"
    SKIP = "SKIP"


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the details CSV, without the name. `types` are the dtypes of reference and device and the shape."""

    status: Status
    message: str
    types: tuple[str, str, str] = (SPACE, SPACE, SPACE)
    figures: Mapping[str, float] = field(default_factory=dict)
    """Figures by the names of their columns. Those of halves are float32, like msprobe's, and are written so."""

    def cells(self, name: str) -> list[str]:
        """Returns the 23 cells of the row; `name` is, for example, "Functional.pad.0.backward.output.0"."""
        figures = (_text(self.figures[column]) if column in self.figures else SPACE for column in TITLE[4:-2])
        return [name, *self.types, *figures, self.status, self.message[:_LONGEST_MESSAGE]]


_LONGEST_MESSAGE: Final = 1000
"""Most characters of a message, which may quote an error of any length."""


def _text(value: float) -> str:
    return f"{value:.14f}" if isinstance(value, float) else str(value)


def skipped(message: str) -> Row:
    """Returns the row of a gradient that was not compared."""
    return Row(Status.SKIP, message)


def reference_dtype(dtype: str) -> np.dtype[Any]:
    """Returns the dtype in which acc_check computes the reference of a device's `dtype`."""
    return np.dtype(_REFERENCES.get(dtype, dtype))


def row(truth: Array, device: Array, dtype: str) -> Row:
    """Compares the device's gradient of `dtype` with its reference of `reference_dtype(dtype)`.

    Both have the same shape, or the row is an error. A bfloat16 gradient comes as ml_dtypes' or widened to float32.
    二进制一致错误率, the share of elements that differ from the reference in the device's dtype, is filled in every
    row: msprobe up to 8.3 judges `pad` by it.
    """
    types = (f"torch.{truth.dtype}", f"torch.{dtype}", str(tuple(map(int, device.shape))))
    status, message, figures = _compared(truth, device.astype(np.float32) if dtype == "bfloat16" else device, dtype)
    return Row(status, message, types, figures)


def _compared(truth: Array, device: Array, dtype: str) -> tuple[Status, str, Figures]:
    if truth.shape != device.shape:
        return Status.ERROR, f"The reference has the shape {truth.shape}, the device's gradient {device.shape}.", {}
    if truth.size == 0:
        return Status.SKIP, "The gradient has no elements.", {}
    unequal = {"二进制一致错误率": _unequal(truth, device, dtype)}
    if truth.dtype.kind == "c":
        return Status.SKIP, "acc_check does not compare complex gradients.", unequal
    if truth.dtype.kind != "f":
        status = Status.ERROR if any(unequal.values()) else Status.PASS
        return status, f"Elements of {dtype} have to be equal.", unequal
    with np.errstate(all="ignore"):
        pair = _Pair.of(truth, device, dtype)
        status, message, figures = _judged(pair)
        return status, message, unequal | _benchmark(pair) | figures


def _unequal(truth: Array, device: Array, dtype: str) -> float:
    with np.errstate(all="ignore"):
        rounded = truth.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else device.dtype).astype(device.dtype)
    return int((rounded != device).sum()) / truth.size


@dataclass(frozen=True, slots=True)
class _Pair:
    """A reference and a gradient of the same shape, with shared intermediate values of several figures."""

    truth: Array
    device: Array
    dtype: str
    error: Array
    """|d - b|"""
    relative: Array
    """|d - b| / (|b| + eps)"""
    broken: Array
    """Where either is not finite in the device's dtype."""
    small: Array
    """Where b is so small that only the absolute error counts."""

    @classmethod
    def of(cls, truth: Array, device: Array, dtype: str) -> "_Pair":
        error, magnitude = np.abs(device - truth), np.abs(truth)
        epsilon = 2**-8 if dtype == "bfloat16" else np.finfo(truth.dtype).eps
        broken = ~(np.isfinite(device) & np.isfinite(truth.astype(device.dtype)))
        small = (magnitude <= _SMALL.get(dtype, 0.0)) & ~broken
        return cls(truth, device, dtype, error, error / (magnitude + epsilon), broken, small)


_REFERENCES: Final = {"float16": "float32", "bfloat16": "float32", "float32": "float64"}
_SMALL: Final = {"float16": 2**-10, "bfloat16": 2**-10, "float32": 2**-20}
_SMALL_ERROR: Final = {"float16": 1e-16, "bfloat16": 1e-16, "float32": 2**-30}


def _benchmark(pair: _Pair) -> Figures:
    """Returns the figures that api_precision_compare compares with the GPU's; msprobe has none for float64."""
    if pair.dtype not in _SMALL:
        return {}
    largest, mean = _relative_errors(pair)
    return {
        "误差均衡性": _imbalance(pair),
        "均方根误差": _root_mean_square(pair),
        "小值域错误占比": _small_errors(pair),
        "相对误差最大值": largest,
        "相对误差平均值": mean,
    }


def _imbalance(pair: _Pair) -> float:
    """Returns |#(d > b) - #(d < b)| / N, with b in the device's dtype."""
    truth = pair.truth.astype(pair.device.dtype)
    return abs(int((pair.device > truth).sum()) - int((pair.device < truth).sum())) / truth.size


def _root_mean_square(pair: _Pair) -> float:
    """Returns sqrt(mean(e²) * (N / (N - masked + 0.0001) + 0.0001)), where masked errors count as 0."""
    masked = pair.broken | pair.small
    square: Any = np.mean(np.square(np.where(masked, 0, pair.error)))
    root: float = np.sqrt(square * (masked.size / (masked.size - masked.sum() + 0.0001) + 0.0001))
    return root


def _small_errors(pair: _Pair) -> float:
    """Returns the share of small elements whose error is not small; the integer 0 if there are none, like msprobe."""
    if not pair.small.any():
        return 0
    share: float = (pair.small & (pair.error > _SMALL_ERROR[pair.dtype])).sum() / pair.small.sum()
    return share


def _relative_errors(pair: _Pair) -> tuple[float, float]:
    """Returns the largest and the mean relative error of the finite elements that are not small."""
    relative = pair.relative[~(pair.broken | pair.small)]
    return (relative.max(), relative.mean()) if relative.size else (0, 0)


def _judged(pair: _Pair) -> tuple[Status, str, Figures]:
    """Returns acc_check's own status: the first rule that applies decides, and later columns stay empty."""
    cosine, direction, note = _direction(pair)
    figures: Figures = {} if cosine is None else {"余弦相似度": cosine}
    if direction is Status.ERROR:
        return direction, note, figures
    figures["最大绝对误差"] = worst = pair.error.max()
    if worst < 0.001:
        passed = "No error reaches 0.001, which passes whatever the size of the gradient."
        return Status.PASS, f"{note}{passed}", figures
    status, message, shares = _relative_status(pair)
    return status, f"{note}{message}", figures | shares


def _direction(pair: _Pair) -> tuple[float | None, Status, str]:
    """Returns the cosine of the angle between device and reference, its status, and a note if it has no meaning."""
    if pair.truth.size == 1:
        return None, Status.PASS, "One element has no direction. "
    largest = np.abs(pair.device).max(), np.abs(pair.truth).max()
    device_is_zero, truth_is_zero = (each <= np.finfo(np.float64).eps for each in largest)
    if device_is_zero and truth_is_zero:
        return None, Status.PASS, "Both gradients are 0. "
    if device_is_zero or truth_is_zero:
        zero, other = ("device", "reference") if device_is_zero else ("reference", "device")
        return None, Status.ERROR, f"The {zero}'s gradient is 0, the {other}'s is not.{_noise(pair)}"
    device, truth = (np.ravel(a).astype(float) / top for a, top in zip((pair.device, pair.truth), largest, strict=True))
    cosine = float(np.clip(np.dot(device, truth) / (np.linalg.norm(device) * np.linalg.norm(truth)), -1, 1))
    if np.isnan(cosine):
        return cosine, Status.PASS, "Elements that are not finite leave no direction to compare. "
    if cosine > 0.99:
        return cosine, Status.PASS, ""
    return cosine, Status.ERROR, f"The cosine similarity is not above 0.99.{_noise(pair)}"


def _noise(pair: _Pair) -> str:
    """Returns a warning about gradients that are mathematically 0, of which acc_check compares rounding errors."""
    if not pair.small.all() or np.abs(pair.device).max() > _SMALL.get(pair.dtype, 0.0):
        return ""
    return " Gradients this small may be 0 but for rounding: then their directions mean nothing."


def _relative_status(pair: _Pair) -> tuple[Status, str, Figures]:
    """Returns the status by the shares of elements whose relative errors are below two limits, coarse and fine."""
    halves = pair.dtype in ("float16", "bfloat16")
    (first, coarse), (second, fine) = _SHARES[:2] if halves else _SHARES[1:]
    below = {name: (pair.relative < limit).sum() / pair.relative.size for name, limit in _SHARES}
    if not below[first] > 1 - coarse:
        # For halves msprobe stops here, so the second column stays empty.
        names = (first,) if halves else (first, second)
        message = f"Relative errors of {coarse:g} and more are too many."
        return Status.ERROR, message, {name: below[name] for name in names}
    if below[second] > 1 - fine:
        return Status.PASS, f"Relative errors of {fine:g} and more are rare.", {n: below[n] for n in (first, second)}
    message = f"Relative errors of {fine:g} and more are many, but those of {coarse:g} rare."
    return Status.WARNING, message, {name: below[name] for name in (first, second)}


_SHARES: Final = (("双百指标", 1e-2), ("双千指标", 1e-3), ("双万指标", 1e-4))
