"""Files that the server trusts: whose they may be, and what happens when they change."""

import logging
import os
from pathlib import Path

import pytest

from aclgrad_server.files import FileWatch, Reloaded, UnusableFileError, check_trusted, read_trusted
from tools.calling import wait_until


def test_files_that_others_may_change_are_refused_with_the_remedy(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    file = folder / "settings.toml"
    file.write_text("streams = 1\n")
    assert read_trusted(file) == b"streams = 1\n"
    link = tmp_path / "link.toml"
    link.symlink_to(file)
    for path, mode, told in (
        (file, 0o646, f"everybody may write to {file}; chmod o-w"),
        (folder, 0o757, f"everybody may write to {folder}; chmod o-w"),
    ):
        before = path.stat().st_mode
        path.chmod(mode)
        for asked in (file, link):
            with pytest.raises(UnusableFileError, match=told):
                check_trusted(asked)
        path.chmod(before)
    # In a folder like /tmp, nobody replaces what is another's.
    folder.chmod(0o1777)
    check_trusted(link)
    for path in (folder, tmp_path / "missing", tmp_path / "missing/folder", file / "below"):
        with pytest.raises(UnusableFileError, match=str(path)):
            read_trusted(path)


def test_each_link_on_the_way_counts(tmp_path: Path) -> None:
    """Whoever can change a link chooses the file, whosever that is."""
    (file := tmp_path / "file").touch()
    (open_folder := tmp_path / "open").mkdir()
    (inner := open_folder / "inner").symlink_to(file)
    (outer := tmp_path / "outer").symlink_to("open/../open/inner")
    check_trusted(outer)
    open_folder.chmod(0o777)
    with pytest.raises(UnusableFileError, match=f"{outer} is not trusted: everybody may write to {open_folder}"):
        check_trusted(outer)
    open_folder.chmod(0o1777)
    check_trusted(outer)
    if os.geteuid() == 0:
        os.chown(inner, 12345, 0, follow_symlinks=False)
        with pytest.raises(UnusableFileError, match=f"{inner} belongs to user 12345"):
            check_trusted(outer)
    (circle := tmp_path / "circle").symlink_to(circle)
    with pytest.raises(UnusableFileError, match=f"{circle} cannot be read: Too many levels of symbolic links"):
        check_trusted(circle)


def test_file_that_is_not_there_or_no_file_of_a_sane_size_is_refused_at_once(tmp_path: Path) -> None:
    check_trusted(tmp_path / "library.so")
    tmp_path.chmod(0o1777)
    with pytest.raises(UnusableFileError, match=f"it is not there, and others may make it in {tmp_path}; "):
        check_trusted(tmp_path / "library.so")
    os.mkfifo(fifo := tmp_path / "fifo")
    (huge := tmp_path / "huge").touch()
    os.truncate(huge, 2**40)
    for path, told in ((fifo, "is no file"), (Path("/dev/zero"), "is no file|not trusted"), (huge, "more than 16 MiB")):
        with pytest.raises(UnusableFileError, match=told):
            read_trusted(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_files_of_other_users_and_groups_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.touch()
    os.chown(file, 12345, 0)
    with pytest.raises(UnusableFileError, match=f"{file} belongs to user 12345; chown it to 0"):
        check_trusted(file)
    os.chown(file, 0, 12345)
    check_trusted(file)
    file.chmod(0o664)
    with pytest.raises(UnusableFileError, match="group 12345 may write"):
        check_trusted(file)


def test_value_follows_the_file_and_stays_while_it_cannot_be_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "number"
    file.write_text("1")

    def read() -> int:
        if is_full:
            raise UnusableFileError("too many open files")
        text = read_trusted(file)
        if not text:
            raise UnusableFileError(f"{file} is empty")
        return int(text)

    is_full = False
    number = Reloaded("number", [file], read)
    assert number.value == 1
    caplog.set_level(logging.INFO)
    for content, value, told in (
        ("22", 22, "number: read again"),
        ("", 22, "the last one stays: "),
        ("word", 22, "the last one stays"),
        (None, 22, "cannot be read"),
        ("4444", 4444, "number: read again"),
    ):
        caplog.clear()
        file.unlink(missing_ok=True)
        if content is not None:
            file.write_text(content)
        number.look()
        number.look()
        assert number.value == value
        assert [told in record.getMessage() for record in caplog.records] == [True]
    # It is tried until it can be read: the next change of the file may be months away.
    is_full = True
    file.write_text("55555")
    number.look()
    is_full = False
    number.look()
    assert number.value == 55555


def test_watch_sees_a_change(tmp_path: Path) -> None:
    file = tmp_path / "text"
    file.write_text("one")
    text = Reloaded("text", [file], lambda: read_trusted(file))
    watch = FileWatch([text], interval_s=0.01)
    file.write_text("another")
    wait_until(lambda: text.value == b"another")
    watch.stop()
