"""Files that a program writes: none is replaced unasked, and none is left half written."""

import errno
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


def check_unwritten(path: Path, *, overwrite: bool) -> None:
    """Raises ValueError if the file exists and is not to be replaced."""
    if path.exists() and not overwrite:
        raise ValueError(f"{path} exists; give another file, or --force to replace it")


def checked_folder(path: Path) -> None:
    """Raises ValueError if the folder of a file to write does not exist: otherwise the work would be for nothing."""
    if not path.parent.is_dir():
        raise ValueError(f"{path} cannot be written: there is no folder {path.parent}; make it first")


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Yields a file that gets this path when the block has ended; an error or Ctrl-C in it leaves what was there."""
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with unfinished.open("xb") as file:
            yield file
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Names the file in errors of the block: that of a full disk comes when bytes are written, and has no name."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def is_of_output(error: OSError) -> bool:
    """Says whether the program's own output could not be written, and no file, which its error would name."""
    return error.errno in (errno.ENOSPC, errno.EPIPE) and error.filename is None
