"""What a replay leaves in its folder: a pair of tables for each dump, all rows as JSON lines, and the report."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self, TextIO

from aclgrad.judgement.html import render
from aclgrad.judgement.report import Report, read_rows, write_line
from aclgrad.judgement.rows import Row
from aclgrad.msprobe.tables import Tables
from aclgrad.replay.engine import Judged

ROWS: Final = "rows.jsonl"
RUN: Final = "run.json"
REPORT: Final = "report.html"


class Results:
    """The files of a run, and the rows of the runs that it resumes."""

    def __init__(self, folder: Path, file: TextIO, earlier: Sequence[Row]) -> None:
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
        if earlier and (before := json.loads(run.read_bytes())) != of:
            other = ", ".join(key for key in of if before.get(key) != of[key])
            raise ValueError(f"{folder} has the rows of a run with other {other}; give another folder")
        folder.mkdir(parents=True, exist_ok=True)
        run.write_text(json.dumps(of), encoding="utf-8")
        with path.open("a", encoding="utf-8") as file:
            yield cls(folder, file, earlier)

    def take(self, judged: Judged, tables: Tables | None) -> None:
        """Writes what became of one API, at once; a dump that cannot be read has no tables."""
        for row in judged.rows:
            write_line(self._file, row.to_json())
        # Last: a run that resumes this one takes the API for done by its tables.
        if tables is not None:
            tables.write(judged.job.name, judged.of_server, judged.of_pytorch)

    def end(self, report: Report) -> Path:
        """Writes the summary and the report, and returns the report's path."""
        write_line(self._file, {"summary": report.summary()})
        path = self._folder / REPORT
        path.write_text(render(report, program="replay"), encoding="utf-8")
        return path


def _whole_rows(path: Path) -> list[Row]:
    """Returns the rows of a file whose last line a run may not have ended, and cuts that line off."""
    text = path.read_bytes()
    os.truncate(path, text.rfind(b"\n") + 1)
    return read_rows(path)
