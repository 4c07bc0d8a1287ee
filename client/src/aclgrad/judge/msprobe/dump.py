"""Reads msprobe's dump.json: the PyTorch calls of a training step, with their arguments.

A dump is an untrusted file: everything is checked here or where it is used, and a broken entry affects only itself.
"""

import hashlib
import json
import math
import os
import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, Self, TypeVar

from aclgrad import units
from aclgrad.tensors import DTYPES

MAX_BYTES: Final = 256 * 2**20
"""The largest dump.json, about 300,000 calls; reading one takes up to six times its size."""
_NAME: Final = "dump.json"
_FOLDER: Final = re.compile(r"[\w./\\-]*", re.ASCII)
"""msprobe's names; others must not get into tables and onto terminals."""
_CALL: Final = re.compile(r"(?!.{255})(\w+(?:\.\w+){1,2}\.\d+)\.(forward|backward)", re.ASCII)
"""Names of functions have three or four parts, then forward or backward; those of modules differ."""
_SIZES: Final = {name: dtype.itemsize for name, dtype in DTYPES.items()} | {"bool": 1}
_MAX_RANK: Final = 8
_MAX_DEPTH: Final = 32


class DumpError(ValueError):
    """A dump cannot be replayed; the message says how to make one that can."""


class EntryError(ValueError):
    """One call of a dump cannot be replayed."""


class FileError(EntryError):
    """A tensor's file is missing or broken: the dump is not whole."""


class Found(NamedTuple):
    """A dump.json, and its output folder relative to the whole output: "." or, for example, "step0/rank1"."""

    path: Path
    folder: Path

    def digest(self) -> str:
        """Returns a digest of this dump.json; empty if it is not a file."""
        if not self.path.is_file():
            return ""
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


def find_dumps(path: Path) -> list[Found]:
    """Returns the dump that `path` names, or all of a folder's steps, stages and ranks, step2 before step10.

    They may be at any depth, also behind links to folders: trainers keep a folder for each stage of a step. Raises
    DumpError if it finds no dump.
    """
    if not path.is_dir():
        return [Found(path, Path())]
    found = [
        Found(each / _NAME, folder)
        for each in _folders(path)
        if os.path.lexists(each / _NAME) and _FOLDER.fullmatch(str(folder := each.relative_to(path)))
    ]
    if not found:
        files = f"neither {path / _NAME} nor another {_NAME} below it"
        remedy = "name the dump_path of PrecisionDebugger, after its stop() and step()"
        raise DumpError(f"{path} holds no dump: there is {files}; {remedy}")
    return sorted(found, key=_natural)


def _folders(top: Path) -> Iterator[Path]:
    """Yields the folder and all below it, each once: first without links, then behind links, but none around `top`."""
    root = top.resolve()
    seen: set[Path] = set()
    waiting = deque([top])
    while waiting:
        for name, names, _ in os.walk(waiting.popleft()):
            folder = Path(name)
            real = folder.resolve()
            if real in seen:
                names.clear()
                continue
            seen.add(real)
            links = (each for each in map(folder.joinpath, sorted(names)) if each.is_symlink())
            waiting += (each for each in links if not root.is_relative_to(each.resolve()))
            yield folder


def _natural(found: Found) -> list[tuple[int, str]]:
    return [(int(digits or 0), text) for text, digits in re.findall(r"(\D*)(\d*)", found.folder.as_posix())]


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """A dump's description of a tensor."""

    dtype: str
    """Its name without "torch."."""
    shape: tuple[int, ...]
    requires_grad: bool
    bounds: tuple[Any, Any]
    """The smallest and the largest element, if the dump has them; unchecked."""
    data_name: str | None
    """The name of its file, without a folder."""

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Self:
        """Raises EntryError if the dtype, the shape or the file's name is invalid."""
        dtype, shape, name = str(raw.get("dtype")).removeprefix("torch."), raw.get("shape"), raw.get("data_name")
        if dtype not in _SIZES:
            raise EntryError(f"The dtype {dtype[:40]} cannot be replayed; those that can are {', '.join(_SIZES)}.")
        if not isinstance(shape, list) or not all(type(size) is int and size >= 0 for size in shape):
            raise EntryError(f"The shape of a {dtype} tensor is no list of sizes.")
        if len(shape) > _MAX_RANK:
            raise EntryError(f"A {dtype} tensor has {len(shape)} dimensions; {_MAX_RANK} is the most.")
        if name is not None and (
            not isinstance(name, str) or not re.fullmatch(r"[^/\\\0-\x1f\x7f]{1,250}\.(pt|npy)", name)
        ):
            raise EntryError("The data_name of a tensor is no name of a .pt or .npy file in dump_tensor_data.")
        bounds = raw.get("Min"), raw.get("Max")
        return cls(dtype, tuple(shape), raw.get("requires_grad") is True, bounds, name)

    @property
    def size_bytes(self) -> int:
        return _SIZES[self.dtype] * math.prod(self.shape)


def is_tensor(raw: Any) -> bool:
    """Returns whether this argument of a call is a tensor."""
    return isinstance(raw, dict) and raw.get("type") in ("torch.Tensor", "torch.nn.parameter.Parameter")


def tensors(raw: Any, depth: int = 0) -> Iterator[TensorInfo]:
    """Yields the tensors of an argument or of nested lists of them; raises EntryError at the first broken one."""
    if depth > _MAX_DEPTH:
        raise EntryError(f"Lists are nested deeper than {_MAX_DEPTH}.")
    if isinstance(raw, list):
        for each in raw:
            yield from tensors(each, depth + 1)
    elif is_tensor(raw):
        yield TensorInfo.of(raw)


