"""What a bundle holds, and the form in which a file holds it."""

import platform
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Self

import numpy as np

from aclgrad._client.server.status import ServerStatus
from aclgrad.operators.spec import Tolerance
from aclgrad.tensors import DTYPES, DType
from aclgrad.wire.messages import AttributeValue

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


@dataclass(frozen=True, slots=True, eq=False)
class JudgedCall:
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
    """A judged call, and where it comes from.

    `finding` is what was found wrong. `server` has product, SoC, library and the versions of the server's side,
    `client` the versions of this side. `command` is the command line that wrote the bundle, and `date` is in UTC, as
    ISO 8601 has it.
    """

    call: JudgedCall
    finding: str
    server: Mapping[str, str]
    client: Mapping[str, str]
    command: str
    date: str

    @classmethod
    def of(cls, call: JudgedCall, finding: str, status: ServerStatus) -> Self:
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
