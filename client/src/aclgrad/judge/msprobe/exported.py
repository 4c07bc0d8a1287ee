"""Sample cases as a dump of msprobe: acc_check makes the same calls with the same values, without a card.

Beside `dump.json` is the folder of its tensors: files of numpy, or of PyTorch for bfloat16, which numpy's cannot hold.
"""

import io
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np

from aclgrad.judge.msprobe.calls import ApiCall, Argument, Array, Tensor, api_call, api_of, refusal
from aclgrad.new_files import whole_file
from aclgrad.operators.cases import TypedCase

DUMP: Final = "dump.json"
_DATA: Final = "dump_tensor_data"
"""acc_check looks for tensors in no other folder."""


@dataclass(frozen=True, slots=True)
class Exported:
    """A case under the name of a call in msprobe's files, such as "Functional.pad.0".

    `refusal` is why acc_check cannot check it; such a case is not in the dump.
    """

    typed: TypedCase
    name: str
    refusal: str

    def call(self) -> ApiCall:
        """Returns the call with the values of the case, if nothing refuses it."""
        return api_call(self.typed, self.typed.arrays())


def exported(cases: Iterable[TypedCase]) -> Iterator[Exported]:
    """Yields the cases, numbered for each function of PyTorch."""
    numbers: Counter[str] = Counter()
    for typed in cases:
        api = api_of(typed.spec.name)
        yield Exported(typed, f"{api}.{numbers[api]}", refusal(typed))
        numbers[api] += 1


def write_dump(folder: Path, cases: Iterable[Exported]) -> tuple[int, int]:
    """Writes the tensors of the cases into the folder, and dump.json when all are there.

    Returns the number of calls in the dump, and of those that it lacks because bfloat16 needs PyTorch, which is not
    installed. Raises OSError, with the name of the file, if one cannot be written.
    """
    entries: dict[str, Any] = {}
    counts: Counter[bool] = Counter()
    data = folder / _DATA
    data.mkdir()
    has_pytorch = find_spec("torch") is not None
    for case in cases:
        if case.refusal:
            continue
        call = case.call()
        is_written = has_pytorch or not any(each.dtype == "bfloat16" for each in call.tensors)
        counts[is_written] += 1
        if is_written:
            entries |= _entries(data, case.name, call)
    dump = {"task": "tensor", "level": "L1", "framework": "pytorch", "dump_data_dir": _DATA, "data": entries}
    _write(folder / DUMP, json.dumps(dump, indent=1, allow_nan=False).encode())
    return counts[True], counts[False]


def _entries(data: Path, name: str, call: ApiCall) -> dict[str, Any]:
    forward = [_entry(data / f"{name}.forward.input.{at}", each) for at, each in enumerate(call.arguments)]
    keywords = {key: _entry(data / f"{name}.forward.kwargs.{key}", each) for key, each in call.keywords.items()}
    grad_output = _entry(data / f"{name}.backward.input.0", Tensor(call.grad_output))
    output = {key: grad_output[key] for key in ("type", "dtype", "shape")}
    return {
        f"{name}.forward": {"input_args": forward, "input_kwargs": keywords, "output": [output]},
        f"{name}.backward": {"input": [grad_output], "output": []},
    }


def _entry(path: Path, value: Argument) -> Any:
    """Returns what the dump has for an argument; a tensor's values go into a file with this path and a suffix."""
    match value:
        case None:
            return None
        case Tensor():
            return {
                "type": "torch.Tensor",
                "dtype": f"torch.{value.dtype}",
                "shape": list(value.values.shape),
                "requires_grad": value.gradient is not None,
                "data_name": _save(path, value.values),
            }
        case bool() | int() | float() | str():
            return {"type": type(value).__name__, "value": value}
    return [_entry(path, each) for each in value]


def _save(path: Path, values: Array) -> str:
    content = io.BytesIO()
    if values.dtype.name == "bfloat16":
        import torch

        suffix = "pt"
        torch.save(torch.from_numpy(values.view(np.int16)).view(torch.bfloat16), content)
    else:
        suffix = "npy"
        np.save(content, values, allow_pickle=False)
    file = path.with_name(f"{path.name}.{suffix}")
    _write(file, content.getbuffer())
    return file.name


def _write(path: Path, content: bytes | memoryview) -> None:
    try:
        with whole_file(path) as file:
            file.write(content)
    except OSError as error:
        # A full disk is met when bytes are written, where the error has no name.
        raise OSError(error.errno, error.strerror, str(path)) from error
