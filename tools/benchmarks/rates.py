"""Every way to send a gradient, beside bare gRPC echoes of the same bytes and a naive server.

Gradients are of one tensor each way; MB/s are both ways; CPU and memory are the server's. Each ratio is to the
gradients/s of the row of that name in the same round, with the least that is promised.
"""

import argparse
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from typing import Final

from tools.benchmarks import h2load, loads
from tools.benchmarks.loads import BATCH, Load
from tools.benchmarks.measure import SERVER, SERVER_FLAGS, Figures, Samples, ServerUnderTest, in_turns, running
from tools.benchmarks.report import Report
from tools.benchmarks.sizes import SIZES, Size

AT_ONCE: Final = (1, 4, 16)
HUGE: Final = "100 MB"
"""It takes longer, and sixteen at once would take gigabytes."""
UNARY: Final = ("16 KB", "1 MB", "6.4 MB")
"""Larger ones do not fit in a message."""
Promise = Mapping[tuple[str, int], float]


@dataclass(frozen=True, slots=True)
class Row:
    """One way to send gradients: a server, what it is sent, and the rows that it is compared with."""

    server: str
    load: Callable[[Size], Load]
    sizes: tuple[str, ...] = UNARY
    against: Mapping[str, Promise] = field(default_factory=dict)
    gradients: int = 1

    def at(self, size: str, at_once: int) -> bool:
        return size in self.sizes and (size != HUGE or at_once <= 4)


def promised(least: float, *sizes: str) -> Promise:
    return {(size, at_once): least for size in sizes for at_once in AT_ONCE}


def rows(shared_memory: Callable[[Size], Load]) -> dict[str, Row]:
    to_echoes: Mapping[str, Promise] = {"echo": {}, "fresh echo": {}}
    in_chunks = ("6.4 MB", HUGE)
    chunked: Mapping[str, Promise] = {"chunk echo": {}, "whole echo": promised(0.8, HUGE), "aclgrad": {}}
    return {
        "echo": Row("echo", loads.echo),
        "fresh echo": Row("echo", loads.fresh_echo),
        "chunk echo": Row("echo", loads.chunk_echo, in_chunks),
        "whole echo": Row("echo", loads.whole_echo, in_chunks),
        "naive": Row("naive", loads.unary, against=to_echoes),
        "aclgrad": Row("aclgrad", loads.unary, against=to_echoes),
        "against": Row("against", loads.unary, against={**to_echoes, "aclgrad": {}}),
        "batch": Row("aclgrad", loads.batch, ("16 KB",), {"aclgrad": promised(8.0, "16 KB"), "echo": {}}, BATCH),
        "chunked": Row("aclgrad", loads.chunked, in_chunks, chunked),
        "shared": Row("local", shared_memory, tuple(SIZES), {"aclgrad": {}, "chunked": {}}),
    }


@contextmanager
def servers(against: Path | None) -> Iterator[dict[str, ServerUnderTest]]:
    """Yields the servers by name; `local` is ours on a unix socket, with the clients of another address."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        local = (*SERVER_FLAGS, "--listen", f"unix:{folder}/server", "--shared-memory")
        started = {
            "echo": running("tools.benchmarks.ceilings"),
            "naive": running("tools.benchmarks.naive"),
            "aclgrad": running(SERVER, *SERVER_FLAGS),
            "local": running(SERVER, *local),
        }
        if against is not None:
            started["against"] = running(SERVER, *SERVER_FLAGS, python=str(against / "python"))
        yield {name: stack.enter_context(each) for name, each in started.items()}


HEADINGS: Final = ("row", "size", "at once", "gradients/s", "MB/s", "p50 ms", "p99 ms", "CPU us", "peak MB", "ratios")


def main(quick: bool, arguments: list[str]) -> None:
    flags = _flags(arguments)
    sizes, rounds, seconds = (("16 KB", "6.4 MB", HUGE), 1, 0.5) if quick else (tuple(SIZES), 5, 2.0)
    report = Report("rates", __doc__)
    report.table("Gradients per second", *HEADINGS)
    with (
        loads.shared_segment(SIZES[HUGE].tensor_bytes) as shared_memory,
        servers(flags.against) as under_test,
    ):
        known = {name: each for name, each in rows(shared_memory).items() if each.server in under_test}
        known = _with_ceilings(known, flags.rows or list(known))
        for size, at_once in product(sizes, AT_ONCE[:2] if quick else AT_ONCE):
            here = {name: each for name, each in known.items() if each.at(size, at_once)}
            measured = in_turns(
                {name: _measuring(each, under_test, size, at_once, seconds) for name, each in here.items()}, rounds
            )
            for name, samples in measured.items():
                ratios = {other: _ratio(here, measured, name, other) for other in here[name].against if other in here}
                report.row(*_cells(name, here[name], size, at_once, samples, ratios))
    report.write()


def _flags(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench WHAT=rates", description=__doc__)
    parser.add_argument("--rows", nargs="+", help="only these, and what they are compared with")
    parser.add_argument("--against", type=Path, metavar="BIN", help="also the server of another clone: its .venv/bin")
    return parser.parse_args(arguments)


def _with_ceilings(known: dict[str, Row], names: list[str]) -> dict[str, Row]:
    wanted = {*names, *(other for name in names for other in known[name].against)}
    return {name: each for name, each in known.items() if name in wanted}


def _measuring(
    row: Row, under_test: dict[str, ServerUnderTest], size: str, at_once: int, seconds: float
) -> Callable[[], Figures]:
    server, load = under_test[row.server], row.load(SIZES[size])
    address = server.local_address if row.server == "local" else server.address
    h2load.check(address, load)
    # Of large calls, several have to fit.
    return partial(h2load.measure, address, load, at_once, seconds * (4 if size == HUGE else 1), of=server)


def _ratio(here: dict[str, Row], measured: dict[str, Samples], name: str, other: str) -> float:
    share = here[name].gradients / here[other].gradients
    return measured[name].ratio(measured[other], "calls_per_s") * share


def _cells(name: str, row: Row, size: str, at_once: int, samples: Samples, ratios: dict[str, float]) -> tuple[str, ...]:
    rate = samples.median("calls_per_s") * row.gradients
    told = []
    for other, ratio in ratios.items():
        least = row.against[other].get((size, at_once))
        told.append(f"{ratio:.2f} {other}" + ("" if least is None else f" (least {least:g})"))
    return (
        *(name, size, str(at_once), f"{rate:.1f}", f"{rate * 2 * SIZES[size].tensor_bytes / 1e6:.0f}"),
        *(f"{samples.median(figure):.2f}" for figure in ("p50_ms", "p99_ms")),
        f"{samples.median('cpu_us') / row.gradients:.0f}",
        f"{max(each['peak_bytes'] for each in samples.rounds) / 1e6:.0f}",
        ", ".join(told),
    )
