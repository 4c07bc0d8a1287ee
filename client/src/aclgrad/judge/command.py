"""The command line of a judgement: flags to a run, and a run to an exit code."""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import click
import torch

from aclgrad.judge.arriving import with_arriving
from aclgrad.judge.display import Display
from aclgrad.judge.judging import Judge, line_of
from aclgrad.judge.memory import within_memory
from aclgrad.judge.records import CallRow
from aclgrad.judge.report import Run
from aclgrad.judge.results import Results
from aclgrad.judge.source import Source
from aclgrad.judge.summary import Summary
from aclgrad.judgement.command import end
from aclgrad.judgement.report import End
from aclgrad.judgement.rows import Verdict
from aclgrad.msprobe.dump import DumpError, Found, find_dumps
from aclgrad.tables import new_console


@dataclass(frozen=True, slots=True)
class Options:
    """What the flags say."""

    dump: Path
    out: Path | None
    apis: tuple[str, ...]
    precision: str
    require_all: bool
    resume: bool
    verbose: bool


def judge(options: Options) -> None:
    """Judges the dumps, shows and writes the rows, and exits."""
    end("judge", lambda: _judge(options))


def _judge(options: Options) -> Run:
    dumps = find_dumps(options.dump)
    sources = _sources(dumps, options.apis)
    display = Display(new_console(), verbose=options.verbose)
    of = {
        "dumps": {found.folder.as_posix(): found.digest() for found in dumps},
        "apis": sorted(options.apis),
        "precision": options.precision,
        "pytorch": torch.__version__,
    }
    ended, message = End.COMPLETE, ""
    begin = time.monotonic()
    with ExitStack() as stack:
        results = stack.enter_context(Results.open(options.out, of, resume=options.resume)) if options.out else None
        rows = list(results.earlier) if results else []
        stack.enter_context(within_memory())
        try:
            for row in _rows(sources, rows, Judge(options.precision), display):
                rows.append(row)
                if results:
                    results.take(row)
                display.take(row)
            rows = [row for source in sources for row in _completed(source, rows)]
        except KeyboardInterrupt:
            resumed = "; --resume goes on where it ended" if results else ""
            ended, message = End.INTERRUPTED, f"interrupted after {len(rows)} calls{resumed}"
        summary = Summary.of(rows)
        code = exit_code(summary, ended, require_all=options.require_all)
        seconds = time.monotonic() - begin
        run = Run("judge", str(options.dump), "", torch.__version__, options.precision, ended, message, code, seconds)
        display.end(summary, run)
        if results:
            click.echo(f"report: {results.end(summary, run)}")
    return run


def exit_code(summary: Summary, ended: End, *, require_all: bool) -> int:
    """Returns 0 if all judged calls passed, 1 if one failed or is missing, 2 if none was judged, 130 after Ctrl-C."""
    if ended is End.INTERRUPTED:
        return 130
    if summary.count(Verdict.FAILED):
        return 1
    if not summary.judged:
        return 2
    return 1 if require_all and summary.judged < len(summary.rows) else 0


def _sources(dumps: Sequence[Found], apis: tuple[str, ...]) -> list[Source | CallRow]:
    """Returns the dumps, or a row for one that cannot be read; raises DumpError if none can be."""
    sources: list[Source | CallRow] = []
    errors = []
    for found in dumps:
        try:
            sources.append(Source.of(found, apis))
        except DumpError as error:
            # The process of one rank may have died; the others are worth a look.
            errors.append(error)
            sources.append(CallRow(0, found.folder.as_posix(), found.path.name, Verdict.SKIPPED, line_of(str(error))))
    if len(errors) == len(dumps):
        raise (
            errors[0]
            if len(errors) == 1
            else DumpError(f"no dump of {len(errors)} can be judged; the first: {errors[0]}")
        )
    return sources


def _completed(source: Source | CallRow, rows: Sequence[CallRow]) -> Iterator[CallRow]:
    """Yields the rows of a dump with the gradients of arguments that arrive at other calls."""
    own = [row for row in rows if row.place == source.place]
    yield from own if isinstance(source, CallRow) else with_arriving(source, own)


def _rows(
    sources: Sequence[Source | CallRow], earlier: Sequence[CallRow], judge: Judge, display: Display
) -> Iterator[CallRow]:
    """Yields the rows of all calls that have none yet."""
    done: dict[str, set[str]] = {}
    for row in earlier:
        done.setdefault(row.place, set()).add(row.name)
    for source in sources:
        if isinstance(source, CallRow):
            if source.name not in done.get(source.place, ()):
                yield source
            continue
        own = done.get(source.place, set())
        with display.of(sum(1 for name in source.names() if name not in own)):
            for call in source.calls(own):
                if isinstance(call, CallRow):
                    yield call
                else:
                    yield from judge.rows(call)
