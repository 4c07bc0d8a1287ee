"""Files that the server trusts: whose they may be, and what happens when they change."""

import logging
import os
import threading
from pathlib import Path

import pytest

from aclgrad_server.files import Reloaded, UnusableFileError, check_trusted, read_trusted, watch_files
from tools.calling import wait_until


def test_files_that_everybody_may_change_are_refused_with_the_remedy(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("streams = 1\n")
    link = tmp_path / "link.toml"
    link.symlink_to(file)
    assert read_trusted(link) == b"streams = 1\n"
    check_trusted(tmp_path / "missing")
    file.chmod(0o646)
    for look in (read_trusted, check_trusted):
        with pytest.raises(UnusableFileError, match=f"{link} is not trusted: everybody may write to {link}; chmod o-w"):
            look(link)


@pytest.mark.parametrize(
    ("owner", "mode", "told"),
    [
        ("own", 0o600, None),
        ("own", 0o400, None),
        ("own", 0o640, "others may use the key .*; chmod it to 0600"),
        ("own", 0o604, "others may use the key"),
        ("root", 0o640, None),
        ("root", 0o440, None),
        ("root", 0o660, "others may use the key"),
        ("root", 0o444, "others may use the key"),
        ("another", 0o600, "belongs to user 12346; chown it to 12345"),
    ],
)
@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_key_has_the_rule_of_postgresql(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: str, mode: int, told: str | None
) -> None:
    """The manifests for Kubernetes mount root's with 0440."""
    (key := tmp_path / "key").write_text("secret")
    key.chmod(mode)
    os.chown(key, {"own": 12345, "root": 0, "another": 12346}[owner], 0)
    monkeypatch.setattr("aclgrad_server.files.os.geteuid", lambda: 12345)
    if told is None:
        assert read_trusted(key, is_key=True) == b"secret"
        return
    with pytest.raises(UnusableFileError, match=told):
        read_trusted(key, is_key=True)


def test_what_is_no_file_of_a_sane_size_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(fifo := tmp_path / "fifo")
    (huge := tmp_path / "huge").touch()
    os.truncate(huge, 2**40)
    (circle := tmp_path / "circle").symlink_to(circle)
    for path, told in (
        (fifo, "is no file"),
        (Path("/dev/zero"), "is no file"),
        (tmp_path, "is no file|Is a directory"),
        (tmp_path / "missing", "there is no file .*missing; correct the path"),
        (huge / "below", "Not a directory"),
        (circle, "Too many levels of symbolic links"),
        (huge, "more than 16 MiB"),
    ):
        with pytest.raises(UnusableFileError, match=told):
            read_trusted(path)


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
        (None, 22, "there is no file"),
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
    watch_files([text], end := threading.Event(), interval_s=0.01)
    file.write_text("another")
    wait_until(lambda: text.value == b"another")
    end.set()
