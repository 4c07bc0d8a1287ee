"""The command line of a replay: flags to a run, and a run to an exit code."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click
import torch

from aclgrad._client.settings.environment import unless_set
from aclgrad._client.sync.client import Client
from aclgrad.errors import DeadlinePassedError
from aclgrad.judgement.command import end
from aclgrad.judgement.console import Display
from aclgrad.judgement.report import GONE, End, Report, worst_first
from aclgrad.judgement.rows import Origin, Verdict
from aclgrad.judgement.worst import WorstCall
from aclgrad.msprobe.dump import DumpError, Found, find_dumps
from aclgrad.msprobe.tables import Tables, is_readable
from aclgrad.new_files import check_unwritten, checked_folder
from aclgrad.replay.engine import Engine, Judged
from aclgrad.replay.results import Results
from aclgrad.replay.source import Source
from aclgrad.tables import new_console
from aclgrad.units import counted

_CONNECT_TIMEOUT_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Options:
    """What the flags say."""

    dump: Path
    target: str
    out: Path
    apis: tuple[str, ...]
    local: str | None
    every: bool
    verbose: bool
    resume: bool
    bundle: Path | None
    force: bool
    timeout_s: float


def replay(options: Options) -> None:
    """Replays the dumps, shows and writes the rows, and exits."""
    end("replay", lambda: _replay(options))


def _replay(options: Options) -> Report:
    dumps = find_dumps(options.dump)
    ready = _first_readable(dumps, options)
    if options.bundle:
        checked_folder(options.bundle)
        check_unwritten(options.bundle, overwrite=options.force)
    if options.local == "cuda" and not torch.cuda.is_available():
        raise ValueError("PyTorch finds no CUDA device here; give --local cpu")
    settings = unless_set(connect_timeout_s=_CONNECT_TIMEOUT_S)
    report, display = Report(), Display(new_console(), verbose=options.verbose, is_by_operator=True)
    begin = time.monotonic()
    with Client.from_env(target=options.target, timeout_s=options.timeout_s, coalesce=True, **settings) as client:
        status = client.server_status()
        origin = Origin(options.target, status.product, status.library, status.runtime_version)
        engine = Engine(client, origin, options.local)
        of = {
            "dumps": {found.folder.as_posix(): found.digest() for found in dumps},
            "local": options.local,
            "server": f"{origin.product} {origin.library} {origin.runtime_version}",
        }
        with Results.open(options.out, of, resume=options.resume) as results:
            run = _Run(options, engine, results, display, report, ready)
            try:
                for found in dumps:
                    run.replay(found)
            except KeyboardInterrupt:
                report.end, report.message = End.INTERRUPTED, "interrupted; --resume goes on where it ended"
            except (*GONE, DeadlinePassedError) as error:
                report.end = End.SERVER_GONE
                report.message = f"the server went away: {error}; --resume goes on where the run ended"
            report.seconds = time.monotonic() - begin
            judged = len(report.rows)
            by_case = {row.case: row for row in (*results.earlier, *report.rows)}
            report.rows[:] = worst_first(list(by_case.values()))
            report.planned += len(report.rows) - judged
            if report.end is End.COMPLETE and all(row.verdict is Verdict.SKIPPED for row in report.rows):
                reasons = {row.message for row in report.rows} or {"no operator computes a call with a backward pass"}
                report.conclusion = f"nothing was compared: {reasons.pop() if len(reasons) == 1 else 'see the report'}"
            display.end(report)
            run.tell(results.end(report))
            if options.bundle:
                click.echo(run.worst.write(options.bundle, {origin: status}, overwrite=options.force))
    return report


def _first_readable(dumps: Sequence[Found], options: Options) -> dict[Found, Source]:
    """Returns the first dump that can be replayed; raises DumpError if there is none, before a server is asked."""
    errors = []
    for found in dumps:
        try:
            return {found: Source.of(found, options.apis, every=options.every)}
        except DumpError as error:
            errors.append(error)
    if len(errors) == 1:
        raise errors[0]
    raise DumpError(f"no dump of {len(errors)} can be replayed; the first: {errors[0]}")


class _Run:
    """The dumps of a run, one after the other."""

    def __init__(
        self,
        options: Options,
        engine: Engine,
        results: Results,
        display: Display,
        report: Report,
        ready: dict[Found, Source],
    ) -> None:
        self._options = options
        self._engine = engine
        self._results = results
        self._display = display
        self._report = report
        self._ready = ready
        self._tables: list[Tables] = []
        self._left_out = 0
        self._notes: list[str] = []
        self.worst = WorstCall()

    def replay(self, found: Found) -> None:
        """Replays one dump, or notes that it cannot be read."""
        options, folder = self._options, self._options.out / found.folder
        label = "" if found.folder == Path() else found.folder.as_posix()
        try:
            source = self._ready.pop(found, None) or Source.of(found, options.apis, every=options.every)
        except DumpError as error:
            # The process of one rank may have died; the others are worth a look.
            judged = self._engine.unreadable(label, str(error))
            self._notes.append(f"left out: {label}: {judged.rows[0].message}")
            self._take(judged, None)
            return
        opened = Tables.resume if options.resume else Tables.start
        tables = opened(folder, local=options.local is not None)
        self._tables.append(tables)
        planned = [name for name in source.names if name not in tables.complete]
        self._report.planned += len(planned)
        self._left_out += source.left_out
        if source.shifted_by:
            self._notes.append(
                f"random inputs after {source.shifted_by} are others than acc_check's: it draws numbers itself"
            )
        with self._display.of(len(planned)):
            for judged in self._engine.judge(source.jobs(set(planned)), label):
                self._take(judged, tables)

    def _take(self, judged: Judged, tables: Tables | None) -> None:
        self._results.take(judged, tables)
        self._report.rows += judged.rows
        # A call was planned as one row, and has one for each gradient.
        self._report.planned += len(judged.rows) - 1
        for row in judged.rows:
            if self._options.bundle and row.verdict is Verdict.FAILED:
                self.worst.take(row, judged.sent(row))
            self._display.take(row, ends=row is judged.rows[-1])

    def tell(self, page: Path) -> None:
        """Says where everything is, and what msprobe's own comparison is started with."""
        lines = [f"report: {page}", *self._notes]
        if self._left_out:
            lines.append(
                f"left out: {counted(self._left_out, 'call')} of APIs that no operator computes; --all lists them"
            )
        for tables in self._tables:
            lines.append(f"tables: {tables.details}")
            other = tables.local or "DETAILS_OF_THE_GPU.csv"
            command = (
                f"msprobe api_precision_compare -npu {tables.details} -gpu {other} -o {self._options.out}/compared"
            )
            lines.append(command)
            if not is_readable(tables.details):
                lines.append("msprobe refuses blanks and most signs in paths; copy the tables to another folder first")
        click.echo("\n".join(lines))
