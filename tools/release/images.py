"""`python -m tools.release.images dist/images.tar.gz` archives what builds a release's images where Docker is.

The archive has what the Dockerfile copies, Compose's file, and a `docker-bake.json` with this version's arguments:
`docker buildx bake` builds the image `host` for both processors, `docker buildx bake ascend` the one for cards.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from tools.release.git import git, source_url
from tools.release.versions import current_version

ROOT: Final = Path(__file__).resolve().parents[2]
FILES: Final = (
    ".dockerignore",
    "Dockerfile",
    "LICENSE",
    "client",
    "deploy/README.md",
    "deploy/compose.yaml",
    "deploy/monitoring",
    "deploy/requirements.lock",
    "native",
    "proto",
    "server",
)
CANN: Final = "quay.io/ascend/cann:9.0.0-910-ubuntu22.04-py3.11"
"""The base of the image for cards, as in deploy/compose.yaml; ASCEND_BASE names another one."""


def bake(root: Path) -> dict[str, Any]:
    """Returns the definition of the images of this commit, as `docker buildx bake` reads it."""
    version = current_version(root)
    arguments = {
        "VERSION": str(version),
        "REVISION": git(root, "rev-parse", "HEAD"),
        "CREATED": git(root, "log", "--max-count=1", "--format=%cI"),
        "SOURCE": source_url(root),
        # BuildKit dates the image's layers with it.
        "SOURCE_DATE_EPOCH": git(root, "log", "--max-count=1", "--format=%ct"),
    }
    common = {"context": ".", "dockerfile": "Dockerfile", "platforms": ["linux/amd64", "linux/arm64"]}
    return {
        "variable": {"ASCEND_BASE": {"default": CANN}},
        "group": {"default": {"targets": ["host"]}},
        "target": {
            "host": common | {"target": "host", "args": arguments, "tags": [f"aclgrad:{version}-host"]},
            "ascend": common
            | {
                "target": "ascend",
                "args": arguments | {"BASE": "${ASCEND_BASE}"},
                "tags": [f"aclgrad:{version}-ascend"],
            },
        },
    }


def archive(root: Path, file: Path) -> None:
    """Writes the archive of this commit; the same commit gives the same bytes."""
    name = f"aclgrad-images-{current_version(root)}/"
    added = f"--add-virtual-file={name}docker-bake.json:{json.dumps(bake(root), indent=2)}\n"
    command = ["git", "archive", "--format=tar.gz", f"--prefix={name}", added, f"--output={file.resolve()}"]
    subprocess.run([*command, "HEAD", "--", *FILES], cwd=root, check=True)


if __name__ == "__main__":
    archive(ROOT, Path(sys.argv[1]))
