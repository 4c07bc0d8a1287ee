"""Whether a server withstood an attack: the limits that what was measured keeps or breaks."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from tools.lab.hostile.catalogue import Attack
from tools.lab.hostile.measure import Measured
from tools.lab.usage import Usage

HEALTH: Final = ("live", "ready")
OFTEN: Final = ("call", *HEALTH)
ERROR_LETTERS: Final = 40
MEMORY_REFUSAL: Final = re.compile(r"RESOURCE_EXHAUSTED: the server is short of memory; try again in [\d.]+ s")
"""The error that a server at its limit of memory answers with. Clients that retry get their answer a little later."""

OTHER_PERCENT: Final = 75
"""Of questions that are asked seldom, so many are answered in time."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the bystander and the machine may suffer."""

    percent: float
    """Of small calls, and of questions for health, that are answered in time."""
    answer_ms: float
    """What is in time."""
    peak: Usage
    """Beyond what the server used at rest; an attacker's own connections come on top of the files."""
    kept: Usage
    loop_ms: float = math.inf
    refused_percent: float = 0
    """Of each kind of question, so many percent, rounded up, may be refused for memory."""
    proves_strength: bool = True
    """Whether an attacker has to reach what its row says."""


LONG: Final = Limits(
    percent=99,
    answer_ms=500,
    peak=Usage(512, files=64, threads=64),
    kept=Usage(200, files=16, threads=32),
    loop_ms=50,
)
SHORT: Final = Limits(
    percent=75,
    answer_ms=800,
    peak=Usage(768, files=64, threads=64),
    kept=Usage(400, files=16, threads=32),
    # The attacks share a server, which may still hold memory of the last one.
    refused_percent=10,
    proves_strength=False,
)
"""What holds on a busy machine, too. A server that answers when the attack is over breaks it."""


def judge(attack: Attack, found: Measured, limits: Limits) -> list[str]:
    """Returns what the server broke; nothing if it withstood."""
    problems = [*found.problems, *_unanswered(attack, found, limits)]
    counted, least = attack.least
    # A server that takes less than the attacker has to give is a server that defends itself.
    is_weak = found.reached.get(counted, 0) < least and not found.reached.get("held_up")
    if limits.proves_strength and is_weak:
        problems.append(f"weak attack: {counted} {found.reached.get(counted, 0)} of {least}")
    if found.loop_ms > limits.loop_ms:
        problems.append(f"loop held {found.loop_ms:.0f} ms")
    peak = replace(limits.peak, files=limits.peak.files + attack.files)
    problems += [f"grew by {each}" for each in found.grown.over(peak)]
    problems += [f"keeps {each}" for each in found.kept.over(limits.kept)]
    if "Traceback" in found.log:
        problems.append("traceback in the log")
    return problems


def _unanswered(attack: Attack, found: Measured, limits: Limits) -> Iterator[str]:
    """Yields a line for each kind of question that was not answered, or not in time."""
    for name, each in found.latencies.items():
        if name in attack.forgives:
            continue
        count, errors = len(each.ordered_ms), each.errors
        refused = [error for error in errors if MEMORY_REFUSAL.fullmatch(error)]
        # One if so few are asked that the share is less than one.
        if len(refused) <= math.ceil(count * limits.refused_percent / 100):
            errors = tuple(error for error in errors if error not in refused)
        percent = limits.percent if name in OFTEN else OTHER_PERCENT
        bound_ms = max(limits.answer_ms, attack.call_ms if name == "call" else 0)
        if not count:
            yield f"{name}: never asked"
        elif errors:
            yield f"{name}: {len(errors)} of {count} unanswered ({errors[0][:ERROR_LETTERS]})"
        elif (late_ms := each.ms(percent)) > bound_ms:
            yield f"{name}: p{percent:.0f} {late_ms:.0f} ms"