@dataclass(frozen=True, slots=True)
class Entry:
    """One call; arguments are in dump.json's form, for `values`. Properties raise EntryError."""

    name: str
    """For example "Functional.max_pool2d.0" or "torchvision.ops.roi_align.0"."""
    forward: Any
    backward: Any
    """None if the dump has no backward pass of the call."""

    @property
    def prefix(self) -> str:
        return self.name.rsplit(".", 2)[0]

    @property
    def api(self) -> str:
        return self.name.rsplit(".", 2)[1]

    @property
    def args(self) -> list[Any]:
        """The positional arguments."""
        return _member(self.forward, "input_args", [])

    @property
    def kwargs(self) -> dict[str, Any]:
        """The keyword arguments."""
        return _member(self.forward, "input_kwargs", {})

    @property
    def outputs(self) -> list[Any]:
        """The call's results: one output, or the elements of a tuple; empty if the dump lacks them."""
        return _member(self.forward, "output", [])

    @property
    def grad_outputs(self) -> list[Any]:
        """The gradients given to the backward pass, the first output's first."""
        return [] if self.backward is None else _member(self.backward, "input", [])

    @property
    def grad_inputs(self) -> list[Any]:
        """The gradients returned by the function's last step, which is the whole backward pass of most functions."""
        return [] if self.backward is None else _member(self.backward, "output", [])


_Member = TypeVar("_Member", list[Any], dict[str, Any])


def _member(raw: Any, name: str, default: _Member) -> _Member:
    value = raw.get(name, default) if isinstance(raw, dict) else None
    if not isinstance(value, type(default)):
        raise EntryError(f"The call's {name} is no {'list' if isinstance(default, list) else 'object'} in dump.json.")
    return value


@dataclass(frozen=True, slots=True)
class Dump:
    """The calls of one rank in one step."""

    path: Path
    entries: tuple[Entry, ...]
    """Calls in the order of their forward passes, as in the file."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """All entries of the file in the order of execution; names of calls end with ".forward" or ".backward"."""
    level: str = ""
    """msprobe's level of the dump: "L0" for modules, "L1" for functions, "mix" for both."""

    @property
    def tensor_folder(self) -> Path:
        """The folder of the tensors' files; dump.json itself names the writer's folder."""
        return self.path.parent / "dump_tensor_data"


def read_dump(path: Path, *, max_bytes: int = MAX_BYTES) -> Dump:
    """Reads a dump.json; raises DumpError if it holds nothing to repeat, and OSError if it cannot be read."""
    text = _bytes(path, max_bytes)
    data, level = _parsed(path, text)
    calls: dict[str, dict[str, Any]] = {"forward": {}, "backward": {}}
    for key, value in data.items():
        if match := _CALL.fullmatch(key):
            calls[match[2]][match[1]] = value
    entries = tuple(Entry(name, forward, calls["backward"].get(name)) for name, forward in calls["forward"].items())
    if not data:
        remedy = 'dump again with level="L1", and start() before the forward pass'
        raise DumpError(f"{path} holds no call; {remedy}.")
    if b'"data_name"' not in text and b'"Max"' not in text and not _are_empty(data):
        remedy = 'dump again with task="tensor", or with summary_mode "statistics" or "md5" instead of "xor"'
        raise DumpError(f"{path} holds neither data nor statistics of its tensors; {remedy}.")
    return Dump(path, entries, data, level)


def _are_empty(data: Mapping[str, Any]) -> bool:
    """Returns whether all tensors are empty, for which msprobe writes neither data nor statistics."""
    rest: list[Any] = [data]
    while rest:
        each = rest.pop()
        if is_tensor(each):
            shape = each.get("shape")
            if not isinstance(shape, list) or 0 not in shape:
                return False
        elif isinstance(each, dict | list):
            rest += each.values() if isinstance(each, dict) else each
    return True


def _bytes(path: Path, max_bytes: int) -> bytes:
    if not path.is_file():
        raise DumpError(f"There is no file {path}; name a dump.json, or the dump_path of PrecisionDebugger.")
    if (size := path.stat().st_size) > max_bytes:
        remedy = "dump fewer steps or, with `list`, fewer APIs"
        raise DumpError(f"{path} has {units.size(size)}, more than {units.size(max_bytes)}; {remedy}.")
    return path.read_bytes()


def _parsed(path: Path, text: bytes) -> tuple[dict[str, Any], str]:
    """Returns the members `data` and `level` after checking the others."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        if isinstance(error, json.JSONDecodeError) and _is_cut(error):
            raise DumpError(f"{path} is cut off: the process ended before stop(); dump again.") from error
        raise DumpError(f"{path} is not JSON as msprobe writes it: {error}; name the dump.json of a dump.") from error
    if not isinstance(content, dict) or not isinstance(content.get("data"), dict):
        raise DumpError(f"{path} has no data; name the dump.json of a dump, not its stack.json or construct.json.")
    if (framework := content.get("framework", "pytorch")) != "pytorch":
        raise DumpError(f"{path} is of {str(framework)[:40]!r}; only calls of PyTorch can be replayed.")
    data: dict[str, Any] = content["data"]
    return data, str(content.get("level", ""))


def _is_cut(error: json.JSONDecodeError) -> bool:
    """Returns whether the text ends too early, perhaps within a word or a string."""
    is_at_end = len(error.doc[error.pos :].strip()) < len("-Infinity") or error.msg.startswith("Unterminated")
    return not error.doc.strip() or (error.doc.lstrip().startswith("{") and is_at_end)
