"""Files that the server trusts: whose they may be, and what happens when they change."""

import logging
import os
from pathlib import Path

import pytest

from aclgrad_server.files import FileWatch, Reloaded, UnusableFileError, check_trusted, read_trusted
from tests.calling import wait_until


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
    for path in (folder, tmp_path / "missing"):
        with pytest.raises(UnusableFileError, match=str(path)):
            check_trusted(path)


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
        text = read_trusted(file)
        if not text:
            raise UnusableFileError(f"{file} is empty")
        return int(text)

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


def test_watch_sees_a_change(tmp_path: Path) -> None:
    file = tmp_path / "text"
    file.write_text("one")
    text = Reloaded("text", [file], lambda: read_trusted(file))
    watch = FileWatch([text], interval_s=0.01)
    file.write_text("another")
    wait_until(lambda: text.value == b"another")
    watch.stop()
