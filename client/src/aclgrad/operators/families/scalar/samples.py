"""Calls of functions of a tensor and a number: a row for each operator."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from aclgrad.operators.families.unary.samples import value_samples
from aclgrad.operators.samples import Samples


def _scaled(name: str) -> Any:
    def compute(input: Any, **given: Any) -> Any:
        import torch

        return getattr(torch, name)(input, *given.values()) if len(given) == 1 else torch.add(input, **given)

    return compute


def _clamp(input: Any, clip_value_min: Any = None, clip_value_max: Any = None) -> Any:
    import torch

    return torch.clamp(input, clip_value_min, clip_value_max)


def _small(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.asarray(values % 17 - 8 if values.dtype.kind in "iu" else values)


def _positive(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.asarray(values % 9 + 1 if values.dtype.kind in "iu" else np.abs(values) + 0.25)


def _halves(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.asarray(values % 5 if values.dtype.kind in "iu" else np.round(values * 2) / 2)


def _comparison(name: str) -> Samples:
    return value_samples(_scaled(name), attributes={"two": {"other": 2}, "below": {"other": -1}}, value=_halves)


SAMPLES: Final[Mapping[str, Samples]] = {
    "adds": value_samples(
        _scaled("add"),
        attributes={"quarter": {"other": 0.25}, "integer": {"other": 3, "alpha": -2}, "tenth": {"other": 0.1}},
    ),
    "muls": value_samples(
        _scaled("mul"), attributes={"tenth": {"other": 0.1}, "integer": {"other": -3}, "bool": {"other": True}}
    ),
    "divs": value_samples(_scaled("div"), attributes={"third": {"other": 3}, "tenth": {"other": 0.1}}),
    "pow_tensor_scalar": value_samples(
        _scaled("pow"),
        attributes={
            "square": {"exponent": 2},
            "cube": {"exponent": 3.0},
            "root": {"exponent": 0.5},
            "over_root": {"exponent": -0.5},
            "tenths": {"exponent": 1.3},
        },
        value=_positive,
    ),
    "clamp": value_samples(
        _clamp,
        attributes={
            "both": {"clip_value_min": -1, "clip_value_max": 1},
            "above": {"clip_value_min": 0},
            "below": {"clip_value_max": 1},
            "crossed": {"clip_value_min": 1, "clip_value_max": -1},
        },
    ),
    "gt_scalar": _comparison("gt"),
    "ge_scalar": _comparison("ge"),
    "lt_scalar": _comparison("lt"),
    "le_scalar": _comparison("le"),
    "eq_scalar": _comparison("eq"),
}
