"""The calls of a dump in the order of execution: their arguments, and their recorded results."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Self

import torch
from torch import Tensor

from aclgrad import units
from aclgrad.judge.dumps.apis import ModuleName, find_apis, module_entry
from aclgrad.judge.dumps.choices import NotJudgedError
from aclgrad.judge.dumps.records import CallRow, is_forward, line_of
from aclgrad.judge.findings.rows import Verdict
from aclgrad.judge.msprobe.dump import (
    Dump,
    DumpError,
    Entry,
    EntryError,
    Found,
    TensorInfo,
    is_tensor,
    read_dump,
    tensors,
)
from aclgrad.judge.msprobe.values import built_arguments, load_tensor, with_gradient

CASTS: Final = ("to", "type")
"""Functions whose dtype msprobe omits unless it is a keyword argument."""
MAX_BYTES = 2**30
"""The most bytes of one call's tensors; its runs take about ten times as much."""


@dataclass(frozen=True)
class Result:
    """A recorded result; its file is read when it is judged."""

    name: str
    info: TensorInfo
    folder: Path

    @cached_property
    def tensor(self) -> Tensor:
        """Raises EntryError if the file is missing or not as the dump describes it."""
        return _load(self.info, self.folder)


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """A call with CPU tensors. Those that needed a gradient require one."""

    entry: Entry
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    outputs: tuple[Result | None, ...]
    """The tensors of the forward pass's result, nested lists flattened; None if the dump lacks them."""
    grad_outputs: tuple[Tensor | None, ...]
    """The gradients given to the last step of the function."""
    gradients: tuple[Result | None, ...]
    """The gradients that it returned; None if not needed."""
    backward_fault: EntryError | None
    """Why the backward pass cannot be repeated; None if it can."""

    @classmethod
    def of(cls, entry: Entry, folder: Path) -> "Recorded":
        """Reads the arguments of a call; raises EntryError if one of them is missing or broken."""
        _check_size(entry)
        told = _with_dtype(entry) if entry.api in CASTS else entry
        args, kwargs = built_arguments(told, lambda info: with_gradient(_load(info, folder), info))
        outputs = tuple(_results(entry.outputs, "output", folder))
        try:
            given = tuple(_loaded(each, folder) for each in entry.grad_outputs)
            found = tuple(_results(entry.grad_inputs, "gradient", folder))
        except EntryError as error:
            return cls(entry, args, kwargs, outputs, (), (), error)
        return cls(entry, args, kwargs, outputs, given, found, None)

    @classmethod
    def of_values(cls, entry: Entry, args: tuple[Any, ...], kwargs: dict[str, Any], folder: Path) -> "Recorded":
        """Returns the forward pass alone, with these arguments; files of its results may be missing."""
        outputs = tuple(_results(entry.outputs, "output", folder))
        return cls(entry, args, kwargs, outputs, (), (), EntryError("its forward pass alone"))

    @property
    def has_backward(self) -> bool:
        return self.entry.backward is not None


