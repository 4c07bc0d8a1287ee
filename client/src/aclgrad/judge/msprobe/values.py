"""The arguments of a dump's calls as CPU tensors: from files, or random ones like acc_check's.

Files are untrusted: nothing in them is executed, and nothing is allocated before their size and members match the
tensor in dump.json. Without files, acc_check fills a tensor with uniform numbers between the smallest and the largest
element in the dump. All come from one generator, so a tensor's values depend on every tensor before it. The rules are
those of mindstudio-probe 26.2.0 (pytorch/api_accuracy_checker/acc_check), except for the float32 arguments of conv1d
and conv2d, which it rounds afterwards.
"""

import contextlib
import math
import pickletools
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Generator, Tensor

from aclgrad import units
from aclgrad.judge.msprobe.dump import Dump, Entry, EntryError, FileError, TensorInfo, is_tensor, tensors
from aclgrad.tensors import DTYPES

_OVERHEAD: Final = 2**16
"""The most bytes of a file beside the elements: their alignment, their type, the names of members."""
_GLOBALS: Final = (
    *("torch._utils _rebuild_tensor_v2", "collections OrderedDict"),
    *("torch_npu.utils.storage _rebuild_npu_tensor", "torch_npu.npu._format Format", "__builtin__ getattr"),
)
"""The names in the pickle of one tensor beside its storage. torch.load allows more; some can take any memory."""
_NOT_RUN: Final = ("to", "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_with_format")
_RANDOM: Final = re.compile(
    r"((feature_)?alpha_|native_|_npu_)?dropout\d?d?|bernoulli|cauchy|exponential|geometric|gumbel_softmax|log_normal"
    r"|multinomial|normal|poisson|rand(n|int|om|perm)?(_like)?|rrelu|uniform"
)
_DTYPES: Final[dict[str, torch.dtype]] = {name: getattr(torch, name) for name in (*DTYPES, "bool")}


def load_tensor(folder: Path, info: TensorInfo) -> Tensor:
    """Returns the tensor of a file in the folder, on the CPU; raises FileError if it does not fit `info`."""
    try:
        return _checked(folder, info)
    except EntryError as error:
        raise FileError(str(error)) from error
    except Exception as error:  # of the system, the zip, the pickle or the header
        reason = " ".join(str(error).split())[:200]
        raise FileError(f"{info.data_name} cannot be read: {reason}; copy the whole dump.") from error


def _checked(folder: Path, info: TensorInfo) -> Tensor:
    name = str(info.data_name)
    tensor = _read(folder / name, info)
    # The storage, too: a tensor may claim more elements than its file has.
    if (
        type(tensor) is not Tensor
        or tensor.layout != torch.strided
        or tensor.untyped_storage().nbytes() != info.size_bytes
    ):
        raise EntryError(f"{name} holds no tensor as msprobe saves them.")
    if f"torch.{info.dtype}" != str(tensor.dtype) or info.shape != tuple(tensor.shape):
        have = f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}"
        raise EntryError(f"{name} is {have}, and in dump.json it is {info.dtype} {info.shape}.")
    return tensor


def _read(path: Path, info: TensorInfo) -> Tensor:
    if not path.is_file():
        raise EntryError(f"{path.name} is missing in {path.parent}; copy the whole dump.")
    if path.resolve().parent != path.parent.resolve():
        raise EntryError(f"{path.name} is a link that leaves {path.parent}.")
    if (size := path.stat().st_size) > info.size_bytes + _OVERHEAD:
        raise EntryError(f"{path.name} has {units.size(size)} for {units.size(info.size_bytes)} of elements.")
    return _of_torch(path, info) if path.suffix == ".pt" else _of_numpy(path)


def _of_numpy(path: Path) -> Tensor:
    # A mapped file cannot claim more elements than it has.
    return torch.from_numpy(np.array(np.load(path, mmap_mode="r", allow_pickle=False)))


def _of_torch(path: Path, info: TensorInfo) -> Tensor:
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        elements = [member.file_size for member in members if "/data/" in member.filename]
        if elements != [info.size_bytes]:
            raise EntryError(
                f"{path.name} does not hold the {info.size_bytes} bytes of one tensor, but {elements[:3]}."
            )
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):
            raise EntryError(f"{path.name} is compressed, which torch.save does not do.")
        if sum(member.file_size for member in members) > info.size_bytes + _OVERHEAD:
            raise EntryError(f"{path.name} has members larger than itself.")
        pickle = archive.read(next(member for member in members if member.filename.endswith("/data.pkl")))
    for opcode, argument, _ in pickletools.genops(pickle):
        if opcode.name == "GLOBAL" and not _is_known(str(argument)):
            raise EntryError(f"{path.name} is no tensor of torch.save: it names {str(argument)[:80]!r}.")
    with torch.serialization.safe_globals(_OF_NPU):
        tensor: Tensor = torch.load(path, map_location="cpu", weights_only=True)
    return tensor


def _is_known(name: str) -> bool:
    return name in _GLOBALS or (name.startswith("torch ") and name.endswith("Storage"))


