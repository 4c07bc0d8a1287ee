"""Attacks servers and judges how they withstand: `python -m tools.hostile --help`."""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tools.hostile import report
from tools.hostile.catalogue import ATTACKS, SECONDS, SHORT_SECONDS, Attack
from tools.hostile.judgement import LONG, SHORT, Verdict, judge
from tools.hostile.measure import measure
from tools.hostile.processes import Bystander, attackers
from tools.hostile.roles import ROLE, ROLES, has_identities, let_attackers_in
from tools.hostile.scenes import SCENES, SHORT_SCENES
from tools.hostile.servers import Servers

FOLDER: Final = Path("build/hostile")


def run(names: Sequence[str], is_short: bool) -> Iterator[Verdict]:
    """Yields what came of each attack; without names, of all that belong to the form and the role."""
    limits, seconds = (SHORT, SHORT_SECONDS) if is_short else (LONG, SECONDS)

    def belongs(attack: Attack) -> bool:
        return (attack.in_short or not is_short) and (has_identities() or not attack.needs_identities)

    chosen = [each for each in ATTACKS if each.name in names or (not names and belongs(each))]
    with Bystander() as bystander, Servers(reuses=is_short) as servers:
        for attack, attacker in attackers(chosen, ahead=1 if is_short else 0):
            server = servers.get(attack.server)
            verdict = judge(attack, measure(attacker, server, bystander, seconds, limits.kept), limits)
            if not verdict.withstood:
                servers.end()
            yield verdict
        servers.end()
        # What drivers do is the same for all: here the attacker is one who may call.
        let_attackers_in()
        for name, scene in SCENES.items():
            if name in names or (not names and (name in SHORT_SCENES or not is_short)):
                yield scene(bystander)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.hostile", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="attacks; all of the form by default")
    parser.add_argument("--short", action="store_true", help="less of each, and no judgement of times")
    parser.add_argument("--role", choices=ROLES, help="turn identities on: the attacker is nobody, or a tenant")
    arguments = parser.parse_args()
    os.environ[ROLE] = arguments.role or ""
    known = {*(each.name for each in ATTACKS), *SCENES}
    if unknown := set(arguments.names) - known:
        parser.error(f"{', '.join(sorted(unknown))} is no attack; known: {', '.join(sorted(known))}")
    verdicts = []
    print(report.head(), flush=True)
    for verdict in run(arguments.names, arguments.short):
        verdicts.append(verdict)
        print(report.line(verdict), flush=True)
        report.write(FOLDER, verdicts)
    fallen = sum(not verdict.withstood for verdict in verdicts)
    print(f"{len(verdicts) - fallen} of {len(verdicts)} withstood; {FOLDER}/report.json has everything")
    return 1 if fallen or not verdicts else 0


if __name__ == "__main__":
    sys.exit(main())
