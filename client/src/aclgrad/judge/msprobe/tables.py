"""The pair of CSV files that acc_check writes for a rank of a step: a line for each API, and a row for each gradient.

`msprobe api_precision_compare` reads the details of two devices, so a pair may have a second details file, of the same
name in the folder `local`. Files are UTF-8 with a BOM, lines end with CRLF, and quotes are those of Python's csv.
"""

import contextlib
import csv
import errno
import io
import os
import re
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, Self

from aclgrad.judge.msprobe.cells import SPACE, TITLE, Row, Status
from aclgrad.new_files import naming

RESULT_TITLE: Final = ("API name", "Forward Test Success", "Backward Test Success", "Message")
LOCAL: Final = "local"
"""The folder of the second device's details."""
_STAMP: Final = "%Y%m%d%H%M%S"


@dataclass(frozen=True, slots=True)
class Tables:
    """One pair of tables. Nothing stays open between two APIs; all methods raise OSError with the name of a file."""

    result: Path
    details: Path
    local: Path | None
    complete: dict[str, str]
    """The status of every API that has its line and its rows, by its name, for example "Functional.pad.0"."""

    @property
    def files(self) -> dict[Path, tuple[str, ...]]:
        """The titles of the files by their paths, the one that is written last at the end."""
        details = [path for path in (self.local, self.details) if path]
        return dict.fromkeys(details, TITLE) | {self.result: RESULT_TITLE}

    @classmethod
    def start(cls, folder: Path, *, local: bool = False) -> Self:
        """Starts a pair of its own beside those that the folder has, and makes the folder if there is none."""
        _make(folder)
        time = datetime.now()
        while True:
            tables = cls._at(folder, f"{time:{_STAMP}}", local=local)
            with contextlib.suppress(FileExistsError):
                tables.result.touch(exist_ok=False)
                break
            time += timedelta(seconds=1)
        for path, title in tables.files.items():
            _make(path.parent)
            _append(path, [title])
        return tables

    @classmethod
    def resume(cls, folder: Path, *, local: bool = False) -> Self:
        """Goes on with the newest pair of the folder, or starts one if there is none.

        A process may have ended anywhere: what it wrote of an API that is not complete is cut. Raises ValueError for
        files of other columns.
        """
        stamps = [match[1] for each in folder.glob("*.csv") if (match := _RESULT_NAME.fullmatch(each.name))]
        if not stamps:
            return cls.start(folder, local=local)
        tables = cls._at(folder, max(stamps), local=local)
        with_rows = {_api(row) for row in _rows(tables.details, TITLE)}
        lines = (row for row in _rows(tables.result, RESULT_TITLE) if row[0] in with_rows)
        tables.complete.update((name, status) for name, _, status, *_ in lines)
        for path, title in tables.files.items():
            _make(path.parent)
            _keep(path, title, tables.complete)
        return tables

    @classmethod
    def _at(cls, folder: Path, stamp: str, *, local: bool) -> Self:
        details = f"accuracy_checking_details_{stamp}.csv"
        second = folder / LOCAL / details if local else None
        return cls(folder / f"accuracy_checking_result_{stamp}.csv", folder / details, second, {})

    def write(self, api: str, rows: Sequence[Row], local: Sequence[Row] = ()) -> Status:
        """Appends the rows of an API's gradients, at least one, and its line, and returns the status in the line.

        `rows` are of the positional tensors, in their order; `local` are the second device's. Raises ValueError for an
        API that is complete: msprobe reads no file in which a name stands twice.
        """
        if api in self.complete:
            raise ValueError(f"{api} has been written to {self.details} already.")
        status = status_of(rows)
        if self.local:
            _append(self.local, _cells(api, local))
        cells = _cells(api, rows)
        _append(self.details, cells)
        # The line comes last: whoever finds it finds the rows as well.
        _append(self.result, [[api, SPACE, status, *cells[0][-1:]] if status is Status.SKIP else [api, SPACE, status]])
        self.complete[api] = status
        return status


def status_of(rows: Iterable[Row]) -> Status:
    """Returns the status of an API: the worst of its rows; skipped ones count only if there are no others."""
    found = {row.status for row in rows}
    return next(each for each in (Status.ERROR, Status.WARNING, Status.PASS, Status.SKIP) if each in found)


def is_readable(path: Path) -> bool:
    """Returns whether msprobe reads a file of this name: it refuses blanks and most signs anywhere in the full path."""
    return re.fullmatch(r"[a-zA-Z0-9_.:/-]+", str(path.resolve())) is not None


_RESULT_NAME: Final = re.compile(r"accuracy_checking_result_(\d{14})\.csv")


def _cells(api: str, rows: Iterable[Row]) -> list[list[str]]:
    return [row.cells(f"{api}.backward.output.{index}") for index, row in enumerate(rows)]


def _api(row: Sequence[str]) -> str:
    """Returns the API of a row of details, whose name goes on with ".backward.output.0"."""
    return row[0].rsplit(".", 3)[0]


def _rows(path: Path, title: Sequence[str]) -> list[list[str]]:
    """Returns the whole rows of a table that may end in the middle of one, without its title."""
    text = path.read_bytes().decode("utf-8-sig", "replace") if path.exists() else ""
    rows: list[list[str]] = []
    # A quote that is still open at the end is an error of the last row.
    with contextlib.suppress(csv.Error):
        for row in csv.reader(io.StringIO(text[: text.rfind("\n") + 1], newline=""), strict=True):
            rows += [row] if len(row) >= 3 else []
    if rows and rows[0] != list(title):
        raise ValueError(f"{path} has other columns than acc_check's tables: name another folder.")
    return rows[1:]


def _keep(path: Path, title: Sequence[str], apis: Container[str]) -> None:
    """Writes the table anew with the rows of these APIs; whoever looks in the meantime sees the old one or the new."""
    kept = [row for row in _rows(path, title) if (row[0] if title is RESULT_TITLE else _api(row)) in apis]
    new = path.with_suffix(".new")
    new.unlink(missing_ok=True)
    _append(new, [title, *kept])
    os.replace(new, path)


def _append(path: Path, rows: Iterable[Sequence[str]]) -> None:
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    with naming(path), path.open("ab") as file:
        file.write(text.getvalue().encode("utf-8-sig" if file.tell() == 0 else "utf-8"))


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise NotADirectoryError(errno.ENOTDIR, "A file is in the way of the folder for tables", str(folder)) from None