def _rebuild_npu_tensor(*args: Any) -> Tensor:
    """torch_npu's function of this name on the CPU; every file of a card's tensor names it.

    The last argument is the format in the card's memory; in the file, elements are in the usual order.
    """
    storage, offset, size, stride, *_ = args
    return torch.empty(0, dtype=storage.dtype).set_(storage, offset, size, stride)


def _no_format(*_: Any) -> None:
    """Stands for the format, which Python pickles as a call of its class or, in some releases of 3.11, of getattr."""


_OF_NPU: Final = [
    (_rebuild_npu_tensor, "torch_npu.utils.storage._rebuild_npu_tensor"),
    (_no_format, "torch_npu.npu._format.Format"),
    (_no_format, "builtins.getattr"),
]


MAX_BYTES: Final = 2**30
"""The most bytes of one call's tensors."""
SEED: Final = 1234
"""acc_check's seed."""


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """The arguments of one call. Tensors that need a gradient are leaves that require one."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    grad_output: Tensor | None
    """The gradient of the first output; None if the dump has no backward pass of the call."""


def read_values(
    dump: Dump, wanted: Callable[[Entry], bool] = lambda _: True, *, max_bytes: int = MAX_BYTES
) -> Iterator[tuple[Entry, Values | EntryError]]:
    """Yields the wanted calls in the dump's order, each with its arguments or the reason to skip it.

    Files are read when their call is reached. Random numbers are drawn for unwanted calls, too.
    """
    generator = Generator().manual_seed(SEED)
    for entry in dump.entries:
        folder = dump.tensor_folder if wanted(entry) else None
        values: Values | EntryError
        try:
            values = _values(entry, folder, generator, max_bytes)
        except EntryError as error:
            values = error
        if folder:
            yield entry, values


def built_arguments(entry: Entry, load: Callable[[TensorInfo], Tensor]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns the arguments of a call, with the tensors from `load`; raises EntryError if it is broken."""
    return _arguments(entry, [load(info) for raw in (*entry.kwargs.values(), entry.args) for info in tensors(raw)])


