"""Reads the tensors of a dump: files of torch.save or numpy, made by somebody else.

Nothing in a file is executed, and nothing is allocated before the file's size and its members are those of the tensor
that dump.json tells of.
"""

import pickletools
import zipfile
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from aclgrad import units
from aclgrad.judge.msprobe.dump import EntryError, TensorInfo

_OVERHEAD: Final = 2**16
"""The most that a file takes beside the elements, in bytes: their alignment, their type, the names of members."""
_GLOBALS: Final = (
    *("torch._utils _rebuild_tensor_v2", "collections OrderedDict"),
    *("torch_npu.utils.storage _rebuild_npu_tensor", "torch_npu.npu._format Format", "__builtin__ getattr"),
)
"""What the pickle of one tensor names beside its storage. torch.load allows more, some of which takes any memory."""


def load_tensor(folder: Path, info: TensorInfo) -> Tensor:
    """Returns the tensor of a file in the folder, on the CPU; raises EntryError for one that is not as `info` tells."""
    name = str(info.data_name)
    try:
        tensor = _read(folder / name, info)
    except EntryError:
        raise
    except Exception as error:  # whatever the system, the zip, the pickle or the header makes the libraries raise
        raise EntryError(f"{name} cannot be read: {' '.join(str(error).split())[:200]}") from error
    # The storage as well: a tensor may claim more elements than its file has.
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
    """Does on the CPU what torch_npu's function of this name does; every file of a tensor of a card names it.

    The last argument is the format in the card's memory; in the file, elements are in the usual order.
    """
    storage, offset, size, stride, *_ = args
    return torch.empty(0, dtype=storage.dtype).set_(storage, offset, size, stride)


def _no_format(*_: Any) -> None:
    """Stands for the format, which Python pickles as a call of its class or, in releases of 3.11, of getattr."""


_OF_NPU: Final = [
    (_rebuild_npu_tensor, "torch_npu.utils.storage._rebuild_npu_tensor"),
    (_no_format, "torch_npu.npu._format.Format"),
    (_no_format, "builtins.getattr"),
]
