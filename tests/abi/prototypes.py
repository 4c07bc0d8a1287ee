"""The function prototypes of the ABI, read from the headers."""

import ctypes
import re
from dataclasses import dataclass
from pathlib import Path

INCLUDE = Path(__file__).resolve().parents[2] / "native" / "include"

_DECLARATION = re.compile(r"^(?:ACL_FUNC_VISIBILITY|ACLNN_API)\s+([^;]+?)(\w+)\(([^)]*)\);", re.MULTILINE)

_TYPES = {
    "int32_t": ctypes.c_int32,
    "uint32_t": ctypes.c_uint32,
    "int64_t": ctypes.c_int64,
    "uint64_t": ctypes.c_uint64,
    "size_t": ctypes.c_size_t,
    "float": ctypes.c_float,
    "bool": ctypes.c_bool,
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


def _ctype(text: str) -> type:
    words = text.replace("*", " * ").split()
    if "*" in words:
        return ctypes.c_char_p if "char" in words else ctypes.c_void_p
    words = [word for word in words if word != "const"]
    return _TYPES.get(words[0], ctypes.c_int)  # everything else is an enum


def read_prototypes() -> dict[str, Prototype]:
    """Returns every function that the headers declare, by name."""
    prototypes = {}
    for header in sorted(INCLUDE.rglob("*.h")):
        for result, name, arguments in _DECLARATION.findall(header.read_text()):
            listed = [] if arguments.strip() in ("", "void") else arguments.split(",")
            prototypes[name] = Prototype(name, _ctype(result), tuple(_ctype(argument) for argument in listed))
    return prototypes