def _arguments(entry: Entry, made: Iterable[Tensor]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    rest = iter(made)
    kwargs = {name: _built(each, rest) for name, each in entry.kwargs.items()}
    return tuple(_built(each, rest) for each in entry.args), kwargs


def with_gradient(tensor: Tensor, info: TensorInfo) -> Tensor:
    """Returns the tensor, which requires a gradient if it needed one."""
    return tensor.requires_grad_(info.requires_grad and (tensor.is_floating_point() or tensor.is_complex()))


def first_random(dump: Dump) -> Entry | None:
    """Returns the first call that draws random numbers itself: after it, acc_check's numbers differ from ours."""
    return next((entry for entry in dump.entries if _RANDOM.fullmatch(entry.api.rstrip("_"))), None)


def _values(entry: Entry, folder: Path | None, generator: Generator, max_bytes: int) -> Values:
    """Returns the arguments of a call; without a folder only its random ones, to advance the generator."""
    _check_size(entry, max_bytes)
    made, gradients = _all_tensors(entry, folder, generator)
    if not folder:
        return Values((), {}, None)
    return Values(*_arguments(entry, made), gradients[0] if any(map(is_tensor, entry.grad_outputs[:1])) else None)


def _check_size(entry: Entry, max_bytes: int) -> None:
    infos: list[TensorInfo] = []
    # A broken argument raises its error when it is made.
    with contextlib.suppress(EntryError):
        for raw in (*entry.kwargs.values(), entry.args, entry.grad_outputs):
            infos.extend(tensors(raw))
    if (size := sum(info.size_bytes for info in infos)) > max_bytes:
        is_drawn = any(info.data_name is None for info in infos)
        note = " acc_check draws them, so the random numbers of later calls differ from its." if is_drawn else ""
        raise EntryError(f"The tensors take {units.size(size)}, more than {units.size(max_bytes)}.{note}")


def _all_tensors(entry: Entry, folder: Path | None, generator: Generator) -> tuple[list[Tensor], list[Tensor]]:
    """Returns the tensors of the arguments, keyword ones first like acc_check, and of the backward pass.

    Tensors that acc_check does not draw come from a generator of their own.
    """
    own = Generator().manual_seed(SEED)
    source = generator if _is_run(entry) else own
    made: list[Tensor] = []
    for raw in entry.kwargs.values():
        if isinstance(raw, list) and not all(isinstance(each, dict) for each in raw):
            source = own  # acc_check raises here
        made += _tensors(raw, folder, source)
    made += _tensors(entry.args, folder, source)
    return made, _tensors(entry.grad_outputs, folder, source if _is_run_backward(entry) else own)


def _is_run(entry: Entry) -> bool:
    """Returns whether acc_check makes the arguments of this call."""
    kind, *name, _ = entry.name.split(".")
    return kind not in ("Distributed", "MindSpeed") and ".".join(name) not in _NOT_RUN


def _is_run_backward(entry: Entry) -> bool:
    """Returns whether acc_check makes the gradient of this call's output."""
    is_one_output = len(entry.outputs) <= 1 or entry.api in ("topk", "npu_fusion_attention")
    is_run = entry.name.split(".")[0] in ("Functional", "Tensor", "Torch", "Aten", "NPU") and "out" not in entry.kwargs
    return is_run and is_one_output and entry.api not in ("repeat_interleave", "masked_select")


def _tensors(raw: Any, folder: Path | None, generator: Generator) -> list[Tensor]:
    made = []
    for info in tensors(raw):
        if info.data_name is None:
            made.append(_drawn(info, generator))
        elif folder:
            made.append(load_tensor(folder, info))
        else:
            continue
        with_gradient(made[-1], info)
    return made


def _drawn(info: TensorInfo, generator: Generator) -> Tensor:
    low, high = (0, 0) if 0 in info.shape else info.bounds
    dtype = _DTYPES[info.dtype]
    if not isinstance(low, (int, float)) or not isinstance(high, (int, float)):
        raise EntryError(f"A {info.dtype} tensor has neither data nor Min and Max in dump.json.")
    if dtype.is_complex:
        raise EntryError('Without data, complex tensors cannot be made; dump with task="tensor".')
    draw = _drawn_float if dtype.is_floating_point else _drawn_bool if dtype == torch.bool else _drawn_integer
    try:
        return draw(info.shape, dtype, low, high, generator)
    except (ArithmeticError, LookupError, RuntimeError, ValueError) as error:
        ends = f"{str(low)[:24]} and {str(high)[:24]}"
        raise EntryError(f"No {info.dtype} tensor can be drawn between {ends}: {error}") from error


def _drawn_float(shape: tuple[int, ...], dtype: torch.dtype, low: float, high: float, generator: Generator) -> Tensor:
    if math.isnan(high):
        return torch.full(shape, high, dtype=dtype)
    if math.isinf(high):
        tensor = torch.full(shape, high, dtype=dtype)
        tensor[-1] = low
        return tensor
    start = math.copysign(torch.finfo(dtype).max, low) if math.isinf(low) else low
    tensor = torch.rand(shape, dtype=dtype, generator=generator).mul_(high - start).add_(start)
    return _with_ends(tensor, low, high)


def _drawn_integer(shape: tuple[int, ...], dtype: torch.dtype, low: float, high: float, generator: Generator) -> Tensor:
    low, high = int(low), int(high)
    return _with_ends(torch.randint(low, high + 1, shape, dtype=dtype, generator=generator), low, high)


def _drawn_bool(shape: tuple[int, ...], _: torch.dtype, low: float, high: float, generator: Generator) -> Tensor:
    low, high = sorted((int(low), int(high)))
    return torch.randint(low, high + 1, shape, dtype=torch.uint8, generator=generator) > 0


def _with_ends(tensor: Tensor, low: float, high: float) -> Tensor:
    if tensor.numel():
        tensor.view(-1)[0] = low
        tensor.view(-1)[-1] = high
    return tensor


def _built(raw: Any, made: Iterator[Tensor]) -> Any:
    """Returns the argument described in dump.json; tensors are taken from `made`."""
    if raw is None:
        return None
    if isinstance(raw, list):
        return [_built(each, made) for each in raw]
    if is_tensor(raw):
        return next(made)
    if isinstance(raw, dict) and raw.get("type") == "torch.memory_format":
        return getattr(torch, str(raw.get("format")), torch.contiguous_format)
    if isinstance(raw, dict) and raw and "type" not in raw:
        return {name: _built(each, made) for name, each in raw.items()}
    kind, value = (raw.get("type"), raw.get("value")) if isinstance(raw, dict) else (type(raw).__name__, None)
    build = _BUILDERS.get(str(kind).removeprefix("numpy."))
    try:
        if build:
            return build(value)
    except (KeyError, TypeError, ValueError) as error:
        raise EntryError(f"An argument of the type {kind} has the value {str(value)[:80]!r}.") from error
    if kind is None:
        raise EntryError("An argument is nothing that msprobe describes.")
    raise EntryError(f"An argument has the type {str(kind)[:80]}, which cannot be replayed.")


def _scalar(value: Any) -> bool | int | float | str:
    if not isinstance(value, (bool, int, float, str)):
        raise TypeError
    return value


_BUILDERS: Final[dict[str, Callable[[Any], Any]]] = {
    **dict.fromkeys(("bool", "int", "float", "str"), _scalar),
    # numpy's, with which models compute sizes.
    **dict.fromkeys((f"{kind}{bits}" for kind in ("int", "uint", "float") for bits in (8, 16, 32, 64)), _scalar),
    **dict.fromkeys(("bool_", "str_"), _scalar),
    "torch.Size": torch.Size,
    "torch.dtype": lambda value: _DTYPES[str(value).removeprefix("torch.")],
    "torch.device": lambda _: torch.device("cpu"),
    "torch.layout": lambda _: torch.strided,
    "slice": lambda value: slice(*value),
    "ellipsis": lambda _: ...,
}
"""Readers by the type in dump.json; a device is the CPU here, wherever the dump was made."""
