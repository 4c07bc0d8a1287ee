"""Attacks servers beside an honest client, and judges its service and what the servers take of the machine."""

import argparse
import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Final

from tools.lab.hostile.catalogue import ATTACKS, SECONDS, SHORT_SECONDS
from tools.lab.hostile.judgement import HEALTH, LONG, SHORT, judge
from tools.lab.hostile.measure import Attacked, Child, Measured, measure

FOLDER: Final = Path("build/hostile")
COLUMNS: Final = {
    "attack": 20,
    "sent": 20,
    "call p50/p99/max ms": 22,
    "health p99/max": 16,
    "check p99": 10,
    "chunked p99": 12,
    "+MB, kept": 10,
    "+files, kept": 13,
    "+threads, kept": 15,
    "loop ms": 8,
    "load": 5,
}
"""With their widths."""
SENT: Final = ("resets_per_s", "frames", "calls", "stopped", "connected")
"""What an attacker counts, the most telling first."""
LOG_LETTERS: Final = 8000


def run(names: Sequence[str], is_short: bool) -> Iterator[tuple[str, Measured, list[str]]]:
    """Yields what came of each attack, and what is wrong with it; without names, of all that belong to the form."""
    limits, seconds = (SHORT, SHORT_SECONDS) if is_short else (LONG, SECONDS)
    chosen = names or [name for name, attack in ATTACKS.items() if attack.in_short or not is_short]
    # In the short form, attacks share a server, and an attacker prepares while the one before attacks.
    ahead = 1 if is_short else 0
    with Child("bystander") as bystander, ExitStack() as stack, ExitStack() as running:
        started: list[Child] = []
        server: Attacked | None = None
        for number, name in enumerate(chosen):
            for each in chosen[len(started) : number + 1 + ahead]:
                started.append(stack.enter_context(Child("attacker", each)))
            attack = ATTACKS[name]
            if server is None or server.has_tls != attack.has_tls:
                running.close()
                server = running.enter_context(Attacked(has_tls=attack.has_tls))
            found = measure(started[number], server, bystander, seconds, limits.kept)
            problems = judge(attack, found, limits)
            if problems or not is_short:
                running.close()
                server = None
            yield name, found, problems


def line(cells: Sequence[str], verdict: str) -> str:
    return " ".join([*(cell.ljust(width) for cell, width in zip(cells, COLUMNS.values(), strict=True)), verdict])


def cells_of(name: str, found: Measured) -> Iterator[str]:
    yield name
    yield next((f"{found.reached[each]} {each}" for each in SENT if each in found.reached), "-")
    call, health = found.latencies["call"], [found.latencies[each] for each in HEALTH]
    yield f"{call.ms(50):.1f} / {call.ms(99):.0f} / {call.ms(100):.0f}"
    yield f"{max(each.ms(99) for each in health):.0f} / {max(each.ms(100) for each in health):.0f}"
    yield from (f"{found.latencies[each].ms(99):.0f}" for each in ("check", "chunked"))
    grown, kept = found.grown, found.kept
    yield from (f"{grown.mb:.0f}, {kept.mb:.0f}", f"{grown.files}, {kept.files}", f"{grown.threads}, {kept.threads}")
    yield from (f"{found.loop_ms:.0f}", f"{found.load:.1f}")


def main(parser: argparse.ArgumentParser, words: Sequence[str]) -> int:
    parser.add_argument("names", nargs="*", metavar="NAME", help="attacks; all of the form by default")
    parser.add_argument("--short", action="store_true", help="less of each, and no judgement of times")
    arguments = parser.parse_args(words)
    if unknown := sorted({*arguments.names} - ATTACKS.keys()):
        parser.error(f"{', '.join(unknown)} is no attack; known: {', '.join(ATTACKS)}")
    FOLDER.mkdir(parents=True, exist_ok=True)
    rows = []
    print(line(list(COLUMNS), "verdict"), flush=True)
    for name, found, problems in run(arguments.names, arguments.short):
        print(line(list(cells_of(name, found)), "; ".join(problems) or "withstood"), flush=True)
        warnings = "".join(each for each in found.log.splitlines(keepends=True) if " INFO " not in each)
        log = warnings[-LOG_LETTERS:] if problems else ""
        rows.append({"name": name, "about": ATTACKS[name].about, **asdict(found), "log": log, "problems": problems})
        (FOLDER / "report.json").write_text(json.dumps(rows, indent=1))
    fallen = sum(bool(each["problems"]) for each in rows)
    print(f"{len(rows) - fallen} of {len(rows)} withstood; {FOLDER}/report.json has everything")
    return 1 if fallen or not rows else 0
