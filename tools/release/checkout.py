"""What a release does with git: it changes a tree of its own, and the caller's only at the end."""

import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.release import RefusedError


class Checkout:
    """The working tree that the release is made from."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def git(self, *arguments: str) -> str:
        """Runs git without hooks and returns its output; refuses the release with git's message if it fails."""
        # A hook would run in a tree without an environment, and the release has checks of its own.
        command = ["git", "-c", f"core.hooksPath={os.devnull}", *arguments]
        done = subprocess.run(command, cwd=self.root, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RefusedError(f"`git {' '.join(arguments)}` failed: {done.stderr.strip()}")
        return done.stdout.strip()

    def head(self) -> str:
        return self.git("rev-parse", "HEAD")

    def tags(self) -> list[str]:
        return self.git("tag", "--list").split()

    def check_branch(self, tag: str) -> None:
        """Refuses a checkout that cannot be pushed as a release of this tag."""
        try:
            self.git("symbolic-ref", "--quiet", "HEAD")
        except RefusedError:
            raise RefusedError("no branch is checked out; check out the one that the release is to be on") from None
        if self.git("branch", "--list", tag):
            raise RefusedError(f"there is a branch {tag}, and git would not know it from the tag; rename it")

    def check_clean(self) -> None:
        """Refuses changes that are not committed, of files that git does not know as well."""
        changes = self.git("status", "--porcelain").splitlines()
        if changes:
            named = ", ".join(line.split()[-1] for line in changes[:5])
            raise RefusedError(f"{len(changes)} changes are not committed: {named}; commit or stash them")

    @contextmanager
    def candidate(self) -> Iterator["Checkout"]:
        """Yields another tree at the same commit, which is gone after the block."""
        parent = self.root / "build/release"
        parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=parent, prefix="tree-") as folder:
            self.git("worktree", "add", "--quiet", "--detach", folder)
            try:
                yield Checkout(Path(folder))
            finally:
                self.git("worktree", "remove", "--force", folder)

    def commit_all(self, subject: str) -> str:
        """Commits every change and returns the commit."""
        self.git("commit", "--quiet", "--all", "--message", subject)
        return self.head()

    def take(self, commit: str, since: str, tag: str, message: str, files: Path) -> None:
        """Tags the commit, moves the branch to it, and makes the files `dist`, all or nothing.

        Refuses if somebody has committed since. Ctrl-C ends it while the tag is made, which may wait for a signature;
        what follows takes less than a second, and Ctrl-C is ignored.
        """
        self.check_clean()
        if self.head() != since:
            raise RefusedError("there are commits that are not in the files; make the release again")
        is_taken = False
        try:
            self.git("tag", "--annotate", "--message", message, tag, commit)
            with _ignored(signal.SIGINT):
                self.take_files(files, lambda: self.git("merge", "--quiet", "--ff-only", commit))
                is_taken = True
        finally:
            if not is_taken and tag in self.tags():
                self.git("tag", "--delete", tag)

    def take_files(self, files: Path, then: Callable[[], object] = lambda: None) -> None:
        """Makes a folder `dist`, in place of that of before, which comes back if what is to be done `then` fails."""
        target, before = self.root / "dist", files.with_name("dist-before")
        try:
            if os.path.lexists(target):
                target.rename(before)
            try:
                files.rename(target)
                then()
            except BaseException:
                if target.exists():
                    target.rename(files)
                if os.path.lexists(before):
                    before.rename(target)
                raise
        except OSError as error:
            raise RefusedError(f"{target} cannot be replaced: {error}") from error


@contextmanager
def _ignored(number: signal.Signals) -> Iterator[None]:
    """Has this process and those that it starts ignore a signal."""
    before = signal.signal(number, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(number, before)
