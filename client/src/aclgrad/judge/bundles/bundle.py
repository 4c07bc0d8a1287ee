"""The content of a bundle, the form of its file, and writing it."""

import json
import platform
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from textwrap import fill
from typing import Any, Final, Self
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np

from aclgrad.descriptions.status import ServerStatus
from aclgrad.judge.programs.form import fields_of
from aclgrad.judge.programs.program import Array, Program, Returned
from aclgrad.new_files import check_unwritten, checked_folder, whole_file
from aclgrad.operators.spec import Tolerance
from aclgrad.tensors import DTYPES, DType, type_of_array
from aclgrad.units import size

FORMAT: Final = 2
"""The version of the form; readers refuse any other."""
MAX_BUNDLE_BYTES: Final = 2**30
"""The most bytes of a bundle's members, before compression."""
MAX_TEXT_BYTES: Final = 2**20
"""The most bytes of `program.json`, and of each safetensors header."""

PROGRAM: Final = "program.json"
REPEAT: Final = "repeat.py"
README: Final = "README.txt"
INPUTS: Final = "inputs"
GRADIENTS: Final = "gradients"
EXPECTED: Final = "expected"
_REPORTED: Final = ("aclgrad", "numpy", "torch", "jax")
_README: Final = """\
This bundle holds one call ({title}), made on {date}: its inputs, the gradients that a server returned, and those
that are expected, which {computed_by} gives in float64. `aclgrad call --bundle FILE --target HOST:PORT` makes the call
again and runs nothing of the file; unpacked, `python repeat.py HOST:PORT` does it too, once you have read that script.
Private are the inputs ({inputs}), the gradients, which follow from them, and the command line in program.json.
"""
_WIDTH: Final = 100


@dataclass(frozen=True, slots=True, eq=False)
class JudgedProgram:
    """A program, the gradients that a server returned, and the expected ones. A call is a program of one step.

    `gradients` has the `returned` outputs by label, and `expected` the judged ones, in float64 or complex128;
    `computed_by` says what computed those: "the definition" or "PyTorch".
    """

    program: Program
    returned: tuple[Returned, ...]
    gradients: Mapping[str, Array]
    expected: Mapping[str, Array]
    computed_by: str
    tolerance: Tolerance

    @classmethod
    def of_call(
        cls, program: Program, gradients: Mapping[str, Array], expected: Mapping[str, Array], **how: Any
    ) -> Self:
        """Returns a judged call: a program of one step that returns all outputs."""
        return cls(program, tuple(program.outputs), gradients, expected, **how)


@dataclass(frozen=True, slots=True, eq=False)
class Bundle:
    """A judged program and its origin.

    `finding` is the problem. `server` has product, SoC, library and the server's versions, `client` the versions of
    this side. `command` is the command line that wrote the bundle, and `date` is ISO 8601 in UTC.
    """

    judged: JudgedProgram
    finding: str
    server: Mapping[str, str]
    client: Mapping[str, str]
    command: str
    date: str

    @classmethod
    def of(cls, judged: JudgedProgram, finding: str, status: ServerStatus) -> Self:
        """Returns the bundle of a program that this process has just run on the server with this status."""
        loaded = {name: sys.modules[name] for name in _REPORTED if name in sys.modules}
        return cls(
            judged,
            finding,
            server={
                **status.versions,
                "product": status.product,
                "soc": ", ".join(sorted({each.soc_name for each in status.devices})),
                "library": status.library,
                "runtime": status.runtime_version,
                "aclgrad": status.version,
            },
            client={
                "python": platform.python_version(),
                **{name: str(module.__version__) for name, module in loaded.items()},
            },
            command=shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
            date=datetime.now(UTC).isoformat(timespec="seconds"),
        )


def stored_dtype(dtype: DType) -> DType:
    """Returns the dtype of the stored elements: complex numbers are stored as pairs."""
    return DTYPES[f"float{4 * dtype.itemsize}"] if dtype.numpy.kind == "c" else dtype


