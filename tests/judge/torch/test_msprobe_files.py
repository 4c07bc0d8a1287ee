"""Files of dumped tensors: of every dtype, saved on a card, and hostile ones."""

import enum
import io
import os
import sys
import time
import types
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from aclgrad.judge.msprobe.dump import EntryError

from .dumped import FILE, in_file, made

SAVED = torch.arange(6, dtype=torch.float32).reshape(2, 3)


@pytest.mark.parametrize(
    "tensor",
    [
        SAVED,
        SAVED.to(torch.bfloat16),
        SAVED.to(torch.int64),
        SAVED > 2,
        SAVED.to(torch.complex64),
        torch.tensor(2.0),
        torch.zeros(0, 3),
        torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
    ],
    ids=lambda each: f"{str(each.dtype)[6:]}-{each.dim()}",
)
def test_files_hold_tensors_of_every_dtype(tmp_path: Path, tensor: Tensor) -> None:
    values = made(in_file(tmp_path, tensor, dtype=str(tensor.dtype), shape=list(tensor.shape)))
    assert torch.equal(values.args[0], tensor)
    assert values.args[0].requires_grad == (tensor.dtype not in (torch.int64, torch.bool))


def test_files_of_numpy_are_read(tmp_path: Path) -> None:
    dump = in_file(tmp_path, name="a.npy")
    for array in (SAVED.numpy(), np.asfortranarray(SAVED.numpy())):
        np.save(tmp_path / "dump_tensor_data" / "a.npy", array)
        assert torch.equal(made(dump).args[0], SAVED)
    empty = in_file(tmp_path, name="b.npy", shape=[0, 3])
    np.save(tmp_path / "dump_tensor_data" / "b.npy", np.zeros((0, 3), np.float32))
    assert made(empty).args[0].shape == (0, 3)


FORMATS = {
    "its class": lambda self, _: (type(self), (self.value,)),
    "getattr": lambda self, _: (getattr, (type(self), self.name)),
}
"""How releases of Python pickle members of enumerations."""


@pytest.mark.parametrize("way", [*FORMATS, "a number"])
def test_files_that_were_saved_on_a_card_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """torch_npu's __reduce_ex__ names its own function, and a format, in every file of a tensor of a card."""

    def _rebuild_npu_tensor(*_: Any) -> None: ...

    format = enum.IntEnum("Format", {"ND": 2}, module="torch_npu.npu._format")
    if way in FORMATS:
        format.__reduce_ex__ = FORMATS[way]
    _rebuild_npu_tensor.__module__, _rebuild_npu_tensor.__qualname__ = "torch_npu.utils.storage", "_rebuild_npu_tensor"
    for each in (_rebuild_npu_tensor, format):
        module = types.ModuleType(each.__module__)
        vars(module)[each.__name__] = each
        monkeypatch.setitem(sys.modules, each.__module__, module)
    for package in ("torch_npu", "torch_npu.utils", "torch_npu.npu"):
        monkeypatch.setitem(sys.modules, package, types.ModuleType(package))

    def reduce(self: Tensor, _: int) -> Any:
        _, arguments = self._reduce_ex_internal(2)
        return _rebuild_npu_tensor, (*arguments[:6], format.ND if way in FORMATS else 2)

    with monkeypatch.context() as patch:
        patch.setattr(torch.Tensor, "__reduce_ex__", reduce)
        dump = in_file(tmp_path, SAVED)
    with zipfile.ZipFile(tmp_path / "dump_tensor_data" / FILE) as archive:
        (pickle,) = (archive.read(name) for name in archive.namelist() if name.endswith("data.pkl"))
    assert b"torch_npu.utils.storage" in pickle
    assert (b"torch_npu.npu._format" in pickle) is (way in FORMATS)
    assert torch.equal(made(dump).args[0], SAVED)


def rewritten(path: Path, change: Callable[[str, bytes], bytes], compression: int = zipfile.ZIP_STORED) -> None:
    """Writes a file of torch.save anew with changed members."""
    old = io.BytesIO(path.read_bytes())
    with zipfile.ZipFile(old) as archive, zipfile.ZipFile(path, "w", compression) as new:
        for name in archive.namelist():
            new.writestr(name, change(name, archive.read(name)))


def bomb(path: Path) -> None:
    rewritten(path, lambda name, data: bytes(10**7) if "/data/" in name else data, zipfile.ZIP_DEFLATED)