def tensors_of(value: Any) -> list[Tensor]:
    """Returns the tensors of a value, of lists, tuples and dictionaries in order."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [each for part in value for each in tensors_of(part)] if isinstance(value, list | tuple) else []


def nested(change: Callable[[Any], Any], value: Any) -> Any:
    """Returns the value with all items of its lists, tuples and dictionaries, or itself, changed."""
    if isinstance(value, dict):
        return {name: nested(change, each) for name, each in value.items()}
    if isinstance(value, list | tuple) and not isinstance(value, torch.Size):
        return type(value)(nested(change, each) for each in value)
    return change(value)


def mapped(change: Callable[[Tensor], Tensor], value: Any) -> Any:
    """Returns the value with other tensors."""
    return nested(lambda each: change(each) if isinstance(each, Tensor) else each, value)


def _with_dtype(entry: Entry) -> Entry:
    """Returns a cast with its dtype, which msprobe omits unless it is a keyword argument."""
    output = entry.outputs[0] if entry.outputs else None
    if {} not in entry.args or not isinstance(output, dict) or not is_tensor(output):
        return entry
    dtype = {"type": "torch.dtype", "value": output["dtype"]}
    return replace(
        entry, forward={**entry.forward, "input_args": [dtype if each == {} else each for each in entry.args]}
    )


def _results(raw: Sequence[Any], name: str, folder: Path) -> list[Result | None]:
    results: list[Result | None] = []
    for each in raw:
        if isinstance(each, list):
            results += [
                None if one is None else Result(f"{name}.{len(results) + number}", one.info, folder)
                for number, one in enumerate(_results(each, name, folder))
            ]
        elif is_tensor(each):
            results.append(Result(f"{name}.{len(results)}", TensorInfo.of(each), folder))
        elif name == "gradient":
            results.append(None)
    return results


def _loaded(raw: Any, folder: Path) -> Tensor | None:
    return _load(TensorInfo.of(raw), folder) if is_tensor(raw) else None


def _load(info: TensorInfo, folder: Path) -> Tensor:
    if info.data_name is None and 0 in info.shape:
        return torch.empty(info.shape, dtype=getattr(torch, info.dtype))
    if info.data_name is None:
        raise EntryError('the dump has no elements of its tensors; dump again with task="tensor"')
    return load_tensor(folder, info)


def _check_size(entry: Entry) -> None:
    raw = (*entry.kwargs.values(), entry.args, entry.outputs, entry.grad_outputs, entry.grad_inputs)
    size = sum(info.size_bytes for each in raw for info in tensors(each))
    if size > MAX_BYTES:
        raise EntryError(f"its tensors take {units.size(size)}, more than {units.size(MAX_BYTES)}")


@dataclass(frozen=True, slots=True)
class Given:
    """A call of a dump: its entry, and the names and places of its passes, the forward one first."""

    entry: Entry
    folder: Path
    passes: tuple[tuple[int, str], ...]
    place: str = ""
    level: str = "L1"


@dataclass(frozen=True, slots=True)
class Source:
    """A dump, and its wanted calls."""

    dump: Dump
    place: str
    apis: frozenset[str]
    indices: dict[str, int]
    """The positions of all entries by name."""
    entries: dict[str, Entry]
    """The calls of functions, by their names without a pass."""

    @classmethod
    def of(cls, found: Found, apis: Collection[str] = ()) -> Self:
        """Chooses the calls of these APIs: "conv2d", "Functional.conv2d", or "Functional.conv2d.0" for one call.

        Raises DumpError if the dump holds no call, or none of these.
        """
        dump = read_dump(found.path)
        place = "" if found.folder == Path() else found.folder.as_posix()
        indices = {name: index for index, name in enumerate(dump.data)}
        source = cls(dump, place, frozenset(apis), indices, {entry.name: entry for entry in dump.entries})
        if not any(True for _ in source.names()):
            called = ", ".join(sorted({each.api for each in dump.entries})) or "none"
            raise DumpError(f"{found.path} has no call of {', '.join(apis)}; it has {called}")
        return source

    def recorded(self, name: str) -> Recorded:
        """Returns the call of this name, "Functional.linear.3"; raises EntryError if it is broken."""
        return Recorded.of(self.entries[name], self.dump.tensor_folder)

    def names(self) -> Iterator[str]:
        """Yields the names of the wanted entries, without modules that only repeat dumped functions."""
        for name in self.dump.data:
            is_repeated = self.dump.level == "mix" and name.startswith("Module.")
            if not is_repeated and (not self.apis or _names(name) & self.apis):
                yield name

    def calls(self, done: Collection[str] = ()) -> Iterator[Given | CallRow]:
        """Yields the wanted calls that are not done, and a row for each entry that is not a call."""
        for name in self.names():
            own, backward = _call_of(name), _backward_of(name)
            entry = self.entries.get(own) or module_entry(self.dump, _forward_of(name))
            if (shown := line_of(name)) in done:
                continue
            if entry is None or name not in (_forward_of(name), backward):
                yield CallRow(self.indices[name], self.place, shown, Verdict.SKIPPED, line_of(_reason(name, own)))
            elif name == backward and _forward_of(name) not in done:
                continue  # with its forward pass
            else:
                passes = [each for each in dict.fromkeys((name, backward)) if each in self.indices and each not in done]
                indexed = tuple((self.indices[each], each) for each in passes)
                yield Given(entry, self.dump.tensor_folder, indexed, self.place, self.dump.level)


def _names(name: str) -> set[str]:
    """Returns the names by which an entry may be wanted."""
    api = CallRow(0, "", name, Verdict.SKIPPED, "").api
    return {_call_of(name), api, api.rpartition(".")[2]}


def _call_of(name: str) -> str:
    """Returns the name of an entry's call."""
    module = ModuleName.of(name)
    if module:
        return f"Module.{module.path}.{module.kind}.{module.number}"
    return name.removesuffix(".backward").removesuffix(".forward")


def _forward_of(name: str) -> str:
    module = ModuleName.of(name)
    return f"Module.{module.path}.{module.kind}.forward.{module.number}" if module else f"{_call_of(name)}.forward"


def _backward_of(name: str) -> str:
    module = ModuleName.of(name)
    return f"Module.{module.path}.{module.kind}.backward.{module.number}" if module else f"{_call_of(name)}.backward"


def _reason(name: str, own: str) -> str:
    """Returns why an entry cannot be judged."""
    if (module := ModuleName.of(name)) is not None:
        return module.reason
    try:
        find_apis(own.rpartition(".")[0])
    except NotJudgedError as reason:
        return str(reason)
    return "no call of a function" if is_forward(name) else "the dump has no forward pass of this call"
