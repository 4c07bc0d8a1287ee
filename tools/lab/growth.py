"""How fast each figure grows while a process lives, and whether that is too fast.

The slope is Theil-Sen's: the median of the slopes between all pairs of samples, here weighted by the time between them,
so that outliers and saw-teeth hardly move it. Both samples of a pair are of one life of a process, after its warm-up:
what a restart adds or takes away is no slope. Processes of one kind share a slope, because they run the same program.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

Numbers = np.ndarray[Any, np.dtype[np.float64]]

LEAST_SAMPLES: Final = 8
"""Of a life after its warm-up; shorter ones say nothing."""
SETTLED_S: Final = 150.0
"""A warm-up of this length has filled heaps, pools and caches."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One figure of one process, at one moment of a run."""

    seconds: float
    subject: str
    """The kind of process."""
    life: str
    """One process from its start to its end; of a latency, what its calls met: clients outlive what they call."""
    figure: str
    value: float


@dataclass(frozen=True, slots=True)
class Limit:
    """A figure grows too fast if both are exceeded: the slope, and the rise over the longest life.

    A rise below `rise` is noise. Before a process has settled it may rise by `settling_rise`. Relative ones are shares
    of the median of a life.
    """

    unit: str
    per_hour: float
    rise: float
    settling_rise: float
    is_relative: bool = False


LIMITS: Final[Mapping[str, Limit]] = {
    "RSS": Limit("MiB", 12.0, 12.0, 40.0),
    "PSS": Limit("MiB", 12.0, 12.0, 40.0),
    "files": Limit("", 8.0, 4.0, 16.0),
    "threads": Limit("", 8.0, 4.0, 16.0),
    "connections": Limit("", 8.0, 4.0, 16.0),
    "pool": Limit("MiB", 12.0, 12.0, 40.0),
    "shared memory": Limit("MiB", 12.0, 12.0, 40.0),
    "p50": Limit("of it", 0.3, 0.3, 3.0, is_relative=True),
    "p99": Limit("of it", 0.6, 0.6, 6.0, is_relative=True),
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """The growth of one figure of one kind of process."""

    subject: str
    figure: str
    lives: int
    samples: int
    median: float
    per_hour: float
    rise: float
    """Over the longest life, as the slope has it."""
    most_rise: float
    problem: str
    """Empty if the figure keeps its limit."""


def judge(samples: Sequence[Sample], warm_up_s: float, limits: Mapping[str, Limit] = LIMITS) -> list[Verdict]:
    """Returns a verdict for each figure of each kind of process, in the order of their first samples."""
    series: dict[tuple[str, str], dict[str, list[tuple[float, float]]]] = {}
    for each in samples:
        lives = series.setdefault((each.subject, each.figure), {})
        lives.setdefault(each.life, []).append((each.seconds, each.value))
    is_settled = warm_up_s >= SETTLED_S
    return [
        _verdict(subject, figure, _warm(lives.values(), warm_up_s), limits[figure], is_settled)
        for (subject, figure), lives in series.items()
    ]


def _warm(lives: Any, warm_up_s: float) -> list[Numbers]:
    """Returns what follows the warm-up of each life that lasted long enough."""
    whole = (np.array(life, np.float64) for life in lives)
    warm = (life[life[:, 0] >= life[0, 0] + warm_up_s] for life in whole)
    return [life for life in warm if len(life) >= LEAST_SAMPLES]


def _verdict(subject: str, figure: str, lives: list[Numbers], limit: Limit, is_settled: bool) -> Verdict:
    most_rise = limit.rise if is_settled else limit.settling_rise
    if not lives:
        # A run that is too short to settle sees some processes for a moment only.
        problem = "no life lasted long enough to be judged" if is_settled else ""
        return Verdict(subject, figure, 0, 0, math.nan, math.nan, math.nan, most_rise, problem)
    values = np.concatenate([life[:, 1] for life in lives])
    median = float(np.median(values))
    if limit.is_relative:
        lives = [np.stack([life[:, 0], life[:, 1] / np.median(life[:, 1])], axis=1) for life in lives]
    per_s = slope(lives)
    rise = per_s * max(float(np.ptp(life[:, 0])) for life in lives)
    per_hour = 3600 * per_s
    # Written so that a NaN is a problem.
    is_kept = per_hour <= limit.per_hour or rise <= most_rise
    problem = "" if is_kept else f"more than {limit.per_hour:g} an hour, and {most_rise:g} in a life"
    return Verdict(subject, figure, len(lives), len(values), median, per_hour, rise, most_rise, problem)


def slope(lives: Sequence[Numbers]) -> float:
    """Returns the weighted median of the slopes between the samples of each life, in units per second."""
    slopes, weights = [], []
    for life in lives:
        first, second = np.triu_indices(len(life), 1)
        seconds = life[second, 0] - life[first, 0]
        slopes.append((life[second, 1] - life[first, 1]) / seconds)
        weights.append(seconds)
    all_slopes, all_weights = np.concatenate(slopes), np.concatenate(weights)
    order = np.argsort(all_slopes)
    # NaNs come last in that order, where they could hide.
    if np.isnan(all_slopes).any():
        return math.nan
    sums = np.cumsum(all_weights[order])
    return float(all_slopes[order][np.searchsorted(sums, sums[-1] / 2)])
