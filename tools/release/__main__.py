"""`python -m tools.release VERSION` makes a release of this checkout, as docs/releasing.md describes.

The new version is written, committed and built in a tree of its own, so a release that fails changes nothing.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final

from tools.release import RefusedError
from tools.release.changelog import cut_section, unreleased
from tools.release.checkout import Checkout
from tools.release.versions import TAG, check_is_next, current_version, parse, write_version

ROOT: Final = Path(__file__).resolve().parents[2]
RELEASED: Final = "proto/released.binpb"
GOOGLEAPIS: Final = "build/googleapis"
"""The protos of others that ours import; git does not have them."""
_CHECKOUT_VARIABLES: Final = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
)
FILES: Final = "release-files"
"""The target that builds everything into `dist`."""


def release(root: Path, text: str, day: date, buf: str, is_dry: bool = False) -> list[str]:
    """Makes the release and returns the names of its files in `dist`; a dry one neither commits nor tags here."""
    checkout, version = Checkout(root), parse(text)
    checkout.check_clean()
    if not is_dry:
        checkout.check_branch(f"{TAG}{version}")
    check_is_next(version, current_version(root), checkout.tags())
    unreleased(root)
    since = checkout.head()
    with checkout.candidate() as tree:
        write_version(tree.root, version)
        if not version.is_prerelease:
            # The changes of 1.2.3rc1 are those of 1.2.3.
            cut_section(tree.root, version, day)
        shutil.copytree(root / GOOGLEAPIS, tree.root / GOOGLEAPIS)
        _run(buf, "build", "proto", "--exclude-source-info", "--output", RELEASED, folder=tree.root)
        commit = tree.commit_all(f"Release {version}")
        _run("make", "--no-print-directory", FILES, folder=tree.root)
        if is_dry:
            checkout.take_files(tree.root / "dist")
        else:
            checkout.take(commit, since, f"{TAG}{version}", f"aclgrad {version}", tree.root / "dist")
    return sorted(path.name for path in (root / "dist").iterdir())


def _run(*command: str, folder: Path) -> None:
    try:
        subprocess.run(command, cwd=folder, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise RefusedError(f"nothing has changed here, because `{' '.join(command)}` failed: {error}") from error


def main() -> int:
    parser = argparse.ArgumentParser(prog="make release", description="Makes a release, up to the upload.")
    parser.add_argument("version", help="such as 1.2.3, or 1.2.3rc1")
    parser.add_argument("--dry-run", action="store_true", help="build every file, but neither commit nor tag here")
    arguments = parser.parse_args()
    # A terminal that closes, and `kill`, end it as Ctrl-C does: the tree of its own goes.
    for number in (signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    # Git sets these for its hooks; in the tree of its own they would mean this one.
    for name in _CHECKOUT_VARIABLES:
        os.environ.pop(name, None)
    try:
        today = datetime.now(UTC).date()
        files = release(ROOT, arguments.version, today, str(Path(sys.executable).with_name("buf")), arguments.dry_run)
    except RefusedError as error:
        print(f"no release: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("no release: interrupted; nothing has changed here", file=sys.stderr)
        return 130
    print("\n".join(["dist has:", *files]))
    if not arguments.dry_run:
        print(f"To publish it: git push origin HEAD {TAG}{arguments.version}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
