"""The command line of a judged dump: its flags, the rows and the report in its folder, and its exit code."""

import json
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Self, TextIO

import torch

from aclgrad.errors import DeadlinePassedError
from aclgrad.exit_codes import ExitCode
from aclgrad.exits import output_console
from aclgrad.judge.dumps.arriving import with_arriving
from aclgrad.judge.dumps.display import Display
from aclgrad.judge.dumps.judging import Judge
from aclgrad.judge.dumps.page import Run, render, summary_of
from aclgrad.judge.dumps.recorded import Given, Source
from aclgrad.judge.dumps.records import TRAINING, CallRow, line_of
from aclgrad.judge.dumps.runs import within_memory
from aclgrad.judge.dumps.summary import Summary
from aclgrad.judge.findings.rows import EXIT_CODES, GONE, End, Verdict, read_rows, write_line
from aclgrad.judge.findings.run import Told, exits_by_report, whole
from aclgrad.judge.msprobe.dump import DumpError, Found, find_dumps
from aclgrad.progress import waiting

ROWS: Final = "rows.jsonl"
RUN: Final = "run.json"
REPORT: Final = "report.html"


class Results:
    """The files of a run, and the rows of resumed runs."""

    def __init__(self, folder: Path, file: TextIO, earlier: Sequence[CallRow]) -> None:
        self._folder = folder
        self._file = file
        self.earlier = earlier

    @classmethod
    @contextmanager
    def open(cls, folder: Path, of: Mapping[str, Any], *, resume: bool) -> Iterator[Self]:
        """Makes the folder; raises ValueError if it has rows of another run and this one does not resume it.

        `of` identifies runs that resume each other, as JSON values.
        """
        path, run = folder / ROWS, folder / RUN
        earlier = _whole_rows(path) if path.exists() and run.exists() else []
        if earlier and not resume:
            raise ValueError(
                f"{folder} has the rows of an earlier run; give another folder, or --resume to go on there"
            )
        if earlier and (before := _read_run(run)) != of:
            other = ", ".join(key for key in of if before.get(key) != of[key])
            raise ValueError(f"{folder} has the rows of a run with other {other}; give another folder")
        folder.mkdir(parents=True, exist_ok=True)
        if not earlier:
            run.write_text(json.dumps(of), encoding="utf-8")
        with path.open("a", encoding="utf-8") as file:
            yield cls(folder, file, earlier)

    def take(self, row: CallRow) -> None:
        """Writes a row at once."""
        write_line(self._file, row.to_json())

    def end(self, summary: Summary, run: Run) -> Path:
        """Writes the summary, the rows in the order of execution, and the report; returns the report's path."""
        path = self._folder / ROWS
        new = path.with_suffix(".new")
        with new.open("w", encoding="utf-8") as file:
            write_line(file, {"summary": summary_of(summary, run)})
            file.writelines(json.dumps(row.to_json(), allow_nan=False) + "\n" for row in summary.rows)
        new.replace(path)
        page = self._folder / REPORT
        page.write_text(render(summary, run), encoding="utf-8")
        return page


def _read_run(path: Path) -> dict[str, Any]:
    """Returns the identity of a folder's runs; raises ValueError if the file has none."""
    try:
        before = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not whole: {error}; give another folder") from error
    if not isinstance(before, dict):
        raise ValueError(f"{path} is not what a run has written: no object; give another folder")
    return before


def _whole_rows(path: Path) -> list[CallRow]:
    """Returns the rows of a file, and cuts off an incomplete last line."""
    text = path.read_bytes()
    os.truncate(path, text.rfind(b"\n") + 1)
    return read_rows(path, CallRow.from_json, "give another folder")


Calls = Iterator[Given | CallRow]


@dataclass(frozen=True, slots=True)
class Options:
    """The flags."""

    dump: Path
    out: Path | None
    apis: tuple[str, ...]
    precision: str
    require_all: bool
    resume: bool
    verbose: bool
    as_json: bool


@exits_by_report
def judge(options: Options) -> tuple[Run, Told]:
    """Judges the dumps, shows and writes the rows, and exits."""
    with waiting(f"reading {options.dump}"):
        dumps = find_dumps(options.dump)
        sources, own = readable(dumps, options.apis), Judge(options.precision)

    def rows(_: Source, calls: Calls) -> Iterator[CallRow]:
        for call in calls:
            yield from [call] if isinstance(call, CallRow) else own.rows(call)

    return run("judge", options, dumps, sources, rows)


