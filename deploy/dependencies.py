"""Prints what the three distributions need of others: the input of `make lock`, which pins it in requirements.lock."""

import tomllib
from pathlib import Path

OWN = ("aclgrad", "aclgrad-native", "aclgrad-server")
ROOT = Path(__file__).resolve().parents[1]


def dependencies() -> list[str]:
    """Returns every requirement of a server, in order, but for our own distributions."""
    files = [ROOT / folder / "pyproject.toml" for folder in ("client", "native", "server")]
    needed = {each for file in files for each in tomllib.loads(file.read_text())["project"]["dependencies"]}
    return sorted(each for each in needed if each.partition("==")[0] not in OWN)


if __name__ == "__main__":
    print("\n".join(dependencies()))
