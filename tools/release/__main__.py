"""`python -m tools.release VERSION` makes a release of this checkout, as docs/releasing.md describes.

The new version is written, committed and built in a tree of its own, so a release that fails changes nothing here.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final

from tools.release import RefusedError
from tools.release.versions import TAG, check_is_next, current_version, parse, write_version

ROOT: Final = Path(__file__).resolve().parents[2]
RELEASED: Final = "proto/released.binpb"
GOOGLEAPIS: Final = "build/googleapis"
"""The protos of others that ours import; git does not have them."""
CHANGELOG: Final = "CHANGELOG.md"
_UNRELEASED: Final = re.compile(r"^## Unreleased\n(?P<changes>.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


def release(root: Path, text: str, day: date, buf: str, is_dry: bool = False) -> list[str]:
    """Makes the release and returns the names of its files in `dist`; a dry one neither commits nor tags here."""
    version = parse(text)
    if changes := _git(root, "status", "--porcelain").splitlines():
        named = ", ".join(line.split()[-1] for line in changes[:5])
        raise RefusedError(f"{len(changes)} changes are not committed: {named}; commit or stash them")
    check_is_next(version, current_version(root), _git(root, "tag", "--list").split())
    changelog = _UNRELEASED.search((root / CHANGELOG).read_text())
    if changelog is None or not re.search(r"^[-*] ", changelog["changes"], re.MULTILINE):
        raise RefusedError(f"{CHANGELOG} has no changes under `## Unreleased`; write what this release changes")
    with _own_tree(root) as tree:
        write_version(tree, version)
        if not version.is_prerelease:
            # The changes of 1.2.3rc1 are those of 1.2.3.
            heading = f"## Unreleased\n\n## {version} - {day.isoformat()}\n{changelog['changes']}"
            path = tree / CHANGELOG
            path.write_text(_UNRELEASED.sub(lambda found: heading, path.read_text(), count=1))
        shutil.copytree(root / GOOGLEAPIS, tree / GOOGLEAPIS)
        _run(tree, buf, "build", "proto", "--exclude-source-info", "--output", RELEASED)
        _git(tree, "commit", "--quiet", "--all", "--message", f"Release {version}")
        _run(tree, "make", "--no-print-directory", "release-files")
        files = sorted(path.name for path in (tree / "dist").iterdir()) if (tree / "dist").is_dir() else []
        if not files:
            raise RefusedError("nothing has changed here, because `make release-files` left no files in dist")
        if not is_dry:
            _take(root, _git(tree, "rev-parse", "HEAD"), f"{TAG}{version}", f"aclgrad {version}")
        shutil.rmtree(root / "dist", ignore_errors=True)
        (tree / "dist").rename(root / "dist")
    return files


def _take(root: Path, commit: str, tag: str, message: str) -> None:
    """Tags the commit and moves the branch to it, both or neither."""
    _git(root, "tag", "--annotate", "--message", message, tag, commit)
    try:
        # Refuses if somebody has committed since.
        _git(root, "merge", "--quiet", "--ff-only", commit)
    except BaseException:
        _git(root, "tag", "--delete", tag)
        raise


@contextmanager
def _own_tree(root: Path) -> Iterator[Path]:
    """Yields another tree at the same commit, which is gone after the block."""
    parent = root / "build/release"
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=parent, prefix="tree-") as folder:
        _git(root, "worktree", "add", "--quiet", "--detach", folder)
        try:
            yield Path(folder)
        finally:
            _git(root, "worktree", "remove", "--force", folder)


def _git(folder: Path, *arguments: str) -> str:
    """Runs git without hooks, which need an environment that the own tree has not; returns its output."""
    command = ["git", "-c", f"core.hooksPath={os.devnull}", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RefusedError(
            f"nothing has changed here, because `git {' '.join(arguments)}` failed: {done.stderr.strip()}"
        )
    return done.stdout.strip()


def _run(folder: Path, *command: str) -> None:
    try:
        subprocess.run(command, cwd=folder, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise RefusedError(f"nothing has changed here, because `{' '.join(command)}` failed: {error}") from error


def main() -> int:
    parser = argparse.ArgumentParser(prog="make release", description="Makes a release, up to the upload.")
    parser.add_argument("version", help="such as 1.2.3, or 1.2.3rc1")
    parser.add_argument("--dry-run", action="store_true", help="build every file, but neither commit nor tag here")
    arguments = parser.parse_args()
    try:
        today = datetime.now(UTC).date()
        files = release(ROOT, arguments.version, today, str(Path(sys.executable).with_name("buf")), arguments.dry_run)
    except RefusedError as error:
        print(f"no release: {error}", file=sys.stderr)
        return 1
    print("\n".join(["dist has:", *files]))
    if not arguments.dry_run:
        print(f"To publish it: git push origin HEAD {TAG}{arguments.version}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