def run(
    program: str,
    options: Options,
    dumps: Sequence[Found],
    sources: Sequence[Source | CallRow],
    rows: Callable[[Source, Calls], Iterator[CallRow]],
    *,
    target: str = "",
    of: Mapping[str, Any] | None = None,
) -> tuple[Run, Told]:
    """Shows and writes the rows of the dumps' calls; `rows` makes those that an earlier run has not.

    `of` also identifies runs that resume each other.
    """
    display = Display(output_console(), verbose=options.verbose)
    notes: list[str] = []
    common = {
        "dumps": {found.folder.as_posix(): found.digest() for found in dumps},
        "apis": sorted(options.apis),
        "precision": options.precision,
        "pytorch": torch.__version__,
        **(of or {}),
    }
    ended, message = End.COMPLETE, ""
    planned = sum(1 if isinstance(each, CallRow) else sum(1 for _ in each.names()) for each in sources)
    begin = time.monotonic()
    with ExitStack() as stack:
        results = stack.enter_context(Results.open(options.out, common, resume=options.resume)) if options.out else None
        taken = list(results.earlier) if results else []
        stack.enter_context(within_memory())
        stack.enter_context(warnings.catch_warnings())
        # PyTorch warns about the training's calls, which cannot be changed here.
        warnings.simplefilter("ignore", UserWarning)
        resumed = "; --resume goes on where it ended" if results else ""
        has_rows = False
        try:
            for row in _rows(sources, planned, taken, rows, display):
                taken.append(row)
                if results:
                    results.take(row)
                display.take(row)
            has_rows = True
            taken = [row for source in sources for row in _completed(source, taken, display)]
        except KeyboardInterrupt:
            rest = ", before the gradients that arrive at other calls: these are not judged" if has_rows else ""
            ended, message = End.INTERRUPTED, f"interrupted after {len(taken)} calls{rest}{resumed}"
        except (*GONE, DeadlinePassedError) as error:
            ended, message = End.SERVER_GONE, f"the server went away: {error}{resumed}"
        with whole():
            summary = Summary.of(taken, planned)
            if target and ended is End.COMPLETE and not summary.served:
                message = "the server has computed no call; `aclgrad judge` judges a dump without one"
            code = exit_code(summary, ended, require_all=options.require_all, is_served=bool(target))
            seconds = time.monotonic() - begin
            pytorch, precision = torch.__version__, options.precision
            found = Run(program, str(options.dump), target, pytorch, precision, ended, message, code, seconds)
            display.end(summary, found)
            if results:
                notes.append(f"report: {results.end(summary, found)}")
            display.tell(notes)

    def told() -> Mapping[str, Any]:
        return {**summary_of(summary, found), "notes": notes, "rows": [row.to_json() for row in summary.rows]}

    return found, told


def exit_code(summary: Summary, ended: End, *, require_all: bool, is_served: bool = False) -> int:
    """Returns how the command ends: UNUSABLE also if files of the dump are missing, or a server computed nothing.

    With `require_all`, it is WRONG if what is recorded of a call was not judged: operators are for some functions only.
    """
    if ended in EXIT_CODES:
        return EXIT_CODES[ended]
    if summary.count(Verdict.FAILED):
        return ExitCode.WRONG
    if not summary.judged or summary.damaged or (is_served and not summary.served):
        return ExitCode.UNUSABLE
    return ExitCode.WRONG if require_all and not all(row.has(TRAINING) for row in summary.rows) else ExitCode.WELL


def readable(dumps: Sequence[Found], apis: tuple[str, ...]) -> list[Source | CallRow]:
    """Returns the dumps, and a row for each that cannot be read; raises DumpError if none can be."""
    sources: list[Source | CallRow] = []
    errors = []
    for found in dumps:
        try:
            sources.append(Source.of(found, apis))
        except DumpError as error:
            # The process of one rank may have died; the others are still useful.
            errors.append(error)
            sources.append(CallRow(0, found.folder.as_posix(), found.path.name, Verdict.SKIPPED, line_of(str(error))))
    if len(errors) == len(dumps):
        told = f"no dump of {len(errors)} can be judged; the first: " if len(errors) > 1 else ""
        raise DumpError(f"{told}{errors[0]}")
    return sources


def _completed(source: Source | CallRow, rows: Sequence[CallRow], display: Display) -> Iterator[CallRow]:
    """Yields the rows of a dump with the gradients that arrive at other calls."""
    own = [row for row in rows if row.place == source.place]
    watched = partial(display.each, description="gradients that arrive at other calls")
    yield from own if isinstance(source, CallRow) else with_arriving(source, own, watched)


def _rows(
    sources: Sequence[Source | CallRow],
    planned: int,
    earlier: Sequence[CallRow],
    rows: Callable[[Source, Calls], Iterator[CallRow]],
    display: Display,
) -> Iterator[CallRow]:
    """Yields the rows of all calls without rows."""
    done: dict[str, set[str]] = {}
    for row in earlier:
        done.setdefault(row.place, set()).add(row.name)
    with display.of(planned - len(earlier)):
        for source in sources:
            own = done.get(source.place, set())
            if not isinstance(source, CallRow):
                yield from rows(source, source.calls(own))
            elif source.name not in own:
                yield source
