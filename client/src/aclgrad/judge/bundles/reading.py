"""Reads a bundle from an untrusted file: nothing is run or unpacked, and sizes are checked first."""

import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeVar
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

import numpy as np

import aclgrad
from aclgrad.judge.bundles.bundle import (
    EXPECTED,
    FORMAT,
    GRADIENTS,
    INPUTS,
    MAX_BUNDLE_BYTES,
    MAX_TEXT_BYTES,
    PROGRAM,
    README,
    REPEAT,
    Bundle,
    JudgedProgram,
    file_of,
    stored_dtype,
    stored_shape,
)
from aclgrad.judge.programs.form import program_of
from aclgrad.judge.programs.program import Array, Program, Returned
from aclgrad.operators.spec import Tolerance
from aclgrad.tensors import DTYPES, DType, TensorType
from aclgrad.units import size
from aclgrad.wire.limits import MAX_NAME, MAX_RANK

_END: Final = 22
_LOCATOR: Final = 20
"""Bytes of a zip file's last record, and of the one before it in the 64-bit form (APPNOTE.TXT 4.3)."""
_PARTS: Final = {part: file_of(part) for part in (INPUTS, GRADIENTS, EXPECTED)}
_OF_PROGRAM: Final = ("steps", "returned")
_NAME: Final = re.compile(r"[\w.]+", re.ASCII)
_KNOWN: Final = {PROGRAM, *_PARTS.values(), REPEAT, README}
_WIDE: Final = (np.dtype(np.float64), np.dtype(np.complex128))
_STORED_NAMES: Final = {
    **{f"float{bits}": f"F{bits}" for bits in (16, 32, 64)},
    **{f"int{bits}": f"I{bits}" for bits in (8, 16, 32, 64)},
    "uint8": "U8",
    "bool": "BOOL",
    "bfloat16": "BF16",
}
"""The names of dtypes in safetensors."""


class Members:
    """The members of an archive, by name."""

    def __init__(self, archive: ZipFile) -> None:
        """Raises ValueError if members could inflate beyond the limit, or could not be read."""
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
        """Returns a member's bytes; raises ValueError if it is missing, or not as listed."""
        member = self._members.get(name)
        if member is None:
            raise ValueError(f"it has no {name}")
        if member.file_size > limit:
            raise ValueError(f"{name} has more than {size(limit)}")
        try:
            with self._archive.open(member) as file:
                # Without a size, zipfile would inflate everything before it checks the listed size.
                content = file.read(member.file_size)
        except Exception as error:  # of damaged headers and streams
            raise ValueError(f"{name} is damaged: {error}") from error
        if len(content) < member.file_size:
            raise ValueError(f"{name} is shorter than the archive says")
        return content


@contextmanager
def opened(file: BinaryIO) -> Iterator[Members]:
    """Yields the members of a zip file; raises ValueError or zipfile's errors unless it is valid."""
    _check_list(file)
    with ZipFile(file) as archive:
        yield Members(archive)


def _check_list(file: BinaryIO) -> None:
    """Checks the size of the list of members, which zipfile reads completely when it opens a file."""
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
    # zipfile inflates only these two piece by piece.
    if member.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
        raise ValueError(f"{member.filename!r} is neither stored nor deflated; pack it again with zip")


_Kind = TypeVar("_Kind")
_Types = Mapping[str, tuple[DType, tuple[int, ...]]]
"""The dtype and the shape of each tensor of a part."""


def read(path: Path) -> Bundle:
    """Returns the bundle in a file.

    Raises ValueError, with the file's name, if the file is not a bundle, has a newer format or holds more than
    MAX_BUNDLE_BYTES, and OSError if it cannot be opened.
    """
    with path.open("rb") as file:
        try:
            return _bundle(file)
        except ImportError:
            raise
        except Exception as error:  # of a damaged archive or header
            raise ValueError(f"{path} cannot be read as a bundle: {error}") from error


def _bundle(file: BinaryIO) -> Bundle:
    with opened(file) as archive:
        # First, because another format may have other members.
        fields = _described(archive.content(PROGRAM, MAX_TEXT_BYTES))
        if unknown := archive.names - _KNOWN:
            raise ValueError(f"it has {min(unknown)!r}, which no bundle has")
        types = {part: _types(part, fields) for part in _PARTS}
        arrays = {part: _arrays(part, archive.content(name), types[part]) for part, name in _PARTS.items()}
    program, returned = _program(fields, arrays[INPUTS])
    judged = JudgedProgram(
        program,
        returned,
        gradients=arrays[GRADIENTS],
        expected=arrays[EXPECTED],
        computed_by=_field(fields, "computed_by", str),
        tolerance=_tolerance(fields, types[EXPECTED]),
    )
    _check_gradients(judged)
    return Bundle(
        judged,
        finding=_field(fields, "finding", str),
        server=_texts(fields, "server"),
        client=_texts(fields, "client"),
        command=_field(fields, "command", str),
        date=_field(fields, "date", str),
    )


def _described(content: bytes) -> dict[str, Any]:
    """Returns the fields of `program.json`."""
    fields: dict[str, Any] = json.loads(content, parse_constant=_no_number)
    version = fields.get("format") if isinstance(fields, dict) else None
    if type(version) is not int:
        raise ValueError(f"{PROGRAM} names no format")
    if version != FORMAT:
        reads = f"aclgrad {aclgrad.__version__} reads {FORMAT}"
        raise ValueError(f"it is of format {version}, and {reads}; upgrade aclgrad")
    return fields


def _no_number(text: str) -> None:
    raise ValueError(f"{PROGRAM} has {text}, which is no number")


