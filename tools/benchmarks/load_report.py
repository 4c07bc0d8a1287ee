"""What the report of the load costs on each reply: calls/s and the server's time on the CPU, with and without it.

`python -m tools.benchmarks.load_report [ROUNDS] [SECONDS]`. One server adds the trailer and the other does not. They
are measured in turns, and the ratio is that to the server without it in the same round.
"""

import statistics
import sys
from contextlib import ExitStack
from typing import Final

from tools.benchmarks.workers import calls
from tools.serving import Server

AT_ONCE: Final = 16


def main() -> None:
    """Prints both and their ratios."""
    rounds, seconds = int(sys.argv[1]) if sys.argv[1:] else 9, float(sys.argv[2]) if sys.argv[2:] else 2.0
    with ExitStack() as stack:
        servers = {
            "without": stack.enter_context(Server(module="tools.benchmarks.server_without_report")),
            "with": stack.enter_context(Server()),
        }
        measured: dict[str, list[tuple[float, float]]] = {name: [] for name in servers}
        for number in range(rounds):
            for name in list(servers) if number % 2 == 0 else reversed(servers):
                measured[name].append(calls(servers[name], (servers[name].address,), "16 KB", AT_ONCE, seconds))
    print("            without       with  ratio")
    for kind, what in enumerate(("calls/s", "CPU us")):
        without, having = ([each[kind] for each in measured[name]] for name in servers)
        ratio = statistics.median(its / theirs for its, theirs in zip(having, without, strict=True))
        print(f"{what:>8} {statistics.median(without):10.1f} {statistics.median(having):10.1f} {ratio:6.3f}")


if __name__ == "__main__":
    main()