def compressed(path: Path) -> None:
    rewritten(path, lambda _, data: data, zipfile.ZIP_DEFLATED)


def short(path: Path) -> None:
    rewritten(path, lambda name, data: data[:8] if "/data/" in name else data)


def pickled(data: bytes) -> Callable[[Path], None]:
    """Returns a change of a file's pickle to this one."""
    return lambda path: rewritten(path, lambda name, old: data if name.endswith("data.pkl") else old)


def claims_more(path: Path) -> None:
    """The pickle's storage and shape become larger than the file."""
    rewritten(path, lambda name, data: data.replace(b"K\x06", b"J\x00\x00\x00\x10") if name.endswith("pkl") else data)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def other(content: Any) -> Callable[[Path], None]:
    return lambda path: torch.save(content, path)


def outside(path: Path) -> None:
    path.rename(path.parent.parent / "outside.pt")
    path.symlink_to(path.parent.parent / "outside.pt")


def large(path: Path) -> None:
    os.truncate(path, 2**40)


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


EXECUTED = b"cos\nsystem\n(X\x12\x00\x00\x00touch was-executedtR."
ALLOCATES = b"\x80\x02cbuiltins\nbytearray\nq\x00\x8a\x06\x00\x00\x00\x00\x00\x01\x85R."


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (bomb, "does not hold the 24 bytes of one tensor, but [10000000]"),
        (compressed, "is compressed, which torch.save does not do"),
        (short, "does not hold the 24 bytes of one tensor, but [8]"),
        (pickled(EXECUTED), "is no tensor of torch.save: it names 'os system'"),
        (pickled(ALLOCATES), "is no tensor of torch.save: it names 'builtins bytearray'"),
        (pickled(b""), "cannot be read"),
        (pickled(b"\x80\x02}q\x00."), "holds no tensor as msprobe saves them"),
        (pickled(b"\x80\x02K\x01" + b"\x85" * 60_000 + b"."), "holds no tensor"),
        (claims_more, "cannot be read"),
        (cut, "cannot be read"),
        (other({"a": SAVED}), "holds no tensor as msprobe saves them"),
        (other([SAVED, SAVED + 1]), "does not hold the 24 bytes of one tensor, but [24, 24]"),
        (other(SAVED.to(torch.int32)), "is int32 (2, 3), and in dump.json it is float32 (2, 3)"),
        (other(SAVED.T.contiguous()), "is float32 (3, 2), and in dump.json it is float32 (2, 3)"),
        (other(torch.arange(100.0)[:6].reshape(2, 3)), "does not hold the 24 bytes"),
        (other(torch.ones(3).expand(2, 3)), "does not hold the 24 bytes"),
        (other(torch.nn.Parameter(SAVED)), "it names 'torch._utils _rebuild_parameter'"),
        (lambda path: path.write_bytes(b"no archive"), "cannot be read: File is not a zip file"),
        (lambda path: path.write_bytes(b""), "cannot be read"),
        (lambda path: path.unlink(), "is missing in"),
        (large, "has 1 TiB for 24 B of elements"),
        (outside, "is a link that leaves"),
        (folder, "is missing in"),
    ],
)
def test_a_file_that_is_not_the_tensor_skips_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    dump = in_file(tmp_path, SAVED)
    change(tmp_path / "dump_tensor_data" / FILE)
    start = time.process_time()
    with pytest.raises(EntryError) as raised:
        made(dump)
    assert message in str(raised.value)
    assert time.process_time() - start < 1
    assert not Path("was-executed").exists()


def npy(header: str) -> bytes:
    text = header.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


@pytest.mark.parametrize(
    "content",
    [
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"),
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }"),
        npy("{'descr': '|O', 'fortran_order': False, 'shape': (2, 3), }") + EXECUTED,
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': " + "(" * 90) + bytes(24),
        EXECUTED,
        b"",
    ],
    ids=["cut", "huge", "objects", "nested", "pickle", "empty"],
)
def test_a_broken_file_of_numpy_skips_the_call(tmp_path: Path, content: bytes) -> None:
    dump = in_file(tmp_path, name="a.npy")
    (tmp_path / "dump_tensor_data" / "a.npy").write_bytes(content)
    with pytest.raises(EntryError, match="cannot be read"):
        made(dump)
