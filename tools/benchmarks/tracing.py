"""What traces cost: small calls on servers that trace none, one in a hundred and all of them.

`python -m tools.benchmarks.tracing [ROUNDS] [SECONDS] [--against BIN]`, where BIN is the folder `.venv/bin` of another
clone, such as one without traces. The servers are measured in turns, and the ratios are those to the first server in
the same round: of calls/s, and of the server's time on the CPU for each call. The collector is in this process.
"""

import argparse
import statistics
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tools.benchmarks.observability import OtherServer
from tools.benchmarks.workers import calls
from tools.collector import TraceService
from tools.serving import Server

AT_ONCE: Final = 16
SHARES: Final = {"off": None, "1 % of calls": 0.01, "all calls": 1.0}


def traced(collector: TraceService, share: float | None) -> Server:
    if share is None:
        return Server()
    sampler = {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": str(share)}
    return Server("--tracing", OTEL_EXPORTER_OTLP_ENDPOINT=collector.endpoint, **sampler)


def main(rounds: int, seconds: float, against: Path | None) -> None:
    """Prints the rates and the times of each server, and their ratios."""
    with ExitStack() as stack:
        collector = stack.enter_context(TraceService())
        servers: dict[str, Server] = {}
        if against is not None:
            servers["other version"] = stack.enter_context(OtherServer(against))
        servers |= {name: stack.enter_context(traced(collector, share)) for name, share in SHARES.items()}
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in servers}
        for number in range(rounds):
            for name in list(servers) if number % 2 == 0 else reversed(servers):
                server = servers[name]
                found[name].append(calls(server, (server.address,), "16 KB", AT_ONCE, seconds))
                collector.spans.clear()
        print(f"{'traces':16}{'calls/s':>9}{'ratio':>7}{'CPU us':>8}{'ratio':>7}")
        first = next(iter(found.values()))
        for name, measured in found.items():
            cells = ""
            for kind, width in ((0, 9), (1, 8)):
                ratio = statistics.median(mine[kind] / other[kind] for mine, other in zip(measured, first, strict=True))
                cells += f"{statistics.median(each[kind] for each in measured):{width}.0f}{ratio:7.3f}"
            print(f"{name:16}{cells}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rounds", type=int, nargs="?", default=9)
    parser.add_argument("seconds", type=float, nargs="?", default=2.0)
    parser.add_argument("--against", type=Path)
    main(**vars(parser.parse_args()))
