"""The members of a zip file that anybody may have made: bounded before anything is inflated, and never unpacked."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, Final
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

from aclgrad.judge.bundles.bundle import MAX_BUNDLE_BYTES, MAX_TEXT_BYTES
from aclgrad.units import size

_END: Final = 22
_LOCATOR: Final = 20
"""Bytes of a zip file's last record, and of the one before it in a file of the 64-bit form (APPNOTE.TXT 4.3)."""


class Members:
    """The members of an archive, by name."""

    def __init__(self, archive: ZipFile) -> None:
        """Raises ValueError for members that could inflate to more than the limit, or that could not be read."""
        self._archive = archive
        self._members = {each.filename: each for each in archive.infolist()}
        if len(self._members) < len(archive.infolist()):
            raise ValueError("two of its members have the same name")
        for each in self._members.values():
            _check_form(each)
        if sum(each.file_size for each in self._members.values()) > MAX_BUNDLE_BYTES:
            remedy = "unpack it and run its repeat.py, once you have read that script"
            raise ValueError(f"it holds more than {size(MAX_BUNDLE_BYTES)}; {remedy}")

    @property
    def names(self) -> set[str]:
        return set(self._members)

    def content(self, name: str, limit: int = MAX_BUNDLE_BYTES) -> bytes:
        """Returns a member's bytes; raises ValueError if there are none of this name, or not those that are listed."""
        member = self._members.get(name)
        if member is None:
            raise ValueError(f"it has no {name}")
        if member.file_size > limit:
            raise ValueError(f"{name} has more than {size(limit)}")
        try:
            with self._archive.open(member) as file:
                # Without a size zipfile would inflate whatever is there, before it looks at the size in the list.
                content = file.read(member.file_size)
        except Exception as error:  # whatever damaged headers and streams make zipfile and zlib raise
            raise ValueError(f"{name} is damaged: {error}") from error
        if len(content) < member.file_size:
            raise ValueError(f"{name} is shorter than the archive says")
        return content


@contextmanager
def opened(file: BinaryIO) -> Iterator[Members]:
    """Yields the members of a zip file; raises ValueError or zipfile's errors for one that it does not trust."""
    _check_list(file)
    with ZipFile(file) as archive:
        yield Members(archive)


def _check_list(file: BinaryIO) -> None:
    """Bounds the list of members, which zipfile reads as a whole when it opens a file."""
    end = file.seek(0, os.SEEK_END)
    file.seek(max(0, end - _END - _LOCATOR))
    tail = file.read()
    last = tail[-_END:]
    if last[:4] != b"PK\5\6" or last[-2:] != b"\0\0" or tail[:4] == b"PK\6\7":
        raise ValueError(
            "it is no zip file, or it is cut, has a comment or is of the 64-bit form; pack it again with zip"
        )
    if int.from_bytes(last[12:16], "little") > MAX_TEXT_BYTES:
        raise ValueError(f"its list of members has more than {size(MAX_TEXT_BYTES)}")


def _check_form(member: ZipInfo) -> None:
    if member.flag_bits & 1:
        raise ValueError(f"{member.filename!r} is encrypted; have it sent without a password")
    # zipfile bounds what these two inflate to at a time, and no others.
    if member.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
        raise ValueError(f"{member.filename!r} is neither stored nor deflated; pack it again with zip")
