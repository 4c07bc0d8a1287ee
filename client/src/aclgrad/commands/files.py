"""Arrays in files: npy, npz and safetensors."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import ml_dtypes
import numpy as np
from safetensors.numpy import load_file, save_file

from aclgrad.new_files import check_unwritten, checked_folder

Array = np.ndarray[Any, Any]

SUFFIXES: Final = (".npy", ".npz", ".safetensors")
_HINT: Final = "give FILE.npy, FILE.npz:NAME or FILE.safetensors:NAME"
_BFLOAT16: Final = np.dtype("V2")
"""The name of bfloat16 in an npy file, unknown to numpy."""


def is_file(text: str) -> bool:
    """Whether the text names a file of a known form, with or without the name of an array."""
    return Path(_split(text)[0]).suffix in SUFFIXES


def load(text: str) -> Array:
    """Returns the array that `FILE` or `FILE:NAME` names; a file of several arrays needs the name.

    Raises ValueError if the file is malformed or lacks the array, and OSError if it cannot be read.
    """
    path, name = _split(text)
    if path.endswith(".npy"):
        if name:
            raise ValueError(f"{path} holds one array without a name, and {name!r} was asked for; leave :{name} out")
        with _reading(path, "an npy file"), open(path, "rb") as file:
            return _known(np.lib.format.read_array(file, allow_pickle=False))
    arrays = _load_all(path)
    if not name and len(arrays) == 1:
        return next(iter(arrays.values()))
    if name not in arrays:
        asked = f"no array {name!r}" if name else f"{len(arrays)} arrays"
        raise ValueError(f"{path} has {asked}; give {path}:NAME with one of {', '.join(arrays) or 'none'}")
    return arrays[name]


def save(path: Path, arrays: Mapping[str, Array], *, overwrite: bool) -> None:
    """Writes the arrays by name, or the only one if the form has no names; raises ValueError if the file exists."""
    check_unwritten(path, overwrite=overwrite)
    if path.suffix == ".npy":
        (array,) = arrays.values()
        np.save(path, array, allow_pickle=False)
    elif path.suffix == ".npz":
        named: dict[str, Any] = dict(arrays)
        np.savez(path, **named)
    else:
        save_file({name: np.ascontiguousarray(each) for name, each in arrays.items()}, path)


def checked_output(path: Path) -> Path:
    """Returns the path; raises ValueError if its form is unknown or its folder does not exist."""
    if path.suffix not in SUFFIXES:
        raise ValueError(f"{path} has no known form; end it with {', '.join(SUFFIXES)}")
    checked_folder(path)
    return path


def _load_all(path: str) -> dict[str, Array]:
    if path.endswith(".npz"):
        # Not np.load, which takes other files for pickles.
        with (
            _reading(path, "an npz file"),
            open(path, "rb") as file,
            np.lib.npyio.NpzFile(file, allow_pickle=False) as arrays,
        ):
            members = {name: arrays[name] for name in arrays.files}
        # numpy returns the bytes of a member that is not an array.
        return {name: _known(array) for name, array in members.items() if isinstance(array, np.ndarray)}
    if not path.endswith(".safetensors"):
        raise ValueError(f"{path} has no known form; {_HINT}")
    with _reading(path, "a safetensors file"):
        return dict(load_file(path))


@contextmanager
def _reading(path: str, form: str) -> Iterator[None]:
    """Turns errors about the file's content into ValueError; errors of the system stay as they are."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:  # of any header, compression or dtype
        raise ValueError(f"{path} cannot be read as {form}: {error}") from error


def _known(array: Array) -> Array:
    return array.view(ml_dtypes.bfloat16) if array.dtype == _BFLOAT16 else array


def _split(text: str) -> tuple[str, str]:
    """Splits FILE:NAME; a path may hold colons."""
    path, colon, name = text.rpartition(":")
    return (path, name) if colon and Path(path).suffix in SUFFIXES else (text, "")
