"""The rows of the report: every way to send a gradient, each beside its ceiling in the same repeat."""

import os
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tools.benchmarks.loads import BATCH
from tools.benchmarks.measure import LoadGroup, NotServedError, Sample, Served, Task, running
from tools.benchmarks.sizes import SIZES, Size

SERVER: Final = "aclgrad_server"
SERVER_FLAGS: Final = (
    *("--backend", "host", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"),
    *("--log-level", "warning"),
)


@dataclass(frozen=True, slots=True)
class Budget:
    """The least ratio of gradients per second to those of another row, and the sizes for which it is promised."""

    row: str
    least: float = 0.0
    sizes: tuple[str, ...] = ()


OWN, CEILING, LOCAL = "own", "ceiling", "local"
"""The servers: ours, the echo, and ours on a unix socket. That is another process: a server gives clients of another
address their share of it."""


@dataclass(frozen=True, slots=True)
class Row:
    """One way to send gradients: the name of a function of `loads`, and what it is compared with."""

    load: str
    told: str
    sizes: tuple[str, ...] = tuple(SIZES)
    gradients: int = 1
    against: tuple[Budget, ...] = ()
    server: str = OWN


SMALL: Final = ("16 KB",)
HUGEST: Final = ("100 MB",)
CHUNKED: Final = ("6.4 MB", "100 MB")

ROWS: Final = (
    Row("echo", "bare gRPC echo of the same bytes", server=CEILING),
    Row("fresh_echo", "the same, each reply allocated and written", server=CEILING),
    Row("stream_echo", "bare gRPC echo of the same chunks", CHUNKED, server=CEILING),
    Row("whole_echo", "the same, each answer after the last chunk", CHUNKED, server=CEILING),
    Row("unary", "ExecuteOperator", against=(Budget("echo"), Budget("fresh_echo"))),
    Row("stub", "the generated stub, numpy in and out", SMALL),
    Row("client", "aclgrad.Client, numpy in and out", against=(Budget("stub", 0.77, SMALL), Budget("echo"))),
    Row("batch", f"BatchExecuteOperators of {BATCH}", SMALL, BATCH, (Budget("unary", 8.0, SMALL), Budget("echo"))),
    Row(
        "chunked",
        "ExecuteOperatorChunked",
        CHUNKED,
        against=(Budget("stream_echo"), Budget("whole_echo", 0.8, HUGEST), Budget("unary", 1.2, HUGEST)),
    ),
    Row(
        "shared_memory",
        "ExecuteOperator, tensors in shared memory",
        against=(Budget("unary", 5.0, HUGEST),),
        server=LOCAL,
    ),
)
"""A method that the server does not answer prints "not served"."""


def budget_of(row: Row, other: str, size: Size) -> float | None:
    """Returns the least ratio that is promised at this size, if there is one."""
    promised = (budget.least for budget in row.against if budget.row == other and size.name in budget.sizes)
    return next(promised, None)


@dataclass(frozen=True, slots=True)
class Result:
    """The medians of one row at one size and concurrency."""

    row: str
    size: Size
    concurrency: int
    gradients_per_s: float
    median_ms: float
    p99_ms: float
    cpu_ms: float
    """CPU time of the server for one gradient."""
    peak_bytes: int
    """Of the server's resident memory."""
    ratios: dict[str, float]
    """Other row -> ratio of gradients per second, the median of the ratios within each repeat."""
    load_average: float

    @property
    def megabytes_per_s(self) -> float:
        return self.gradients_per_s * 2 * self.size.tensor_bytes / 1e6


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured."""

    sizes: tuple[str, ...] = tuple(SIZES)
    concurrencies: tuple[int, ...] = (1, 4, 16)
    repeats: int = 3
    seconds: float = 0.5
    tuned_loads: bool = True
    plain_echo: bool = False


QUICK: Final = Plan(("16 KB", "6.4 MB", "100 MB"), (1, 4), 1, 0.3)


def with_what_they_need(names: Sequence[str] | None) -> list[Row]:
    """Returns the rows of these names and those that they are compared with; all rows without names."""
    wanted = set(names or [row.load for row in ROWS])
    wanted |= {budget.row for row in ROWS if row.load in wanted for budget in row.against}
    return [row for row in ROWS if row.load in wanted]


def measure_rows(plan: Plan, rows: Sequence[Row], tell: Callable[[Result | str], None]) -> list[Result]:
    """Returns the results, and tells each as soon as it is there; what is not served is told in words."""
    results = []
    ceiling_flags = ("--plain-allocator",) if plan.plain_echo else ()
    with (
        running("tools.benchmarks.ceilings", *ceiling_flags) as ceiling,
        tempfile.TemporaryDirectory() as folder,
        running(SERVER, *SERVER_FLAGS) as own,
        running(SERVER, *SERVER_FLAGS, "--listen", f"unix:{folder}/server", "--shared-memory") as local,
        LoadGroup(plan.tuned_loads) as loads,
    ):
        servers = {OWN: own, CEILING: ceiling, LOCAL: local}
        for size in (SIZES[name] for name in plan.sizes):
            served = [row for row in rows if size.name in row.sizes]
            for concurrency in plan.concurrencies:
                table = _Table(loads, served, size, concurrency, plan.seconds)
                for repeat in range(plan.repeats):
                    # In turns from either end, so that a machine that gets slower does not favour one row.
                    table.measure(servers, backwards=repeat % 2 == 1)
                for row in table.refused:
                    tell(f"{row.load} at {size.name}: not served ({table.refused[row]})")
                served = [row for row in served if row not in table.refused]
                for result in table.results(served):
                    results.append(result)
                    tell(result)
    return results


class _Table:
    """The samples of every row at one size and concurrency."""

    def __init__(self, loads: LoadGroup, rows: Sequence[Row], size: Size, concurrency: int, seconds: float) -> None:
        self._loads = loads
        self._rows = rows
        self._size = size
        self._concurrency = concurrency
        self._seconds = seconds
        self._samples: dict[str, list[Sample]] = {row.load: [] for row in rows}
        self.refused: dict[Row, str] = {}

    def measure(self, servers: Mapping[str, Served], backwards: bool) -> None:
        for row in reversed(self._rows) if backwards else self._rows:
            if row in self.refused:
                continue
            server = servers[row.server]
            address = server.local_address if row.server == LOCAL else server.address
            task = Task(row.load, address, self._size, self._concurrency, self._seconds)
            try:
                self._samples[row.load].append(self._loads.measure(task, server))
            except NotServedError as error:
                self.refused[row] = str(error)

    def results(self, rows: Sequence[Row]) -> Iterator[Result]:
        gradients = {row.load: row.gradients for row in rows}
        for row in rows:
            samples = self._samples[row.load]
            ratios = {
                other: statistics.median(
                    mine.calls_per_s * row.gradients / (theirs.calls_per_s * gradients[other])
                    for mine, theirs in zip(samples, self._samples[other], strict=True)
                )
                for other in dict.fromkeys(budget.row for budget in row.against)
                if other in gradients
            }
            yield Result(
                row.load,
                self._size,
                self._concurrency,
                statistics.median(sample.calls_per_s for sample in samples) * row.gradients,
                statistics.median(sample.median_s for sample in samples) * 1e3,
                statistics.median(sample.p99_s for sample in samples) * 1e3,
                statistics.median(sample.cpu_s_per_call for sample in samples) * 1e3 / row.gradients,
                max(sample.peak_bytes for sample in samples),
                ratios,
                os.getloadavg()[0],
            )