def stored_shape(dtype: DType, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the shape of the stored array."""
    return (*shape, 2) if dtype.numpy.kind == "c" else shape


def write(path: Path, bundle: Bundle, *, overwrite: bool = False) -> None:
    """Writes a bundle completely or not at all.

    Raises ValueError if the file exists, its folder does not, or the arrays are too large for a bundle,
    InvalidFieldError for a dtype that the wire does not have, and OSError if the file cannot be written.
    """
    from safetensors.numpy import save

    checked_folder(path)
    check_unwritten(path, overwrite=overwrite)
    judged = bundle.judged
    fields, inputs = fields_of(judged.program, judged.returned, file_of(INPUTS))
    arrays: Mapping[str, Mapping[str, Array]] = {
        INPUTS: inputs,
        GRADIENTS: judged.gradients,
        # Some definitions, which only move values, keep the dtype.
        EXPECTED: {name: each.astype(_wide(each), copy=False) for name, each in judged.expected.items()},
    }
    total = sum(array.nbytes for part in arrays.values() for array in part.values())
    if total > MAX_BUNDLE_BYTES - MAX_TEXT_BYTES:
        limit = f"a bundle holds at most {size(MAX_BUNDLE_BYTES)}"
        raise ValueError(f"{path} would hold {size(total)} of arrays, and {limit}; make the call with smaller sizes")
    types = {part: _types(named) for part, named in arrays.items()}
    with whole_file(path) as file, ZipFile(file, "w", ZIP_DEFLATED) as archive:
        archive.writestr(README, _readme(bundle, ", ".join(inputs)))
        archive.writestr(REPEAT, files("aclgrad.judge.bundles").joinpath(REPEAT).read_bytes())
        archive.writestr(PROGRAM, _lines({"format": FORMAT, **fields, **types, **_origin(bundle)}))
        for part, named in arrays.items():
            archive.writestr(file_of(part), save({name: _stored(name, each) for name, each in named.items()}))


def file_of(part: str) -> str:
    """Returns the name of the file with the arrays of a part."""
    return f"{part}.safetensors"


def _readme(bundle: Bundle, inputs: str) -> str:
    title, computed_by = bundle.judged.program.title, bundle.judged.computed_by
    text = _README.format(title=title, date=bundle.date, computed_by=computed_by, inputs=inputs)
    return fill(text, _WIDTH) + "\n"


def _lines(fields: Mapping[str, Any]) -> str:
    """Returns a JSON object with a line for each field."""
    lines = (f" {json.dumps(name)}: {json.dumps(value, allow_nan=False)}" for name, value in fields.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _origin(bundle: Bundle) -> dict[str, Any]:
    """Returns how the gradients were judged, and their origin."""
    judged = bundle.judged
    return {
        "computed_by": judged.computed_by,
        "tolerance": {name: _limits(judged.tolerance.of(name)) for name in judged.expected},
        "finding": bundle.finding,
        "server": dict(bundle.server),
        "client": dict(bundle.client),
        "command": bundle.command,
        "date": bundle.date,
    }


def _limits(tolerance: Tolerance) -> dict[str, float]:
    return {"relative": tolerance.relative, "absolute": tolerance.absolute}


def _types(arrays: Mapping[str, Array]) -> dict[str, dict[str, Any]]:
    """Returns dtype and shape of each array."""
    types = {name: type_of_array(name, each) for name, each in arrays.items()}
    return {name: {"dtype": each.dtype.name, "shape": each.shape} for name, each in types.items()}


def _wide(array: Array) -> type[np.float64] | type[np.complex128]:
    return np.complex128 if np.iscomplexobj(array) else np.float64


def _stored(name: str, array: Array) -> Array:
    """Returns the array row-major and little-endian, and complex numbers as pairs."""
    dtype = type_of_array(name, array).dtype
    flat = np.ascontiguousarray(array, dtype.numpy).reshape(-1)
    return flat.view(stored_dtype(dtype).numpy).reshape(stored_shape(dtype, array.shape))
