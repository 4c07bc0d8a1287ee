"""Files that the server trusts: checks of their permissions, and contents that follow changes."""

import logging
import os
import stat
import threading
import tomllib
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from aclgrad_server.exits import StartError

log = logging.getLogger(__name__)

LOOK_INTERVAL_S: Final = 0.5
MAX_BYTES: Final = 16 * 2**20  # of a file
_ROOT: Final = 0

Value = TypeVar("Value")


class UnusableFileError(StartError, ValueError):
    """A file cannot be used; the message names it, and says why and what to do about it."""


def read_trusted(path: Path, *, is_key: bool = False) -> bytes:
    """Returns a file's content; raises UnusableFileError if everybody can change it, or if others can read a key."""
    try:
        # Does not wait for the writer of a pipe.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise UnusableFileError(f"{path} is no file; give the path of one")
            _check(path, status, is_key)
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError as error:
        raise UnusableFileError(f"there is no file {path}; correct the path, or put the file there") from error
    except OSError as error:
        remedy = f"user {os.geteuid()} has to read it"
        raise UnusableFileError(f"{path} cannot be read: {error.strerror or error}; {remedy}") from error
    if len(content) > MAX_BYTES:
        raise UnusableFileError(f"{path} has more than {MAX_BYTES >> 20} MiB; give the path of the right file")
    return content


def read_trusted_toml(path: Path) -> dict[str, Any]:
    """Returns the content of a TOML file; raises UnusableFileError, also if everybody can change it."""
    content = read_trusted(path)
    try:
        return tomllib.loads(content.decode())
    except (ValueError, RecursionError) as error:
        # Other errors: a number of thousands of digits, or thousands of brackets.
        raise UnusableFileError(f"{path} is no TOML: {error}") from error


def check_trusted(path: Path) -> None:
    """Raises UnusableFileError if everybody can change a file; a missing file is reported when it is opened."""
    with suppress(OSError):
        _check(path, path.stat(), is_key=False)


def _check(path: Path, status: os.stat_result, is_key: bool) -> None:
    """A key has PostgreSQL's rule: 0600 or less, or 0640 or less if root owns it, as in a Secret of Kubernetes."""
    user, owner = os.geteuid(), status.st_uid
    if status.st_mode & stat.S_IWOTH:
        raise UnusableFileError(f"{path} is not trusted: everybody may write to {path}; chmod o-w {path}")
    if is_key and owner not in (_ROOT, user):
        raise UnusableFileError(
            f"{path} belongs to user {owner}; chown it to {user}, whom the server runs as, or to root"
        )
    if is_key and status.st_mode & (0o037 if owner == _ROOT else 0o077):
        raise UnusableFileError(f"others may use the key {path}; chmod it to 0600, or to 0640 if root owns it")


class Reloaded(Generic[Value]):
    """The content of files: `value` follows their changes, and keeps the last usable one."""

    def __init__(self, what: str, files: Sequence[Path], read: Callable[[], Value]) -> None:
        """Raises what `read` raises: an UnusableFileError if the files cannot be used."""
        self._what = what
        self._files = files
        self._read = read
        # Before they are read, so that the next check sees a change made meanwhile.
        self._seen = self._state()
        self._problem: str | None = None
        self.value = read()

    def look(self) -> None:
        """Rereads the files if they have changed, or could not be used last time."""
        seen, problem = self._state(), None
        if seen == self._seen and self._problem is None:
            return
        try:
            self.value = self._read()
            log.info("%s: read again", self._what)
        except Exception as error:
            # The next check tries again: file descriptors may be exhausted, or a certificate not valid yet.
            problem = str(error)
            if (seen, problem) != (self._seen, self._problem):
                told = "the new %s cannot be used, the last one stays: %s"
                log.error(told, self._what, error, exc_info=not isinstance(error, UnusableFileError))
        self._seen, self._problem = seen, problem

    def _state(self) -> list[tuple[int, ...]]:
        found: list[tuple[int, ...]] = []
        for file in self._files:
            with suppress(OSError):
                seen = file.stat()
                found.append((seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns))
        return found


def watch_files(files: Sequence[Reloaded[Any]], end: threading.Event, interval_s: float = LOOK_INTERVAL_S) -> None:
    """Checks files on a thread of its own, because a disk may hang, until the event is set."""

    def look() -> None:
        while not end.wait(interval_s):
            for each in files:
                each.look()

    if files:
        threading.Thread(target=look, name="file-watch", daemon=True).start()
