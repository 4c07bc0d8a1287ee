"""Finds the shared libraries of a back end by its name, in CANN's own search order."""

import configparser
import ctypes.util
import glob
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

LibraryFile = tuple[str, bool]
"""A path, and whether failing to open it is an error."""

TOOLKITS: Final = ("/usr/local/Ascend/cann", "/usr/local/Ascend/ascend-toolkit/latest")
"""Where root installs CANN by default: from 8.5 on, and before."""
_RUNTIME: Final = "libascendcl.so"
_CUSTOM: Final = "op_api/lib/libcust_opapi.so"
_FEATURE_LIBRARIES: Final = ("ops_infer", "ops_train", "math", "sparse", "fft", "rand")


def library_files(backend: str, environment: Mapping[str, str] = os.environ) -> list[LibraryFile]:
    """Returns the files to open for `host`, `ascend`, `auto` or the path of a library.

    `auto` means `ascend` if libascendcl is found, even if it cannot be used, and `host` if not.
    """
    if backend == "auto":
        backend = "ascend" if found_runtime(environment) else "host"
    if backend == "host":
        return [(str(host_library()), True)]
    if backend == "ascend":
        return list(_ascend_files(environment))
    return [(backend, True)]


def host_library() -> Path:
    """Returns the path of libacl_host.so: beside the compiled module, which an editable install keeps elsewhere."""
    spec = find_spec("aclgrad_native._native")
    if spec is None or spec.origin is None:
        raise ImportError("aclgrad_native is not built; install it with `pip install ./native`")
    return Path(spec.origin).with_name("libacl_host.so")


def found_runtime(environment: Mapping[str, str] = os.environ) -> str | None:
    """Returns where CANN's runtime library is on this machine, for which `auto` means `ascend`, or None."""
    folders = [*_searched_folders(environment), toolkit_folder(environment) / "lib64"]
    files = (str(folder / _RUNTIME) for folder in folders if os.path.exists(folder / _RUNTIME))
    return next(files, None) or _known_to_the_loader()


@cache
def _known_to_the_loader() -> str | None:
    # Runs compilers.
    return ctypes.util.find_library("ascendcl")


def toolkit_folder(environment: Mapping[str, str] = os.environ, installed: Sequence[str] = TOOLKITS) -> Path:
    """Returns where CANN is: as its set_env.sh says, or else the first of the usual folders that exists."""
    usual = next((folder for folder in installed if os.path.exists(folder)), installed[0])
    return Path(environment.get("ASCEND_HOME_PATH", usual))


def _searched_folders(environment: Mapping[str, str]) -> list[Path]:
    """Returns where the loader looks for a bare name first."""
    return [Path(folder) for folder in environment.get("LD_LIBRARY_PATH", "").split(":") if folder]


def files_in(folder: Path, pattern: str) -> list[Path]:
    """Returns the files of a folder in order; none of one that this user may not read, for which Path raises."""
    return [folder / name for name in sorted(glob.glob(pattern, root_dir=folder))]


def _split_libraries(environment: Mapping[str, str]) -> list[Path]:
    """Returns the libraries of packages that have a part of the operators each, the first folder's of each name."""
    found: dict[str, Path] = {}
    for folder in (toolkit_folder(environment) / "lib64", *_searched_folders(environment)):
        for library in files_in(folder, "libopapi_*.so"):
            found.setdefault(library.name, library)
    return [library for _, library in sorted(found.items())]


def _ascend_files(environment: Mapping[str, str]) -> Iterator[LibraryFile]:
    folder = toolkit_folder(environment) / "lib64"
    yield _in(folder, _RUNTIME), True
    yield _in(folder, "libnnopbase.so"), True
    for library in _custom_libraries(environment):
        yield str(library), False
    for library in _split_libraries(environment):
        yield str(library), False
    yield _in(folder, "libopapi.so"), False
    for feature in _FEATURE_LIBRARIES:
        yield _in(folder, f"libaclnn_{feature}.so"), False


def _in(folder: Path, name: str) -> str:
    """Returns the file in the toolkit, or the bare name for the loader to search."""
    return str(folder / name) if os.path.exists(folder / name) else name


def _custom_libraries(environment: Mapping[str, str]) -> Iterator[Path]:
    """Yields the libraries of custom operators; one that belongs to neither root nor this user is not trusted."""
    candidates = [
        Path(folder, _CUSTOM) for folder in environment.get("ASCEND_CUSTOM_OPP_PATH", "").split(":") if folder
    ]
    if "ASCEND_OPP_PATH" in environment:
        vendors = Path(environment["ASCEND_OPP_PATH"], "vendors")
        candidates += [vendors / name / _CUSTOM for name in _vendor_names(vendors / "config.ini")]
    for library in candidates:
        if os.path.exists(library) and library.stat().st_uid in (0, os.getuid()):
            yield library


def _vendor_names(config: Path) -> list[str]:
    """Returns the vendors of CANN's `load_priority=first,second` line."""
    if not os.path.exists(config):
        return []
    parser = configparser.ConfigParser()
    # The file has no section, which the parser insists on.
    parser.read_string("[vendors]\n" + config.read_text())
    names = parser.get("vendors", "load_priority", fallback="")
    return [name.strip() for name in names.split(",") if name.strip()]
