"""A bundle to a file."""

import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from textwrap import fill
from typing import Any, Final
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np

from aclgrad.judge.bundles.bundle import (
    CALL,
    EXPECTED,
    FORMAT,
    GRADIENTS,
    INPUTS,
    MAX_BUNDLE_BYTES,
    MAX_TEXT_BYTES,
    README,
    REPEAT,
    Array,
    Bundle,
    stored_dtype,
    stored_shape,
)
from aclgrad.new_files import check_unwritten, checked_folder, whole_file
from aclgrad.operators.attributes import plain_attribute
from aclgrad.tensors import type_of_array
from aclgrad.units import size

_README: Final = """\
This bundle holds one call of {operator}, made on {date}: its inputs, the gradients that a server returned, and those
that are expected, which {computed_by} gives in float64. `aclgrad call --bundle FILE --target HOST:PORT` makes the call
again and runs nothing of the file; unpacked, `python repeat.py HOST:PORT` does it too, once you have read that script.
Private are the inputs ({inputs}), the gradients, which follow from them, and the command line in call.json.
"""
_WIDTH: Final = 100


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
        "tolerance": {"relative": call.tolerance.relative, "absolute": call.tolerance.absolute},
        "finding": bundle.finding,
        "server": dict(bundle.server),
        "client": dict(bundle.client),
        "command": bundle.command,
        "date": bundle.date,
    }


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
