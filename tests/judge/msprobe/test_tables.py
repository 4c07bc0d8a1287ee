"""Pairs of tables: their bytes beside msprobe's, what a killed process leaves, and folders that are of no use."""

import csv
import errno
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aclgrad.judge.msprobe import tables as module
from aclgrad.judge.msprobe.cells import Row, Status, skipped
from aclgrad.judge.msprobe.tables import Tables, status_of

MSPROBE = Path(__file__).parent / "acc_check"
PASS, WARNING, ERROR, SKIP = (Row(status, "two\nlines", ("a", "b", "(1, 2)")) for status in Status)


def read(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.reader(file, strict=True))


def names(path: Path) -> list[str]:
    return [row[0] for row in read(path)[1:]]


def test_files_are_written_as_msprobe_writes_them(tmp_path: Path) -> None:
    tables = Tables.start(tmp_path)
    tables.write("Functional.pad.0", [PASS, SKIP])
    tables.write("Functional.pad.1", [skipped('says "no"')])
    title = b"\xef\xbb\xbfAPI name,Forward Test Success,Backward Test Success,Message\r\n"
    lines = b'Functional.pad.0, ,pass\r\nFunctional.pad.1, ,SKIP,"says ""no"""\r\n'
    assert tables.result.read_bytes() == title + lines
    details = tables.details.read_bytes()
    assert details.startswith(b"\xef\xbb\xbfAPI Name,Bench Dtype,")
    assert b'\r\nFunctional.pad.0.backward.output.0,a,b,"(1, 2)", , ' in details
    assert details.count(b"\xef\xbb\xbf") == 1
    assert details.endswith(b' ,SKIP,"says ""no"""\r\n')


@pytest.mark.parametrize("sample", ["float32", "bfloat16"])
def test_a_pair_of_msprobe_is_read_and_written_without_a_change(tmp_path: Path, sample: str) -> None:
    pair = {kind: tmp_path / f"accuracy_checking_{kind}_20261122101112.csv" for kind in ("result", "details")}
    for kind, path in pair.items():
        shutil.copy(MSPROBE / f"{sample}.{kind}.csv", path)
    tables = Tables.resume(tmp_path)
    assert (len(tables.complete), tables.complete["Functional.max_pool2d.1"]) == (28, "SKIP")
    for kind, path in pair.items():
        assert path.read_bytes() == (MSPROBE / f"{sample}.{kind}.csv").read_bytes()


@pytest.mark.parametrize(
    ("rows", "status"),
    [
        ([PASS, WARNING, ERROR, SKIP], Status.ERROR),
        ([SKIP, WARNING, PASS], Status.WARNING),
        ([SKIP, PASS], Status.PASS),
        ([SKIP, SKIP], Status.SKIP),
    ],
)
def test_the_worst_row_decides_and_skipped_ones_do_not_count(rows: list[Row], status: Status) -> None:
    assert status_of(rows) is status


def test_pairs_of_the_same_second_have_their_own_files(tmp_path: Path) -> None:
    pairs = [Tables.start(tmp_path) for _ in range(4)]
    assert len({pair.result for pair in pairs}) == len({pair.details for pair in pairs}) == 4
    assert [pair.details.name for pair in pairs] == sorted(pair.details.name for pair in pairs)


def test_an_api_cannot_be_written_twice(tmp_path: Path) -> None:
    Tables.start(tmp_path).write("Functional.pad.0", [PASS])
    tables = Tables.resume(tmp_path)
    with pytest.raises(ValueError, match=r"Functional\.pad\.0 has been written to"):
        tables.write("Functional.pad.0", [PASS])


def test_resuming_goes_on_with_the_newest_pair(tmp_path: Path) -> None:
    Tables.start(tmp_path).write("Functional.pad.0", [PASS])
    newest = Tables.start(tmp_path)
    newest.write("Functional.pad.1", [ERROR])
    resumed = Tables.resume(tmp_path)
    assert (resumed.result, resumed.complete) == (newest.result, {"Functional.pad.1": "error"})
    resumed.write("Functional.pad.2", [PASS])
    assert names(newest.result) == ["Functional.pad.1", "Functional.pad.2"]


