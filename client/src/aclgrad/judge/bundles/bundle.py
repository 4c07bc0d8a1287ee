"""What a bundle holds, the form in which a file holds it, and the file that is written."""

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
from aclgrad.new_files import check_unwritten, checked_folder, whole_file
from aclgrad.operators.attributes import plain_attribute
from aclgrad.operators.spec import Tolerance
from aclgrad.tensors import DTYPES, DType, type_of_array
from aclgrad.units import size
from aclgrad.wire.values import AttributeValue

Array = np.ndarray[Any, Any]

FORMAT: Final = 1
"""The version of the form; a reader refuses any other."""
MAX_BUNDLE_BYTES: Final = 2**30
"""The members of a bundle, before compression."""
MAX_TEXT_BYTES: Final = 2**20
"""What is not arrays: `call.json`, and each of the headers of the safetensors files."""

CALL: Final = "call.json"
REPEAT: Final = "repeat.py"
README: Final = "README.txt"
INPUTS: Final = "inputs"
GRADIENTS: Final = "gradients"
EXPECTED: Final = "expected"
_REPORTED: Final = ("aclgrad", "numpy", "torch", "jax")
_README: Final = """\
This bundle holds one call of {operator}, made on {date}: its inputs, the gradients that a server returned, and those
that are expected, which {computed_by} gives in float64. `aclgrad call --bundle FILE --target HOST:PORT` makes the call
again and runs nothing of the file; unpacked, `python repeat.py HOST:PORT` does it too, once you have read that script.
Private are the inputs ({inputs}), the gradients, which follow from them, and the command line in call.json.
"""
_WIDTH: Final = 100


@dataclass(frozen=True, slots=True, eq=False)
class BundledCall:
    """One call of one operator, the gradients that a server returned, and those that are expected.

    `inputs` are arrays by wire name, or the shape of an input whose values are not sent; one that was left out is not
    there. `outputs` names the gradients that were asked for, none for all of them. `gradients` and `expected` have the
    same names, in the operator's order. `expected` is float64 or complex128, and `computed_by` says what computed it:
    "the definition" or "PyTorch".
    """

    operator: str
    inputs: Mapping[str, Array | tuple[int, ...]]
    attributes: Mapping[str, AttributeValue]
    gradients: Mapping[str, Array]
    expected: Mapping[str, Array]
    computed_by: str
    tolerance: Tolerance
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Bundle:
    """A call that was judged, and where it comes from.

    `finding` is what was found wrong. `server` has product, SoC, library and the versions of the server's side,
    `client` the versions of this side. `command` is the command line that wrote the bundle, and `date` is in UTC, as
    ISO 8601 has it.
    """

    call: BundledCall
    finding: str
    server: Mapping[str, str]
    client: Mapping[str, str]
    command: str
    date: str

    @classmethod
    def of(cls, call: BundledCall, finding: str, status: ServerStatus) -> Self:
        """Returns the bundle of a call that this process made just now, on the server with this status."""
        loaded = {name: sys.modules[name] for name in _REPORTED if name in sys.modules}
        return cls(
            call,
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
    """Returns the dtype in which safetensors holds the elements: complex numbers are pairs there."""
    return DTYPES[f"float{4 * dtype.itemsize}"] if dtype.numpy.kind == "c" else dtype


def stored_shape(dtype: DType, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the shape of the stored array."""
    return (*shape, 2) if dtype.numpy.kind == "c" else shape


def write(path: Path, bundle: Bundle, *, overwrite: bool = False) -> None:
    """Writes a bundle as a whole or not at all.

    Raises ValueError if the file exists, its folder does not, or the arrays are too large for a bundle,
    InvalidFieldError for a dtype that the wire does not have, and OSError if the file cannot be written.
    """
    from safetensors.numpy import save

    checked_folder(path)
    check_unwritten(path, overwrite=overwrite)
    call = bundle.call
    arrays: Mapping[str, Mapping[str, Array]] = {
        INPUTS: {name: each for name, each in call.inputs.items() if not isinstance(each, tuple)},
        GRADIENTS: call.gradients,
        EXPECTED: call.expected,
    }
    total = sum(array.nbytes for part in arrays.values() for array in part.values())
    if total > MAX_BUNDLE_BYTES - MAX_TEXT_BYTES:
        limit = f"a bundle holds at most {size(MAX_BUNDLE_BYTES)}"
        raise ValueError(f"{path} would hold {size(total)} of arrays, and {limit}; make the call with smaller sizes")
    with whole_file(path) as file, ZipFile(file, "w", ZIP_DEFLATED) as archive:
        archive.writestr(README, _readme(bundle, ", ".join(arrays[INPUTS])))
        archive.writestr(REPEAT, files("aclgrad.judge.bundles").joinpath(REPEAT).read_bytes())
        archive.writestr(CALL, _lines(_described(bundle)))
        for part, named in arrays.items():
            archive.writestr(f"{part}.safetensors", save({name: _stored(name, each) for name, each in named.items()}))


def _readme(bundle: Bundle, inputs: str) -> str:
    call = bundle.call
    text = _README.format(operator=call.operator, date=bundle.date, computed_by=call.computed_by, inputs=inputs)
    return fill(text, _WIDTH) + "\n"


def _lines(fields: Mapping[str, Any]) -> str:
    """Returns a JSON object with a line for each field."""
    lines = (f" {json.dumps(name)}: {json.dumps(value, allow_nan=False)}" for name, value in fields.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _described(bundle: Bundle) -> dict[str, Any]:
    """Returns the content of `call.json`: all of the bundle but the elements of its arrays."""
    call = bundle.call
    return {
        "format": FORMAT,
        "operator": call.operator,
        INPUTS: _types(call.inputs),
        "attributes": {name: plain_attribute(name, value, None) for name, value in call.attributes.items()},
        "outputs": call.outputs,
        GRADIENTS: _types(call.gradients),
        EXPECTED: _types(call.expected),
        "computed_by": call.computed_by,
        "tolerance": {name: _limits(call.tolerance.of(name)) for name in call.expected},
        "finding": bundle.finding,
        "server": dict(bundle.server),
        "client": dict(bundle.client),
        "command": bundle.command,
        "date": bundle.date,
    }


def _limits(tolerance: Tolerance) -> dict[str, float]:
    return {"relative": tolerance.relative, "absolute": tolerance.absolute}


def _types(tensors: Mapping[str, Array | tuple[int, ...]]) -> dict[str, dict[str, Any]]:
    """Returns dtype and shape of each array, and the shape of what has no values."""
    return {
        name: {"shape": each}
        if isinstance(each, tuple)
        else {"dtype": type_of_array(name, each).dtype.name, "shape": each.shape}
        for name, each in tensors.items()
    }


def _stored(name: str, array: Array) -> Array:
    """Returns the array row-major and little-endian, and complex numbers as pairs."""
    dtype = type_of_array(name, array).dtype
    flat = np.ascontiguousarray(array, dtype.numpy).reshape(-1)
    return flat.view(stored_dtype(dtype).numpy).reshape(stored_shape(dtype, array.shape))
