"""The signed tag of a release: made and verified before anything is built, kept only if all of the release succeeds."""

import tempfile
from pathlib import Path
from typing import Final

from tools.release import RefusedError
from tools.release.git import git, setting

NO_KEY: Final = (
    "git has no key to sign the tag with; give it one: `git config user.signingkey KEY`, where KEY is a GnuPG key's id "
    "or, after `git config gpg.format ssh`, the file of an SSH public key"
)


def signing_key(root: Path) -> str:
    """Returns the key that git signs with: a file, an SSH key or the id of a GnuPG key; empty if there is none."""
    return setting(root, "user.signingkey")


def signed_tag(tree: Path, name: str, message: str) -> str:
    """Tags the tree's commit, verifies the signature, and returns the tag's object; the name is free again."""
    git(tree, "tag", "--sign", "--message", message, name)
    try:
        _verify(tree, name)
        return git(tree, "rev-parse", f"refs/tags/{name}")
    finally:
        git(tree, "tag", "--delete", name)


def _verify(tree: Path, name: str) -> None:
    """Raises RefusedError if the tag is not signed by the key that git has."""
    if setting(tree, "gpg.format") != "ssh":
        git(tree, "verify-tag", name)
        return
    # Git trusts an SSH key only if a file of allowed signers has it.
    with tempfile.NamedTemporaryFile("w", suffix=".allowed_signers") as allowed:
        allowed.write(f"maintainer {_public_key(signing_key(tree))}\n")
        allowed.flush()
        git(tree, "-c", f"gpg.ssh.allowedSignersFile={allowed.name}", "verify-tag", name)


def _public_key(key: str) -> str:
    """Returns the SSH key that a setting names: the key itself, its file, or the file of its private part."""
    if key.startswith(("key::", "ssh-")):
        return key.removeprefix("key::")
    for path in (Path(key), Path(f"{key}.pub")):
        if path.is_file() and not (text := path.read_text().strip()).startswith("-----"):
            return text
    raise RefusedError(f"{key} is no public key of SSH; have user.signingkey name the .pub file")
