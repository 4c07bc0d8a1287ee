"""Files that a program writes: none is replaced unless asked, and none is left half written."""

import errno
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


def check_unwritten(path: Path, *, overwrite: bool) -> None:
    """Raises ValueError if the file exists and must not be replaced."""
    if path.exists() and not overwrite:
        raise ValueError(f"{path} exists; give another file, or --force to replace it")


def checked_folder(path: Path) -> None:
    """Raises ValueError if the folder of a file to write does not exist, before any work is done."""
    if not path.parent.is_dir():
        raise ValueError(f"{path} cannot be written: there is no folder {path.parent}; make it first")


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Yields a file that gets this path at the end of the block; an error or Ctrl-C leaves the old file."""
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with unfinished.open("xb") as file:
            yield file
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Adds the file's name to errors of the block: a full disk's error, raised when bytes are written, has none."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def is_of_output(error: OSError) -> bool:
    """Returns whether the program's own output could not be written; the error of a file would name it."""
    return error.errno in (errno.ENOSPC, errno.EPIPE) and error.filename is None
