"""The tables of docs/scale.md."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from tools.scale import formulas
from tools.scale.figures import (
    CLIENT_RATES,
    FAN_OUTS,
    HOSTS,
    KERNEL_MS,
    LOADS,
    RATES,
    SLOWNESS,
    TARGET,
)
from tools.scale.simulation import Fleet, fleet, mean_wait, seconds_until_refused

PAGE: Final = Path(__file__).parents[2] / "docs/scale.md"
BEGIN, END = "<!-- scale {}: written by `make scale` -->", "<!-- end of scale -->"
UTILISATIONS: Final = (0.5, 0.6, 0.7, 0.8, 0.9)
POOL: Final = 4
QUEUE: Final = 68
"""Calls that run or wait on a server by default; here they run one at a time."""
SEED: Final = 1
_WAITS, _CALLS = 100_000, 300_000
_THIRD: Final = 1 / 3

Rows = Sequence[Sequence[str]]


def planning() -> Rows:
    """Cores, bandwidth and hosts for a rate of gradients, and cards."""
    head = ["gradients/s", *(load.name for load in LOADS), f"cards, kernels of {KERNEL_MS:g} ms"]
    return [head, *([f"{rate:,}", *_cells(rate), str(formulas.cards(rate, KERNEL_MS))] for rate in RATES)]


def _cells(rate: int) -> list[str]:
    return [
        f"{_rounded(formulas.cores(rate, load))}, {_rounded(formulas.gbit_s(rate, load))}, "
        f"**{formulas.hosts(rate, load)}**"
        for load in LOADS
    ]


def waits() -> Rows:
    """Mean waits by utilisation, each by its formula and by simulation."""
    found: list[list[str]] = [
        ["utilisation", "one card, equal kernels", "one card, mixed kernels", f"{POOL} cards, one queue"]
    ]
    for load in UTILISATIONS:
        pairs = (
            (formulas.wait_of_one(load, 0.0), mean_wait(1, load, _WAITS, SEED, is_steady=True)),
            (formulas.wait_of_one(load, 1.0), mean_wait(1, load, _WAITS, SEED)),
            (formulas.wait_of_several(POOL, load), mean_wait(POOL, load, _WAITS, SEED)),
        )
        found.append([f"{_percent(load)}", *(f"{formula:.2f} ({simulated:.2f})" for formula, simulated in pairs)])
    return found


@cache
def _fleet(slowness: float, *, weighted: bool) -> Fleet:
    return fleet(HOSTS, slowness, TARGET, _CALLS, QUEUE, SEED, weighted=weighted)


def slow_host() -> Rows:
    """What one slow host of many does to steps that wait for several calls."""
    sound, even, weighted = _fleet(1, weighted=False), _fleet(SLOWNESS, weighted=False), _fleet(SLOWNESS, weighted=True)
    shares = formulas.even_share(HOSTS), formulas.weighted_share(HOSTS, SLOWNESS)
    found: list[list[str]] = [
        ["calls of a step", "meet it, even", "meet it, weights", "p99 without it", "p99, even", "p99, weights"]
    ]
    for calls in FAN_OUTS:
        _, p99 = sound.steps(calls, SEED)
        steps = [each.steps(calls, SEED) for each in (even, weighted)]
        met = [
            f"{_percent(formulas.met_by(calls, share), 2)} ({_percent(seen, 1)})"
            for share, (seen, _) in zip(shares, steps, strict=True)
        ]
        found.append([f"{calls:,}", *met, *(f"{time:.0f}" for time in (p99, *(time for _, time in steps)))])
    return found


def retries() -> Rows:
    """How long the retry budget of a client lasts while a third of its attempts fails."""
    found = [["calls/s of a client", "retries a minute", "of its calls", "budget lasts"]]
    for rate in CLIENT_RATES:
        allowed = formulas.budget(rate)
        seconds, simulated = formulas.seconds_of_budget(rate, _THIRD), seconds_until_refused(rate, _THIRD, 60, SEED)
        lasts = "always" if simulated is None else f"{simulated:.0f} s"
        told = "always" if seconds > 60 else f"{seconds:.0f} s"
        found.append(
            [f"{rate:,}", f"{allowed:,.0f}", f"{_percent(min(1.0, allowed / (60 * rate)))}", f"{told} ({lasts})"]
        )
    return found


def loss() -> Rows:
    """The utilisation of what is left when a share of the servers is down and clients spend all of their retries."""
    found = [["planned utilisation", "1 of 10 down", "1 of 4", "1 of 3", "1 of 2"]]
    for load in UTILISATIONS[:3]:
        left = [formulas.load_after_loss(load, lost) for lost in (0.1, 0.25, _THIRD, 0.5)]
        found.append([f"{_percent(load)}", *(f"{_percent(each)}" for each in left)])
    return found


TABLES: Final[Mapping[str, Callable[[], Rows]]] = {
    "planning": planning,
    "waits": waits,
    "loss": loss,
    "slow host": slow_host,
    "retries": retries,
}


def markdown(rows: Rows) -> str:
    """Returns a table, the first column aligned to the left and the others to the right."""
    head, *body = rows
    lines = [head, ["---", *("--:" for _ in head[1:])], *body]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def written(text: str) -> str:
    """Returns the page with all of its tables made anew; raises ValueError if it lacks one."""
    for name, make in TABLES.items():
        begin = BEGIN.format(name)
        pattern = re.compile(re.escape(begin) + r"\n.*?" + re.escape(END), re.DOTALL)
        if len(pattern.findall(text)) != 1:
            raise ValueError(f"{PAGE} has no place for the table {name}: {begin} and {END}")
        text = pattern.sub(lambda _, begin=begin, make=make: f"{begin}\n{markdown(make())}{END}", text)
    return text


def _percent(value: float, digits: int = 0) -> str:
    return f"{100 * value:.{digits}f} %"


def _rounded(value: float) -> str:
    """Returns two significant digits, with at most one decimal."""
    if value < 1:
        return f"{value:.1f}" if value >= 0.1 else "<0.1"
    digits = len(str(int(value)))
    return f"{round(value, 2 - digits):,.0f}" if digits > 1 else f"{value:.1f}"
