"""Files that the server trusts: who else may change them, and what they hold as of their last change."""

import grp
import logging
import os
import pwd
import stat
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

log = logging.getLogger(__name__)

LOOK_INTERVAL_S: Final = 0.5
_ROOT: Final = 0

Value = TypeVar("Value")


class UnusableFileError(ValueError):
    """A file cannot be used; the message names it, and says why and what to do about it."""


def read_trusted(path: Path) -> bytes:
    """Returns the content of a regular file that no other user can change; raises UnusableFileError."""
    check_trusted(path)
    try:
        return path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from error


def check_trusted(path: Path) -> None:
    """Raises UnusableFileError if another user can change the file or put another one in its place.

    Only root and the user of the server may own it and the folders above it, and write to them.
    """
    try:
        real = path.resolve(strict=True)
        if not real.is_file():
            raise UnusableFileError(f"{path} is no file; give the path of one")
        for each in dict.fromkeys((real, *real.parents, *path.absolute().parents)):
            if (why := _distrust(each)) is not None:
                raise UnusableFileError(f"{path} is not trusted: {why}")
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> UnusableFileError:
    return UnusableFileError(f"{path} cannot be read: {error.strerror or error}; user {os.geteuid()} has to read it")


def _distrust(path: Path) -> str | None:
    """Returns why a file or a folder is not trusted, with the remedy."""
    status = path.stat()
    if os.statvfs(path).f_flag & os.ST_RDONLY:
        # A container's own view: nobody in it can write there.
        return None
    user = os.geteuid()
    if status.st_uid not in (_ROOT, user):
        return f"{path} belongs to user {status.st_uid}; chown it to {user}, whom the server runs as, or to root"
    if status.st_mode & stat.S_ISVTX and stat.S_ISDIR(status.st_mode):
        # In such a folder, users can replace only what is their own.
        return None
    if status.st_mode & stat.S_IWOTH:
        return f"everybody may write to {path}; chmod o-w {path}"
    if status.st_mode & stat.S_IWGRP and not _is_private_group(status.st_gid, user):
        return f"group {status.st_gid} may write to {path}; chmod g-w {path}"
    return None


def _is_private_group(group: int, user: int) -> bool:
    """Whether the group has the user alone, as many systems make one for each user."""
    try:
        own = pwd.getpwuid(user)
        return own.pw_gid == group and set(grp.getgrgid(group).gr_mem) <= {own.pw_name}
    except KeyError:
        return False


class Reloaded(Generic[Value]):
    """What files hold: `value` follows their changes, and stays as it is while they cannot be used."""

    def __init__(self, what: str, files: Sequence[Path], read: Callable[[], Value]) -> None:
        """Raises what `read` raises: an UnusableFileError if the files cannot be used."""
        self._what = what
        self._files = files
        self._read = read
        # Before they are read: a change amid that is seen by the next look.
        self._seen = self._state()
        self.value = read()

    def look(self) -> None:
        """Reads the files again if they have changed."""
        seen = self._state()
        if seen == self._seen:
            return
        self._seen = seen
        try:
            self.value = self._read()
        except UnusableFileError as error:
            log.error("the new %s cannot be used, the last one stays: %s", self._what, error)
        except Exception:
            log.exception("the new %s cannot be used, the last one stays", self._what)
        else:
            log.info("%s: read again", self._what)

    def _state(self) -> list[tuple[int, ...] | None]:
        return [_state_of(file) for file in self._files]


def _state_of(file: Path) -> tuple[int, ...] | None:
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


class FileWatch:
    """Looks at files on a thread of its own, because a disk may hang, until `stop`."""

    def __init__(self, watched: Sequence[Reloaded[Any]], interval_s: float = LOOK_INTERVAL_S) -> None:
        self._watched = watched
        self._interval_s = interval_s
        self._stopped = threading.Event()
        if watched:
            threading.Thread(target=self._run, name="file-watch", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(self._interval_s):
            for each in self._watched:
                each.look()