def _types(part: str, fields: Mapping[str, Any]) -> _Types:
    types = {}
    for name, each in _named(fields, part).items():
        where = f"{part}[{name}]"
        if not isinstance(each, dict):
            raise ValueError(f"{where} has no type")
        shape = tuple(_all(_field(each, "shape", list), int, f"the shape of {where}"))
        if len(shape) > MAX_RANK or any(not 0 <= length < 2**63 for length in shape):
            raise ValueError(f"the shape of {where} is invalid")
        dtype = DTYPES.get(str(each.get("dtype")))
        if dtype is None:
            raise ValueError(f"{where} is of no dtype that calls have; those are {', '.join(DTYPES)}")
        types[name] = dtype, shape
    return types


def _arrays(part: str, content: bytes, types: _Types) -> dict[str, Array]:
    """Returns the arrays of a safetensors file, in the order and with the types of `program.json`."""
    import safetensors

    if int.from_bytes(content[:8], "little") > MAX_TEXT_BYTES:
        raise ValueError(f"{_PARTS[part]} has a header of more than {size(MAX_TEXT_BYTES)}")
    try:
        stored = dict(safetensors.deserialize(content))  # type: ignore[no-untyped-call]
    except safetensors.SafetensorError as error:
        raise ValueError(f"{_PARTS[part]} is no safetensors file: {error}") from error
    if stored.keys() != types.keys():
        raise ValueError(f"{_PARTS[part]} has other tensors than {PROGRAM}")
    arrays = {}
    for name, (dtype, shape) in types.items():
        found = stored[name]["dtype"], tuple(stored[name]["shape"])
        if found != (_STORED_NAMES[stored_dtype(dtype).name], stored_shape(dtype, shape)):
            raise ValueError(f"{part}[{name}] is stored in another form than {TensorType(dtype, shape)} has")
        arrays[name] = np.frombuffer(stored[name]["data"], dtype.numpy).reshape(shape)
    return arrays


def _program(fields: Mapping[str, Any], inputs: Mapping[str, Array]) -> tuple[Program, tuple[Returned, ...]]:
    def load(file: str) -> Array:
        name = file.removeprefix(f"{_PARTS[INPUTS]}:")
        if name == file or name not in inputs:
            raise ValueError(f"{file[:MAX_NAME]!r} is no tensor of {_PARTS[INPUTS]}")
        return inputs[name]

    program, returned = program_of({name: _field(fields, name, list) for name in _OF_PROGRAM}, load)
    views = [each for step in program.steps for each in step.inputs if each.array is not None and each.view]
    if sum(each.type.size_bytes for each in views) > MAX_BUNDLE_BYTES:
        raise ValueError(f"its views have more than {size(MAX_BUNDLE_BYTES)}")
    return program, returned


def _check_gradients(judged: JudgedProgram) -> None:
    """Forms that fit bound a server's reply when the program runs again."""
    types = {judged.program.label(each): judged.program.steps[each[0]].types[each[1]] for each in judged.returned}
    forms = {**_forms(judged.gradients), **_forms(judged.expected)}
    if judged.gradients.keys() != types.keys() or forms != {
        name: (type.shape, type.dtype.numpy.kind == "c") for name, type in types.items()
    }:
        returned = ", ".join(f"{name} {type}" for name, type in types.items())
        raise ValueError(f"its gradients are not those that its steps return: {returned}")
    if not judged.expected:
        raise ValueError("it expects no gradient")
    for name, each in judged.expected.items():
        if each.dtype not in _WIDE:
            raise ValueError(f"expected[{name}] is {each.dtype} and has to be {' or '.join(map(str, _WIDE))}")


def _forms(arrays: Mapping[str, Array]) -> dict[str, tuple[tuple[int, ...], bool]]:
    return {name: (each.shape, np.iscomplexobj(each)) for name, each in arrays.items()}


def _tolerance(fields: Mapping[str, Any], outputs: Iterable[str]) -> Tolerance:
    given = _field(fields, "tolerance", dict)
    return Tolerance(0.0, 0.0, outputs={name: _limits(_field(given, name, dict)) for name in outputs})


def _limits(given: Mapping[str, Any]) -> Tolerance:
    pair = (given.get("relative"), given.get("absolute"))
    numbers = [float(each) for each in pair if isinstance(each, int | float) and 0 <= each < math.inf]
    if len(numbers) < len(pair):
        raise ValueError(f"{PROGRAM} has no tolerance of two numbers that are at least 0")
    relative, absolute = numbers
    return Tolerance(relative, absolute)


def _named(fields: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Returns a field whose members' names errors can repeat on a terminal."""
    members = _field(fields, name, dict)
    for each in members:
        if not _NAME.fullmatch(each):
            problem = f"has the name {each[:MAX_NAME]!r}, and names are letters, digits, underscores and points"
            raise ValueError(f"{PROGRAM} {problem}")
    return members


def _texts(fields: Mapping[str, Any], name: str) -> dict[str, str]:
    texts = _field(fields, name, dict)
    return dict(zip(texts, _all(list(texts.values()), str, name), strict=True))


def _field(fields: Mapping[str, Any], name: str, kind: type[_Kind]) -> _Kind:
    """Returns a field of this kind; raises ValueError if it is missing or of another kind."""
    value = fields.get(name)
    if not isinstance(value, kind):
        raise ValueError(f"{PROGRAM} has no {name}, or of another kind than it has to be")
    return value


def _all(values: list[Any], kind: type[_Kind], where: str) -> list[_Kind]:
    """Returns the values; raises ValueError if one is of another kind."""
    if any(type(each) is not kind for each in values):
        raise ValueError(f"{where} holds something else than {kind.__name__}")
    return values