def written(folder: Path) -> tuple[Tables, list[bytes]]:
    """Returns a pair with three APIs, and the bytes of its files."""
    tables = Tables.start(folder, local=True)
    for index in range(3):
        tables.write(f"Functional.pad.{index}", [PASS, ERROR], [PASS, PASS])
    return tables, [path.read_bytes() for path in tables.files]


def test_a_process_killed_at_any_byte_leaves_a_pair_to_go_on_with(tmp_path: Path) -> None:
    tables, whole = written(tmp_path)
    apis = [f"Functional.pad.{index}" for index in range(3)]
    # What a process writes, in its order: its last API, piece by piece.
    pieces = [data[data.index(b"Functional.pad.2") :] for data in whole]
    rests = [data[: -len(piece)] for data, piece in zip(whole, pieces, strict=True)]
    for cut in range(0, sum(map(len, pieces)), 7):
        left = cut
        for path, rest, piece in zip(tables.files, rests, pieces, strict=True):
            path.write_bytes(rest + piece[: max(left, 0)])
            left -= len(piece)
        resumed = Tables.resume(tmp_path, local=True)
        assert list(resumed.complete) == apis[:2]
        resumed.write(apis[2], [PASS, ERROR], [PASS, PASS])
        assert [path.read_bytes() for path in tables.files] == whole


def test_a_process_killed_while_it_started_leaves_a_pair_to_go_on_with(tmp_path: Path) -> None:
    tables = Tables.start(tmp_path)
    title = tables.details.read_bytes()
    for cut in (0, 2, 40, len(title) - 1):
        tables.details.write_bytes(title[:cut])
        tables.result.write_bytes(b"")
        assert Tables.resume(tmp_path).complete == {}
        assert tables.details.read_bytes() == title
    tables.details.unlink()
    Tables.resume(tmp_path)
    assert tables.details.read_bytes() == title


def test_a_second_device_may_join_later(tmp_path: Path) -> None:
    Tables.start(tmp_path).write("Functional.pad.0", [PASS])
    tables = Tables.resume(tmp_path, local=True)
    tables.write("Functional.pad.1", [PASS], [ERROR])
    assert tables.local == tmp_path / "local" / tables.details.name
    assert names(tables.local) == ["Functional.pad.1.backward.output.0"]
    assert len(names(tables.details)) == 2


def test_tables_of_other_columns_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "accuracy_checking_result_20260101000000.csv"
    path.write_bytes(b"Name,Verdict,Note\r\npad,good,\r\n")
    with pytest.raises(ValueError, match="has other columns than acc_check's"):
        Tables.resume(tmp_path)
    assert path.read_bytes() == b"Name,Verdict,Note\r\npad,good,\r\n"


@pytest.mark.parametrize("make", [Tables.start, Tables.resume])
def test_a_file_in_the_way_is_named(tmp_path: Path, make: Callable[..., Tables]) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(NotADirectoryError, match="file"):
        make(tmp_path / "file")
    with pytest.raises(NotADirectoryError, match="file"):
        make(tmp_path / "file" / "below")


@pytest.mark.skipif(sys.platform != "linux", reason="a device that is always full")
def test_a_full_disk_is_an_error_with_the_name_of_the_file(tmp_path: Path) -> None:
    tables = Tables.start(tmp_path)
    tables.details.unlink()
    tables.details.symlink_to("/dev/full")
    with pytest.raises(OSError, match="details") as raised:
        tables.write("Functional.pad.0", [PASS])
    assert (raised.value.errno, raised.value.filename) == (errno.ENOSPC, str(tables.details))
    assert names(tables.result) == []
    assert "Functional.pad.0" not in tables.complete


def test_a_table_is_whole_while_it_is_written_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables, whole = written(tmp_path)

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module.os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Tables.resume(tmp_path, local=True)
    assert [path.read_bytes() for path in tables.files] == whole
