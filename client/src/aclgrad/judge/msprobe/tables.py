"""The pair of CSV files of acc_check for a rank of a step: a line for each API, and a row for each gradient.

`msprobe api_precision_compare` reads the details of two devices, so a pair may have a second details file, of the same
name in the folder `local`. Files are UTF-8 with a BOM, lines end with CRLF, and quoting is that of Python's csv.
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
    """One pair of tables. No file stays open between two APIs; all methods raise OSError with the name of a file."""

    result: Path
    details: Path
    local: Path | None
    complete: dict[str, str]
    """The status of every complete API by name, for example "Functional.pad.0"."""

    @property
    def files(self) -> dict[Path, tuple[str, ...]]:
        """The titles of the files by path, in the order of writing."""
        details = [path for path in (self.local, self.details) if path]
        return dict.fromkeys(details, TITLE) | {self.result: RESULT_TITLE}

    @classmethod
    def start(cls, folder: Path, *, local: bool = False) -> Self:
        """Starts a new pair in the folder, which is made if it does not exist."""
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
        """Continues the newest pair of the folder, or starts one if there is none.

        Removes the rows of an incomplete API, because a process may have ended anywhere. Raises ValueError for files
        with other columns.
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
        """Appends the rows of an API's gradients, at least one, and its line, and returns the line's status.

        `rows` are of the positional tensors in order; `local` are the second device's. Raises ValueError if the API is
        complete: msprobe refuses a file with a repeated name.
        """
        if api in self.complete:
            raise ValueError(f"{api} has been written to {self.details} already.")
        status = status_of(rows)
        if self.local:
            _append(self.local, _cells(api, local))
        cells = _cells(api, rows)
        _append(self.details, cells)
        # The line is last, so that its rows exist whenever it does.
        _append(self.result, [[api, SPACE, status, *cells[0][-1:]] if status is Status.SKIP else [api, SPACE, status]])
        self.complete[api] = status
        return status


def status_of(rows: Iterable[Row]) -> Status:
    """Returns the status of an API: the worst of its rows; skipped ones count only if there are no others."""
    found = {row.status for row in rows}
    return next(each for each in (Status.ERROR, Status.WARNING, Status.PASS, Status.SKIP) if each in found)


def is_readable(path: Path) -> bool:
    """Returns whether msprobe reads this path: it refuses blanks and most punctuation anywhere in the full path."""
    return re.fullmatch(r"[a-zA-Z0-9_.:/-]+", str(path.resolve())) is not None


_RESULT_NAME: Final = re.compile(r"accuracy_checking_result_(\d{14})\.csv")


def _cells(api: str, rows: Iterable[Row]) -> list[list[str]]:
    return [row.cells(f"{api}.backward.output.{index}") for index, row in enumerate(rows)]


def _api(row: Sequence[str]) -> str:
    """Returns the API of a row of details, whose name continues with ".backward.output.0"."""
    return row[0].rsplit(".", 3)[0]


def _rows(path: Path, title: Sequence[str]) -> list[list[str]]:
    """Returns the whole rows of a table that may end in the middle of one, without its title."""
    text = path.read_bytes().decode("utf-8-sig", "replace") if path.exists() else ""
    rows: list[list[str]] = []
    # An open quote at the end is an error of the last row.
    with contextlib.suppress(csv.Error):
        for row in csv.reader(io.StringIO(text[: text.rfind("\n") + 1], newline=""), strict=True):
            rows += [row] if len(row) >= 3 else []
    if rows and rows[0] != list(title):
        raise ValueError(f"{path} has other columns than acc_check's tables: name another folder.")
    return rows[1:]


def _keep(path: Path, title: Sequence[str], apis: Container[str]) -> None:
    """Replaces the table atomically by one with only the rows of these APIs."""
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
