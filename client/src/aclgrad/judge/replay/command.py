"""The command line of a replay: its flags and its exit code."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import torch

from aclgrad._client.settings.environment import unless_set
from aclgrad._client.sync.client import Client
from aclgrad.exits import output_console
from aclgrad.judge.dumps import command
from aclgrad.judge.dumps.judging import Judge
from aclgrad.judge.dumps.page import Run
from aclgrad.judge.dumps.recorded import Given, Source
from aclgrad.judge.dumps.records import CallRow
from aclgrad.judge.findings.display import Screen
from aclgrad.judge.findings.rows import Origin
from aclgrad.judge.findings.run import Told, WorstCall, exits_by_report
from aclgrad.judge.msprobe.dump import find_dumps
from aclgrad.judge.msprobe.tables import Tables, is_readable
from aclgrad.judge.msprobe.values import first_random
from aclgrad.judge.replay.answers import Answer, Asked
from aclgrad.judge.replay.engine import Engine
from aclgrad.judge.replay.jobs import Job, read_jobs, served_entries
from aclgrad.new_files import check_unwritten, checked_folder
from aclgrad.progress import waiting

_CONNECT_TIMEOUT_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Options(command.Options):
    """The flags."""

    out: Path
    target: str
    local: str | None
    bundle: Path | None
    force: bool
    timeout_s: float


@exits_by_report
def replay(options: Options) -> tuple[Run, Told]:
    """Replays the dumps, shows and writes the rows, and exits."""
    with waiting(f"reading {options.dump}"):
        dumps = find_dumps(options.dump)
        sources = command.readable(dumps, options.apis)
    if options.bundle:
        checked_folder(options.bundle)
        check_unwritten(options.bundle, overwrite=options.force)
    if options.local == "cuda" and not torch.cuda.is_available():
        raise ValueError("PyTorch finds no CUDA device here; give --local cpu")
    settings = unless_set(connect_timeout_s=_CONNECT_TIMEOUT_S)
    with Client.from_env(target=options.target, timeout_s=options.timeout_s, **settings) as client:
        status = client.server_status()
        origin = Origin.of(options.target, status)
        of = {"local": options.local, "server": f"{origin.product} {origin.library} {origin.runtime_version}"}
        replayed = _Replay(options, Engine(Asked(client, origin, options.local), Judge(options.precision)))
        run, told = command.run("replay", options, dumps, sources, replayed.rows, target=options.target, of=of)
    further = list(replayed.notes())
    if options.bundle:
        further.append(replayed.worst.write(options.bundle, {origin: status}, overwrite=options.force))
    Screen(output_console()).tell(further)
    return run, lambda: {**told(), "notes": [*told()["notes"], *further]}


class _Replay:
    """Replays the dumps of a run, one after the other."""

    def __init__(self, options: Options, engine: Engine) -> None:
        self._options = options
        self._engine = engine
        self._tables: list[Tables] = []
        self._notes: list[str] = []
        self.worst = WorstCall()

    def rows(self, source: Source, calls: command.Calls) -> Iterator[CallRow]:
        """Yields the rows of one dump's calls, and writes the tables of those with operators."""
        names = {entry.name for entry in served_entries(source)}
        tables = self._opened(source) if names else None

        def take(answer: Answer) -> None:
            # Before the rows, because a run that resumes this one takes calls with rows as done.
            name, gradients = answer.job.name, answer.backward
            if tables and name in names and gradients.of_server and name not in tables.complete:
                tables.write(name, gradients.of_server, gradients.of_pytorch)
            if self._options.bundle:
                for each in (*answer.forward.failed, *gradients.failed):
                    self.worst.take(each.row, each.judged())

        yield from self._engine.rows(calls, _Jobs(source).of, take)

    def _opened(self, source: Source) -> Tables:
        opened = Tables.resume if self._options.resume else Tables.start
        self._tables.append(opened(self._options.out / source.place, local=self._options.local is not None))
        random = None if source.dump.tensor_folder.is_dir() else first_random(source.dump)
        if random:
            others = f"random inputs after {random.name} are others than acc_check's"
            self._notes.append(f"{others}: it draws numbers itself")
        return self._tables[-1]

    def notes(self) -> Iterator[str]:
        """Yields where the tables are, and what msprobe's own comparison is started with."""
        yield from self._notes
        for tables in self._tables:
            yield f"tables: {tables.details}"
            other = tables.local or "DETAILS_OF_THE_GPU.csv"
            yield f"msprobe api_precision_compare -npu {tables.details} -gpu {other} -o {self._options.out}/compared"
            if not is_readable(tables.details):
                yield "msprobe refuses blanks and most signs in paths; copy the tables to another folder first"


class _Jobs:
    """The calls of a dump, read in order because random inputs depend on earlier ones."""

    def __init__(self, source: Source) -> None:
        self._dump = source.dump
        self._entries = source.entries
        self._wanted = ""
        self._rest = self._from_the_first()

    def _from_the_first(self) -> Iterator[Job]:
        return read_jobs(self._dump, lambda entry: entry.name == self._wanted)

    def of(self, call: Given) -> Job | None:
        """Returns the call with its passes to judge, or None for a module's call."""
        self._wanted = call.entry.name
        if self._wanted not in self._entries:
            return None
        job = next(self._rest, None)
        if job is None:  # already skipped, because an earlier run has judged its forward pass
            self._rest = self._from_the_first()
            job = next(self._rest)
        passes = {each.rpartition(".")[2] for _, each in call.passes}
        job = job if "forward" in passes else replace(job, forward="")
        return job if "backward" in passes else replace(job, call=None, reason="")
