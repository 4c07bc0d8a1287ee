"""What a judgement leaves in its folder: all rows as JSON lines, and the report."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self, TextIO

from aclgrad.judge.dumps.page import Run, render
from aclgrad.judge.dumps.records import CallRow
from aclgrad.judge.dumps.summary import Summary
from aclgrad.judge.findings.rows import Verdict, read_rows, write_line

ROWS: Final = "rows.jsonl"
RUN: Final = "run.json"
REPORT: Final = "report.html"


class Results:
    """The files of a run, and the rows of the runs that it resumes."""

    def __init__(self, folder: Path, file: TextIO, earlier: Sequence[CallRow]) -> None:
        self._folder = folder
        self._file = file
        self.earlier = earlier

    @classmethod
    @contextmanager
    def open(cls, folder: Path, of: Mapping[str, Any], *, resume: bool) -> Iterator[Self]:
        """Makes the folder; raises ValueError if it has rows of another run and this one does not resume it.

        `of` is what all runs that resume each other have in common, as values of JSON.
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
        """Writes a row, at once."""
        write_line(self._file, row.to_json())

    def end(self, summary: Summary, run: Run) -> Path:
        """Writes the summary, the rows anew in the order of execution, and the report, whose path it returns."""
        path = self._folder / ROWS
        new = path.with_suffix(".new")
        with new.open("w", encoding="utf-8") as file:
            write_line(file, {"summary": told(summary, run)})
            file.writelines(json.dumps(row.to_json(), allow_nan=False) + "\n" for row in summary.rows)
        new.replace(path)
        page = self._folder / REPORT
        page.write_text(render(summary, run), encoding="utf-8")
        return page


def told(summary: Summary, run: Run) -> dict[str, Any]:
    """Returns the content of the first line of a file of rows."""
    first = summary.first_wrong
    return {
        "program": run.program,
        "dump": run.dump,
        "target": run.target,
        "pytorch": run.pytorch,
        "precision": run.precision,
        "end": run.end,
        "message": run.message,
        "exit_code": run.exit_code,
        "seconds": round(run.seconds, 1),
        "calls": summary.planned,
        "not_reached": summary.unreached,
        "judged": summary.judged,
        **{str(verdict): summary.count(verdict) for verdict in Verdict},
        "not_judged": [{"api": each.api, "calls": each.count, "reason": each.reason} for each in summary.unjudged],
        **(_told_of_server(summary) if run.target else {}),
        "first_wrong": None if first is None else {"place": first.place, "name": first.name},
    }


def _told_of_server(summary: Summary) -> dict[str, Any]:
    reasons = summary.unserved.items()
    return {
        "served": summary.served,
        "not_served": [
            {"api": api, "calls": count, "reason": reason} for reason, apis in reasons for api, count in apis.items()
        ],
        "on_the_server_alone": summary.of_server_alone.total(),
    }


def _read_run(path: Path) -> dict[str, Any]:
    """Returns what all runs of a folder have in common; raises ValueError for a file that tells nothing of it."""
    try:
        before = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not whole: {error}; give another folder") from error
    if not isinstance(before, dict):
        raise ValueError(f"{path} is not what a run has written: no object; give another folder")
    return before


def _whole_rows(path: Path) -> list[CallRow]:
    """Returns the rows of a file whose last line a run may not have ended, and cuts that line off."""
    text = path.read_bytes()
    os.truncate(path, text.rfind(b"\n") + 1)
    return read_rows(path, CallRow.from_json, "give another folder")
