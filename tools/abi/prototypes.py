"""The function prototypes of the ABI, read from the headers."""

import ctypes
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

INCLUDE = Path(__file__).resolve().parents[2] / "native" / "include"

_DECLARATION = re.compile(r"^(?:ACL_FUNC_VISIBILITY|ACLNN_API)\s+([^;]+?)(\w+)\(([^)]*)\);", re.MULTILINE)

_ENUM = re.compile(r"typedef enum[^;{]*\{[^}]*\}\s*(\w+);")

_TYPES = {
    "int": ctypes.c_int,
    "int8_t": ctypes.c_int8,
    "double": ctypes.c_double,
    "int32_t": ctypes.c_int32,
    "uint32_t": ctypes.c_uint32,
    "int64_t": ctypes.c_int64,
    "uint64_t": ctypes.c_uint64,
    "size_t": ctypes.c_size_t,
    "float": ctypes.c_float,
    "bool": ctypes.c_bool,
    "void": None,
    "aclError": ctypes.c_int,
    "aclnnStatus": ctypes.c_int32,
    "aclFloat16": ctypes.c_uint16,
    "aclrtStream": ctypes.c_void_p,
    "aclrtEvent": ctypes.c_void_p,
    "aclrtContext": ctypes.c_void_p,
}


@dataclass(frozen=True)
class Prototype:
    """One exported function."""

    name: str
    result: type
    arguments: tuple[type, ...]
    parameters: tuple[str, ...]
    declared: tuple[str, ...] = ()
    """The types of the parameters without const and asterisks."""


def _ctype(text: str, types: dict[str, type], function: str) -> type:
    words = text.replace("*", " * ").split()
    if "*" in words:
        return ctypes.c_char_p if "char" in words else ctypes.c_void_p
    (word, *_) = (word for word in words if word != "const")
    assert word in types, f"{function} has a parameter of type {word}; add its ctype to _TYPES in {__file__}"
    return types[word]


def declarations(include: Path = INCLUDE) -> Iterator[tuple[Path, str, str, str]]:
    """Yields header, result, name and parameters of every function that the headers declare."""
    for header in sorted(include.rglob("*.h")):
        for result, name, arguments in _DECLARATION.findall(header.read_text()):
            yield header, result, name, arguments


def read_prototypes(include: Path = INCLUDE) -> dict[str, Prototype]:
    """Returns every function that the headers declare, by name."""
    prototypes = {}
    headers = {header: header.read_text() for header in sorted(include.rglob("*.h"))}
    types = _TYPES | {name: ctypes.c_int for text in headers.values() for name in _ENUM.findall(text)}
    for _, result, name, arguments in declarations(include):
        listed = parameters(arguments)
        ctypes_ = tuple(_ctype(argument, types, name) for argument in listed)
        names = tuple(re.findall(r"\w+", argument)[-1] for argument in listed)
        declared = tuple(next(word for word in re.findall(r"\w+", each) if word != "const") for each in listed)
        prototypes[name] = Prototype(name, _ctype(result, types, name), ctypes_, names, declared)
    return prototypes


def parameters(arguments: str) -> list[str]:
    """Returns the parameters without an ellipsis: ctypes passes what comes after the declared ones as it is."""
    return [each for each in arguments.split(",") if each.strip() not in ("", "void", "...")]
