"""Whether a server withstood an attack: figures of what was measured, and the limits that they keep or break."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tools.lab.hostile.bystander import Samples
from tools.lab.hostile.catalogue import Attack
from tools.lab.hostile.measure import Measured
from tools.lab.usage import Usage

HEALTH: Final = ("live", "ready")
OFTEN: Final = ("call", *HEALTH)
ERROR_LETTERS: Final = 40
LOG_LETTERS: Final = 8000
HELD: Final = re.compile(r"loop held\D*([\d.]+) ms(?:, ([\d.]+) ms of it on the CPU)?")
"""A line of the server's alarm. On a busy machine, only time on the CPU says what the callback itself took."""

MEMORY_REFUSAL: Final = re.compile(r"RESOURCE_EXHAUSTED: the server is short of memory; try again in [\d.]+ s")
"""The error that a server at its limit of memory answers with. Clients that retry get their answer a little later."""

OTHER_PERCENT: Final = 75
OTHER_MS: Final = 500.0
"""Of questions that are asked seldom, so many percent are answered in this time."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the bystander and the machine may suffer."""

    percent: float
    """Of small calls, and of questions for health, that are answered in time."""
    peak: Usage
    """Beyond what the server used at rest; an attacker's own connections come on top of the files."""
    kept: Usage
    loop_ms: float = math.inf
    refused_percent: float = 0
    """Of each kind of question, so many percent, rounded up, may be refused for memory."""
    proves_strength: bool = True
    """Whether an attacker has to reach what its row says."""


LONG: Final = Limits(
    percent=99, peak=Usage(512, files=64, threads=64), kept=Usage(200, files=16, threads=32), loop_ms=50
)
SHORT: Final = Limits(
    percent=75,
    peak=Usage(768, files=64, threads=64),
    kept=Usage(400, files=16, threads=32),
    # The attacks share a server, which may still hold memory of the last one.
    refused_percent=10,
    proves_strength=False,
)
"""What holds on a busy machine, too. A server that answers when the attack is over breaks it."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What one kind of question met, in milliseconds from when it was due; one that failed counts until its failure."""

    count: int
    failed: int
    p50_ms: float
    p99_ms: float
    max_ms: float
    error: str

    @classmethod
    def of(cls, samples: Sequence[tuple[float, float, str]]) -> "Figures":
        times = times_of(samples)
        errors = [error for _, _, error in samples if error]
        first = errors[0] if errors else ""
        return cls(len(times), len(errors), percentile(times, 50), percentile(times, 99), percentile(times, 100), first)


def times_of(samples: Sequence[tuple[float, float, str]]) -> list[float]:
    """Returns the milliseconds in order."""
    return sorted(1e3 * seconds for _, seconds, _ in samples)


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Returns the smallest value that so many percent of the values do not exceed."""
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)] if ordered else math.nan


@dataclass(frozen=True, slots=True)
class Verdict:
    """One line of the report."""

    name: str
    about: str
    reached: dict[str, int]
    figures: dict[str, Figures]
    grown: Usage
    kept: Usage
    loop_ms: float
    problems: tuple[str, ...]
    load: float
    log: str = ""
    """The end of the warnings and errors that the server logged meanwhile, if there are problems."""

    @property
    def withstood(self) -> bool:
        return not self.problems


def judge(name: str, attack: Attack, found: Measured, limits: Limits) -> Verdict:
    figures = {name: Figures.of(samples) for name, samples in found.samples.items()}
    grown, kept = found.peak.beyond(found.rest), found.after.beyond(found.rest)
    loop_ms = max((float(cpu or wall) for wall, cpu in HELD.findall(found.log)), default=0.0)
    problems = [*found.problems, *_unanswered(attack, found.samples, limits)]
    counted, least = attack.least
    # A server that takes less than the attacker has to give is a server that defends itself.
    is_weak = found.reached.get(counted, 0) < least and not found.reached.get("held_up")
    if limits.proves_strength and is_weak:
        problems.append(f"weak attack: {counted} {found.reached.get(counted, 0)} of {least}")
    if loop_ms > limits.loop_ms:
        problems.append(f"loop held {loop_ms:.0f} ms")
    problems += [f"grew by {each}" for each in grown.over(replace(limits.peak, files=limits.peak.files + attack.files))]
    problems += [f"keeps {each}" for each in kept.over(limits.kept)]
    if "Traceback" in found.log:
        problems.append("traceback in the log")
    warnings = "".join(line for line in found.log.splitlines(keepends=True) if " INFO " not in line)
    log = warnings[-LOG_LETTERS:] if problems else ""
    return Verdict(
        name,
        attack.about,
        found.reached,
        figures,
        grown,
        kept,
        loop_ms,
        tuple(problems),
        found.load,
        log,
    )


def _unanswered(attack: Attack, samples: Samples, limits: Limits) -> Iterator[str]:
    """Yields a line for each kind of question that was not answered, or not in time."""
    for name, each in samples.items():
        if name in attack.forgives:
            continue
        errors = [error for _, _, error in each if error]
        refused = [error for error in errors if MEMORY_REFUSAL.fullmatch(error)]
        # One if so few are asked that the share is less than one.
        if len(refused) <= math.ceil(len(each) * limits.refused_percent / 100):
            errors = [error for error in errors if error not in refused]
        percent = limits.percent if name in OFTEN else OTHER_PERCENT
        bound_ms = attack.call_ms if name == "call" else OTHER_MS
        late_ms = percentile(times_of(each), percent)
        if not each:
            yield f"{name}: never asked"
        elif errors:
            yield f"{name}: {len(errors)} of {len(each)} unanswered ({errors[0][:ERROR_LETTERS]})"
        elif late_ms > bound_ms:
            yield f"{name}: p{percent:.0f} {late_ms:.0f} ms"
