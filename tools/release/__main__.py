"""`python -m tools.release VERSION` makes a release of this checkout, as docs/releasing.md describes.

The new version is written, committed and built in a tree of its own, so a release that fails changes nothing here.
"""

import argparse
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
from tools.release.changelog import date_changes
from tools.release.git import git
from tools.release.signing import NO_KEY, signed_tag, signing_key
from tools.release.versions import TAG, check_is_next, current_version, parse, write_version

ROOT: Final = Path(__file__).resolve().parents[2]
RELEASED: Final = "proto/released.binpb"
GOOGLEAPIS: Final = "build/googleapis"
"""The protos of others that ours import; git does not have them."""


def release(root: Path, text: str, day: date, buf: str, is_dry: bool = False) -> list[str]:
    """Makes the release and returns the names of its files in `dist`; a dry one neither commits nor tags here."""
    version = parse(text)
    if changes := git(root, "status", "--porcelain").splitlines():
        named = ", ".join(line.split()[-1] for line in changes[:5])
        raise RefusedError(f"{len(changes)} changes are not committed: {named}; commit or stash them")
    check_is_next(version, current_version(root), git(root, "tag", "--list").split())
    has_key = bool(signing_key(root))
    if not has_key and not is_dry:
        raise RefusedError(NO_KEY)
    with _own_tree(root) as tree:
        write_version(tree, version)
        date_changes(tree, version, day)
        shutil.copytree(root / GOOGLEAPIS, tree / GOOGLEAPIS)
        _run(tree, buf, "build", "proto", "--exclude-source-info", "--output", RELEASED)
        # A first candidate may change no file.
        git(tree, "commit", "--quiet", "--allow-empty", "--all", "--message", f"Release {version}")
        # Before the build, which takes long: the key may ask for its passphrase.
        tag = signed_tag(tree, f"{TAG}{version}", f"aclgrad {version}") if has_key else None
        _run(tree, "make", "--no-print-directory", "release-files")
        files = sorted(path.name for path in (tree / "dist").iterdir()) if (tree / "dist").is_dir() else []
        if not files:
            raise RefusedError("nothing has changed here, because `make release-files` left no files in dist")
        if tag is not None and not is_dry:
            _take(root, git(tree, "rev-parse", "HEAD"), f"{TAG}{version}", tag)
        shutil.rmtree(root / "dist", ignore_errors=True)
        (tree / "dist").rename(root / "dist")
    return files


def _take(root: Path, commit: str, name: str, tag: str) -> None:
    """Gives the tag its name and moves the branch to the commit, both or neither."""
    # The last argument refuses if somebody has made a tag of this name since.
    git(root, "update-ref", f"refs/tags/{name}", tag, "0" * len(tag))
    try:
        # Refuses if somebody has committed since.
        git(root, "merge", "--quiet", "--ff-only", commit)
    except BaseException:
        git(root, "tag", "--delete", name)
        raise


@contextmanager
def _own_tree(root: Path) -> Iterator[Path]:
    """Yields another tree at the same commit, which is gone after the block."""
    parent = root / "build/release"
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=parent, prefix="tree-") as folder:
        git(root, "worktree", "add", "--quiet", "--detach", folder)
        try:
            yield Path(folder)
        finally:
            git(root, "worktree", "remove", "--force", folder)


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
    elif signing_key(ROOT):
        print(f"The tag {TAG}{arguments.version} was signed, verified and not kept.")
    else:
        print(f"No signed tag: {NO_KEY}. A release is refused without it.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
