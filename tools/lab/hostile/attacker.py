"""The attacker's process: `python -m tools.lab.hostile.attacker NAME`.

It says `made` when it has made what it will send. A line on its input, `HOST:PORT SECONDS`, lets it loose. At the end
it prints what it got through.
"""

import json
import signal
import sys
from typing import Final

from tools.lab.hostile.catalogue import ATTACKS
from tools.lab.hostile.target import Target

GRACE_S: Final = 30
"""After which the process is ended, whatever the server does to it."""


def main(name: str) -> None:
    run = ATTACKS[name].make()
    print("made", flush=True)
    address, _, seconds = sys.stdin.readline().partition(" ")
    if not seconds:
        return  # nobody wants the attack any more
    signal.alarm(round(float(seconds)) + GRACE_S)
    target = Target(address, float(seconds))
    run(target)
    print(json.dumps(target.counts), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
