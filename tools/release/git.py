"""Git, run without hooks."""

import os
import re
import subprocess
from pathlib import Path
from typing import Final

from tools.release import RefusedError

_REMOTE: Final = re.compile(r"(?:https://(?:[^/@]+@)?|(?:ssh://)?git@)(?P<host>[^/:]+)[/:](?P<path>.+?)(?:\.git)?")


def git(folder: Path, *arguments: str) -> str:
    """Runs git without hooks, which need an environment that the release's own tree has not; returns its output."""
    command = ["git", "-c", f"core.hooksPath={os.devnull}", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RefusedError(
            f"nothing has changed here, because `git {' '.join(arguments)}` failed: {done.stderr.strip()}"
        )
    return done.stdout.strip()


def setting(folder: Path, name: str) -> str:
    """Returns a value of git's configuration, empty if it is not set; a `~` is the home folder."""
    command = ["git", "config", "--type=path", "--get", name]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False).stdout.strip()


def source_url(folder: Path) -> str:
    """Returns where the code is from, without what a remote may have of a password; empty without a remote."""
    remote = _REMOTE.fullmatch(setting(folder, "remote.origin.url"))
    return f"https://{remote['host']}/{remote['path']}" if remote else ""
