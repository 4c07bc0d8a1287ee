"""What being seen costs: small calls beside those of another version, with and without a scraper; the time of a scrape.

`python -m tools.benchmarks.observability [ROUNDS] [SECONDS] [--against BIN]`, where BIN is the folder `.venv/bin` of
another clone. The servers are measured in turns, and the ratios are those to the first server in the same round: of
calls/s, and of the server's time on the CPU for each call.
"""

import argparse
import http.client
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import psutil

from tools.benchmarks.security import calls
from tools.raw_calls import SMALL, execute, execute_batch, execute_chunked, open_channel
from tools.serving import Server

SCRAPE_INTERVAL_S: Final = 0.1
SCRAPES: Final = 200


class OtherServer(Server):
    """A server of another environment."""

    def __init__(self, programs: Path, *flags: str) -> None:
        super().__init__(*flags)
        self._command[0] = str(programs / "python")


def scrape(server: Server) -> bytes:
    assert server.admin is not None
    connection = http.client.HTTPConnection(server.admin, timeout=10)
    try:
        connection.request("GET", "/metrics")
        return connection.getresponse().read()
    finally:
        connection.close()


@contextmanager
def scraper(server: Server) -> Iterator[None]:
    """Scrapes ten times a second meanwhile."""
    stop = threading.Event()

    def run() -> None:
        while not stop.wait(SCRAPE_INTERVAL_S):
            scrape(server)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def tell_scrapes(server: Server) -> None:
    """Prints the time and the size of a scrape after calls of every operator, in each way."""
    with open_channel(server) as channel:
        for call in SMALL.values():
            execute(channel, call)
            execute_chunked(channel, call)
        execute_batch(channel, list(SMALL.values()))
    process = psutil.Process(server.process_id)
    before, times_ms = process.cpu_times(), []
    for _ in range(SCRAPES):
        start = time.perf_counter()
        text = scrape(server)
        times_ms.append((time.perf_counter() - start) * 1e3)
    after = process.cpu_times()
    cpu_ms = 1e3 * (after.user + after.system - before.user - before.system) / SCRAPES
    series = sum(not line.startswith(b"#") for line in text.splitlines())
    wall = f"median {statistics.median(times_ms):.1f} ms, at most {max(times_ms):.1f} ms"
    size = f"{series} series, {len(text) / 1000:.0f} kB"
    print(f"scrape with {len(SMALL)} operators: {wall}, {cpu_ms:.1f} ms of the server's CPU, {size}")


def main(rounds: int, seconds: float, against: Path | None) -> None:
    with ExitStack() as stack:
        servers: dict[str, Server] = {}
        if against is not None:
            servers["other version"] = stack.enter_context(OtherServer(against))
        servers["this version"] = stack.enter_context(Server())
        servers["scraped ten times a second"] = stack.enter_context(Server())
        found: dict[str, list[tuple[float, float]]] = {each: [] for each in servers}
        for _ in range(rounds):
            for name, server in servers.items():
                with scraper(server) if name.startswith("scraped") else ExitStack():
                    found[name].append(calls(server, seconds, has_tls=False))
        print(f"{'server':28}{'calls/s':>9}{'ratio':>7}{'CPU us':>8}{'ratio':>7}")
        first = next(iter(found.values()))
        for name, measured in found.items():
            rates, cpu = zip(*measured, strict=True)
            pairs = list(zip(measured, first, strict=True))
            rate_ratio = statistics.median(mine[0] / other[0] for mine, other in pairs)
            cpu_ratio = statistics.median(mine[1] / other[1] for mine, other in pairs)
            figures = f"{statistics.median(rates):9.0f}{rate_ratio:7.3f}{statistics.median(cpu):8.1f}{cpu_ratio:7.3f}"
            print(f"{name:28}{figures}")
        tell_scrapes(servers["this version"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rounds", type=int, nargs="?", default=7)
    parser.add_argument("seconds", type=float, nargs="?", default=2.0)
    parser.add_argument("--against", type=Path)
    main(**vars(parser.parse_args()))
