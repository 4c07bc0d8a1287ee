"""Generates `aclgrad.v1` from the protos when the distribution is built or installed in editable mode."""

from pathlib import Path
from typing import Any

import google.rpc
import grpc_tools
from grpc_tools import protoc
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE_DOCSTRING = '"""The messages and stubs of the wire contract, generated from `proto/aclgrad/v1`."""\n'


class MessagesBuildHook(BuildHookInterface):
    """Writes `src/aclgrad/v1`, which is not in version control."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name == "sdist":
            return
        root = Path(self.root)
        generate(proto_folder(root), root / "src")


def proto_folder(root: Path) -> Path:
    """Returns the protos beside the checkout's `client/`, or those of the source distribution."""
    for folder in (root / "proto", root.parent / "proto"):
        if (folder / "aclgrad").is_dir():
            return folder
    raise FileNotFoundError(f"no proto/aclgrad beside or inside {root}; build from a checkout or a source distribution")


def generate(protos: Path, destination: Path) -> None:
    """Writes the package `aclgrad.v1` below `destination`."""
    well_known = Path(grpc_tools.__file__).parent / "_proto"
    # google.rpc is a namespace package; protoc needs the folder that contains `google/`.
    googleapis = [Path(path).parents[1] for path in google.rpc.__path__]
    includes = [f"-I{path}" for path in (protos, well_known, *googleapis)]
    outputs = [f"--{kind}_out={destination}" for kind in ("python", "pyi", "grpc_python")]
    sources = [str(path.relative_to(protos)) for path in sorted((protos / "aclgrad/v1").glob("*.proto"))]
    status = protoc.main(["protoc", *includes, *outputs, *sources])
    if status != 0:
        raise RuntimeError(f"protoc ended with status {status} for {', '.join(sources)}")
    (destination / "aclgrad/v1/__init__.py").write_text(PACKAGE_DOCSTRING)
