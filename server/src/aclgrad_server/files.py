"""Files that the server trusts: who else may change them, and what they hold as of their last change."""

import errno
import grp
import logging
import os
import pwd
import stat
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

log = logging.getLogger(__name__)

LOOK_INTERVAL_S: Final = 0.5
MAX_BYTES: Final = 16 * 2**20  # of a file
MAX_LINKS: Final = 40  # on the way to a file, as for the kernel
_ROOT: Final = 0

Value = TypeVar("Value")


class UnusableFileError(ValueError):
    """A file cannot be used; the message names it, and says why and what to do about it."""


def read_trusted(path: Path) -> bytes:
    """Returns the content of a regular file that no other user can change; raises UnusableFileError."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise UnusableFileError(f"{path} is no file; give the path of one")
        check_trusted(path)
        # If it has become a pipe by now, nobody waits for one who writes to it.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise _unreadable(path, error) from error
    if len(content) > MAX_BYTES:
        raise UnusableFileError(f"{path} has more than {MAX_BYTES >> 20} MiB; give the path of the right file")
    return content


def check_trusted(path: Path) -> None:
    """Raises UnusableFileError if another user can change a file or put another one in its place.

    Only root and the user of the server may own the file, and the folders and links that lead to it, and write to them.
    A file that is not there is named by whoever opens it, but nobody else may be able to put one there meanwhile.
    """
    try:
        for each in _way_to(path):
            if (why := _distrust(each)) is not None:
                raise UnusableFileError(f"{path} is not trusted: {why}")
    except OSError as error:
        raise _unreadable(path, error) from error


def _way_to(path: Path) -> Iterator[Path]:
    """Yields each folder and link that leads to a file, then the file; ends after the first that is not there."""
    at, links = Path("/"), 0
    names = deque(path.absolute().parts)
    while names:
        name = names.popleft()
        each = at.parent if name == ".." else at / name
        yield each
        if each.is_symlink():
            links += 1
            if links > MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            names.extendleft(reversed(each.readlink().parts))
        elif each.exists():
            at = each
        else:
            return


def _unreadable(path: Path, error: OSError) -> UnusableFileError:
    return UnusableFileError(f"{path} cannot be read: {error.strerror or error}; user {os.geteuid()} has to read it")


def _distrust(path: Path) -> str | None:
    """Returns why a file, a folder or a link is not trusted, or that another user can make it; with the remedy."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        if path.parent.stat().st_mode & stat.S_ISVTX:
            return f"it is not there, and others may make it in {path.parent}; give another place, or make it first"
        return None
    is_link = stat.S_ISLNK(status.st_mode)
    if os.statvfs(path.parent if is_link else path).f_flag & os.ST_RDONLY:
        # A container's own view: nobody in it can write there.
        return None
    user = os.geteuid()
    if status.st_uid not in (_ROOT, user):
        return f"{path} belongs to user {status.st_uid}; chown it to {user}, whom the server runs as, or to root"
    if is_link or (stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX):
        # Nobody writes to a link. In a sticky folder, users can replace only what is their own.
        return None
    if status.st_mode & stat.S_IWOTH:
        return f"everybody may write to {path}; chmod o-w {path}"
    if status.st_mode & stat.S_IWGRP and not _is_private_group(status.st_gid, user):
        return f"group {status.st_gid} may write to {path}; chmod g-w {path}"
    return None


def _is_private_group(group: int, user: int) -> bool:
    """Whether the group has the user alone, as many systems make one for each user, of the same name."""
    try:
        own, found = pwd.getpwuid(user), grp.getgrgid(group)
        return own.pw_gid == group and found.gr_name == own.pw_name and set(found.gr_mem) <= {own.pw_name}
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
        self._problem: str | None = None
        self.value = read()

    def look(self) -> None:
        """Reads the files again if they have changed, and as long as they cannot be used."""
        seen, before = self._state(), self._seen
        if seen == before and self._problem is None:
            return
        self._seen, last = seen, self._problem
        try:
            self.value = self._read()
        except Exception as error:
            # The next look tries again: files may be open to the full, or a certificate not be valid yet.
            self._problem = str(error)
            if (seen, self._problem) != (before, last):
                told = "the new %s cannot be used, the last one stays: %s"
                log.error(told, self._what, error, exc_info=not isinstance(error, UnusableFileError))
        else:
            self._problem = None
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
