"""What the server is to reach, each relative to what somebody would use instead; and the table of what it reached."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

HEADINGS: Final = ("aclgrad", "here", "relative to", "speed", "at least", "goal", "verdict")
ECHO: Final = "a bare gRPC echo"
FRESH_ECHO: Final = "a gRPC echo that writes each reply"
NAIVE: Final = "a naive grpcio and PyTorch server"
CALLS: Final = "the same steps as calls"
LOCAL: Final = "PyTorch here, without a server"
KERNEL: Final = "PyTorch's CPU kernel"


@dataclass(frozen=True, slots=True)
class Goal:
    """`least` is promised and `goal` is aimed at, as ratios of speeds: above 1, aclgrad is faster."""

    what: str
    beside: str
    least: float | None = None
    goal: float | None = None


CALL_1, CALL_4, CALL_16 = (f"call of 16 KB, {at_once} at once" for at_once in (1, 4, 16))
LARGE: Final = "call of 6.4 MB, 4 at once"
TEN_STEPS: Final = "program of ten small steps"
CHAIN: Final = "program of 20 steps of 1 MB"
RESNET: Final = "training step of ResNet-18, 8 images"
GPT2: Final = "training step of GPT-2, 1 x 1024"
CONVOLUTION: Final = "convolution 3x3, gradients"
PRODUCT: Final = "matrix product, 1024 x 1024 x 1024"
ATTENTION: Final = "attention of GPT-2, gradients"
POOLING: Final = "average pooling of 100 MB, gradient"

GOALS: Final = (
    Goal(CALL_1, ECHO, 0.75, 0.8),
    Goal(CALL_1, NAIVE),
    Goal(CALL_4, ECHO, 0.85, 1.0),
    Goal(CALL_4, NAIVE, 1.5),
    Goal(CALL_16, ECHO, 0.95, 1.0),
    Goal(CALL_16, NAIVE, 1.5),
    Goal(LARGE, FRESH_ECHO, 0.95),
    Goal(LARGE, NAIVE, 1.5),
    Goal(TEN_STEPS, CALLS, 2.0),
    Goal(TEN_STEPS, LOCAL),
    Goal(CHAIN, CALLS, 4.0),
    # 2.5 and 1.5 times PyTorch's time.
    Goal(RESNET, LOCAL, 0.4, 0.67),
    Goal(GPT2, LOCAL, 0.4, 0.67),
    Goal(CONVOLUTION, KERNEL, 0.7, 1.0),
    Goal(PRODUCT, KERNEL, 0.7, 0.8),
    Goal(ATTENTION, KERNEL, 0.6, 1.0),
    Goal(POOLING, KERNEL, 3.0),
)


@dataclass(frozen=True, slots=True)
class Found:
    """One ratio, and aclgrad's own figure with its unit."""

    what: str
    beside: str
    here: str
    ratio: float


def verdict(goal: Goal, ratio: float) -> str:
    """Says whether the ratio, as it is shown, reaches the goal or at least keeps what is promised."""
    if goal.least is None:
        return "no promise"
    shown = float(_shown(ratio))
    if math.isnan(shown) or shown < goal.least:
        return "missed"
    return "reached" if goal.goal is not None and shown >= goal.goal else "kept"


def rows(found: Iterable[Found]) -> list[Sequence[str]]:
    """Returns the table's cells in the order of the goals."""
    by_name = {(each.what, each.beside): each for each in found}
    return [
        (
            goal.what,
            each.here,
            goal.beside,
            _shown(each.ratio),
            _bound(goal.least),
            _bound(goal.goal),
            verdict(goal, each.ratio),
        )
        for goal in GOALS
        if (each := by_name.get((goal.what, goal.beside))) is not None
    ]


def _shown(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:.1f}"


def _bound(bound: float | None) -> str:
    return "" if bound is None else f"{bound:g}"
