"""Attacks servers beside an honest client, and judges its service and what the servers take of the machine."""

import argparse
import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Final

from tools.lab.hostile.catalogue import ATTACKS, SECONDS, SHORT_SECONDS
from tools.lab.hostile.judgement import HEALTH, LONG, SHORT, Verdict, judge
from tools.lab.hostile.measure import Child, measure
from tools.lab.hostile.server import Servers

FOLDER: Final = Path("build/hostile")
COLUMNS: Final = (
    *("attack", "sent", "call p50/p99/max ms", "health p99/max", "check p99", "chunked p99"),
    *("+MB", "kept", "+files", "kept", "+threads", "kept", "loop ms", "load"),
)
WIDTHS: Final = (20, 20, 22, 16, 10, 12, 5, 5, 7, 5, 9, 5, 8, 5)
SENT: Final = ("resets_per_s", "frames", "calls", "stopped", "connected")
"""What an attacker counts, the most telling first."""


def run(names: Sequence[str], is_short: bool) -> Iterator[Verdict]:
    """Yields what came of each attack; without names, of all that belong to the form."""
    limits, seconds = (SHORT, SHORT_SECONDS) if is_short else (LONG, SECONDS)
    chosen = names or [name for name, attack in ATTACKS.items() if attack.in_short or not is_short]
    # In the short form, an attacker prepares while the one before attacks.
    ahead = 1 if is_short else 0
    servers = Servers(reuses=is_short)
    with Child("bystander") as bystander, ExitStack() as stack:
        stack.callback(servers.end)
        started: list[Child] = []
        for number, name in enumerate(chosen):
            for each in chosen[len(started) : number + 1 + ahead]:
                started.append(stack.enter_context(Child("attacker", each)))
            server = servers.get(ATTACKS[name].has_tls)
            measured = measure(started[number], server, bystander, seconds, limits.kept)
            verdict = judge(name, ATTACKS[name], measured, limits)
            if not verdict.withstood:
                servers.end()
            yield verdict


def line(cells: Sequence[str]) -> str:
    padded = [cell.ljust(width) for cell, width in zip(cells, WIDTHS, strict=False)]
    return " ".join((*padded, cells[-1]))


def cells_of(verdict: Verdict) -> Iterator[str]:
    yield verdict.name
    yield next((f"{verdict.reached[name]} {name}" for name in SENT if name in verdict.reached), "-")
    call, health = verdict.figures["call"], [verdict.figures[name] for name in HEALTH]
    yield f"{call.p50_ms:.1f} / {call.p99_ms:.0f} / {call.max_ms:.0f}"
    yield f"{max(each.p99_ms for each in health):.0f} / {max(each.max_ms for each in health):.0f}"
    yield from (f"{verdict.figures[name].p99_ms:.0f}" for name in ("check", "chunked"))
    grown, kept = verdict.grown, verdict.kept
    yield from (f"{grown.mb:.0f}", f"{kept.mb:.0f}", f"{grown.files}", f"{kept.files}", f"{grown.threads}")
    yield from (f"{kept.threads}", f"{verdict.loop_ms:.0f}", f"{verdict.load:.1f}")
    yield "withstood" if verdict.withstood else "; ".join(verdict.problems)


def main(parser: argparse.ArgumentParser, words: Sequence[str]) -> int:
    parser.add_argument("names", nargs="*", metavar="NAME", help="attacks; all of the form by default")
    parser.add_argument("--short", action="store_true", help="less of each, and no judgement of times")
    arguments = parser.parse_args(words)
    if unknown := sorted({*arguments.names} - ATTACKS.keys()):
        parser.error(f"{', '.join(unknown)} is no attack; known: {', '.join(ATTACKS)}")
    FOLDER.mkdir(parents=True, exist_ok=True)
    verdicts: list[Verdict] = []
    print(line((*COLUMNS, "verdict")), flush=True)
    for verdict in run(arguments.names, arguments.short):
        verdicts.append(verdict)
        print(line(tuple(cells_of(verdict))), flush=True)
        rows = [asdict(each) | {"withstood": each.withstood} for each in verdicts]
        (FOLDER / "report.json").write_text(json.dumps(rows, indent=1))
    fallen = sum(not verdict.withstood for verdict in verdicts)
    print(f"{len(verdicts) - fallen} of {len(verdicts)} withstood; {FOLDER}/report.json has everything")
    return 1 if fallen or not verdicts else 0
