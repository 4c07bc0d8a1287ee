"""Releases of a small repository: what is refused, what a release changes, and that a failure changes nothing."""

import json
import shutil
import subprocess
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from tools.release import RefusedError, images
from tools.release.__main__ import release
from tools.release.changelog import notes
from tools.release.versions import check_is_next, parse

DAY = date(2027, 1, 2)
KEY = "signing key"
CHANGELOG = "# Changelog\n\n## Unreleased\n\n### Added\n\n- A change.\n\n## 1.2.3 - 2026-12-01\n\n- An older change.\n"
MAKEFILE = "release-files:\n\tmkdir -p dist && grep -h ^version */pyproject.toml | sort -u > dist/aclgrad.txt\n"
PROJECT = '[project]\nversion = "1.2.3"\n'
FILES = {
    ".gitignore": "build/\ndist/\n",
    "CHANGELOG.md": CHANGELOG,
    "Makefile": MAKEFILE,
    "client/pyproject.toml": PROJECT + 'dependencies = ["numpy==2.0"]\nserver = ["aclgrad-server==1.2.3"]\n',
    "native/pyproject.toml": PROJECT,
    "server/pyproject.toml": PROJECT + 'dependencies = [\n    "aclgrad==1.2.3",\n    "aclgrad-native==1.2.3",\n]\n',
    "proto/released.binpb": "old",
}


class Repository:
    """A repository with one commit, and a program in place of buf."""

    def __init__(self, folder: Path) -> None:
        self.root, self.buf = folder / "repository", folder / "buf"

    def make(self) -> None:
        for name, text in FILES.items():
            self.write(name, text)
        self.git("init", "--quiet", "--initial-branch=main")
        with (self.root / ".git/config").open("a") as config:
            config.write("[user]\nname = A\nemail = a@example.com\n[commit]\ngpgsign = false\n[gpg]\nformat = ssh\n")
        self.commit()
        self.write("build/googleapis/status.proto", "")
        self.buf.write_text(
            '#!/bin/sh\nfor last; do :; done\ntest -f build/googleapis/status.proto && printf new > "$last"\n'
        )
        self.buf.chmod(0o755)
        key = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", self.root.parent / KEY]
        subprocess.run(key, check=True)

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def git(self, *arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=self.root, capture_output=True, text=True, check=True).stdout

    def commit(self) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "Change")

    def release(self, version: str, is_dry: bool = False) -> list[str]:
        return release(self.root, version, DAY, str(self.buf), is_dry)

    def state(self) -> list[str]:
        """Returns everything that a failed release must leave alone."""
        questions = ("status --porcelain", "log --format=%H --all", "tag", "worktree list", "branch --all")
        return [self.git(*each.split()) for each in questions]


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fresh")
    Repository(folder).make()
    return folder


@pytest.fixture
def repository(tmp_path: Path, fresh: Path) -> Repository:
    copied = Repository(shutil.copytree(fresh, tmp_path / "fresh"))
    copied.git("config", "user.signingkey", f"{copied.root.parent / KEY}.pub")
    return copied


def test_a_release_writes_commits_tags_and_builds(repository: Repository) -> None:
    assert repository.release("1.3.0") == ["aclgrad.txt"]
    assert (repository.root / "dist/aclgrad.txt").read_text() == 'version = "1.3.0"\n'
    assert repository.git("log", "--format=%s %D", "-1").strip() == "Release 1.3.0 HEAD -> main, tag: v1.3.0"
    assert repository.git("status", "--porcelain") == ""
    assert len(repository.git("worktree", "list").splitlines()) == 1
    changed = {name: (repository.root / name).read_text() for name in FILES}
    assert changed["server/pyproject.toml"] == FILES["server/pyproject.toml"].replace("1.2.3", "1.3.0")
    assert changed["client/pyproject.toml"] == FILES["client/pyproject.toml"].replace("1.2.3", "1.3.0")
    assert changed["CHANGELOG.md"].split("\n\n")[1:4] == ["## Unreleased", "## 1.3.0 - 2027-01-02", "### Added"]
    assert changed["CHANGELOG.md"].replace("\n\n## 1.3.0 - 2027-01-02", "") == CHANGELOG
    assert changed["proto/released.binpb"] == "new"


@pytest.mark.parametrize("suffix", [".pub", ""])
def test_the_tag_is_signed_by_the_key_that_git_has(repository: Repository, suffix: str) -> None:
    key = repository.root.parent / KEY
    repository.git("config", "user.signingkey", f"{key}{suffix}")
    repository.release("1.3.0")
    allowed = repository.root.parent / "allowed"
    allowed.write_text(f"somebody {Path(f'{key}.pub').read_text()}")
    repository.git("-c", f"gpg.ssh.allowedSignersFile={allowed}", "verify-tag", "v1.3.0")


def test_without_a_key_only_a_dry_run_is_made(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    repository.git("config", "--unset", "user.signingkey")
    with pytest.raises(RefusedError, match="no key to sign the tag with; give it one: `git config user"):
        repository.release("1.3.0")
    assert repository.release("1.3.0", is_dry=True) == ["aclgrad.txt"]


def test_hooks_of_the_checkout_do_not_run(repository: Repository) -> None:
    """Those of pre-commit need the environment, which the release's own tree has not."""
    hook = repository.root / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexec .venv/bin/pre-commit\n")
    hook.chmod(0o755)
    assert repository.release("1.3.0") == ["aclgrad.txt"]
    assert repository.git("log", "--format=%s", "-1").strip() == "Release 1.3.0"


def test_the_changes_of_candidates_are_those_of_their_version(repository: Repository) -> None:
    for version in ("1.3.0rc1", "1.3.0rc2"):
        repository.release(version)
        assert (repository.root / "CHANGELOG.md").read_text() == CHANGELOG
    repository.release("1.3.0")
    changed = (repository.root / "CHANGELOG.md").read_text()
    assert changed == CHANGELOG.replace("## Unreleased\n", "## Unreleased\n\n## 1.3.0 - 2027-01-02\n")
    assert repository.git("tag").split() == ["v1.3.0", "v1.3.0rc1", "v1.3.0rc2"]


def test_a_dry_run_builds_and_changes_nothing_else(repository: Repository) -> None:
    before = repository.state()
    assert repository.release("1.3.0", is_dry=True) == ["aclgrad.txt"]
    assert (repository.root / "dist/aclgrad.txt").read_text() == 'version = "1.3.0"\n'
    assert repository.state() == before


@pytest.mark.parametrize(
    "text", ["", "1.3", "v1.3.0", "1.3.0.1", "1.03.0", "1.3.0-rc1", "1.3.0rc0", "1.3.0\n", "-1.3.0"]
)
def test_what_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(RefusedError, match=r"is no version of this project; write it like 1\.2\.3"):
        parse(text)


@pytest.mark.parametrize("text", ["1.2.3", "1.2.2", "1.2.3rc1", "0.9.9"])
def test_a_version_that_is_not_later_is_refused(text: str) -> None:
    with pytest.raises(RefusedError, match=rf"{text} is not later than 1\.2\.3; choose a later version"):
        check_is_next(parse(text), parse("1.2.3"), ["v1.2.0"])


def test_the_first_release_may_have_the_version_of_the_projects() -> None:
    for text in ("0.1.0rc1", "0.1.0", "0.2.0"):
        check_is_next(parse(text), parse("0.1.0"), ["other"])
    with pytest.raises(RefusedError, match=r"0\.0\.9 is not later than 0\.1\.0"):
        check_is_next(parse("0.0.9"), parse("0.1.0"), [])


def test_the_notes_are_the_section_of_the_version(repository: Repository) -> None:
    section = "### Added\n\n- A [page](docs/a.md#part), [elsewhere](https://example.com)."
    repository.write("CHANGELOG.md", CHANGELOG.replace("### Added\n\n- A change.", section))
    repository.commit()
    repository.release("1.3.0")
    assert notes(repository.root) == f"# aclgrad 1.3.0\n\n{section}\n"
    repository.git("remote", "add", "origin", "https://me:secret@example.com/us/it.git")
    there = "https://example.com/us/it/blob/v1.3.0/docs/a.md#part"
    assert notes(repository.root) == f"# aclgrad 1.3.0\n\n{section.replace('docs/a.md#part', there)}\n"


def test_the_archive_of_the_images_has_what_the_dockerfile_copies(tmp_path: Path) -> None:
    images.archive(images.ROOT, tmp_path / "images.tar.gz")
    # By tar, because Python 3.11.2 lacks the filter without which later ones warn.
    subprocess.run(["tar", "--extract", "--file", tmp_path / "images.tar.gz", "--directory", tmp_path], check=True)
    (folder,) = tmp_path.glob("aclgrad-images-*")
    dockerfile = (folder / "Dockerfile").read_text()
    copied = [each for line in dockerfile.splitlines() if line.startswith("COPY ") for each in line.split()[1:-1]]
    assert len(copied) > 5
    assert [each for each in copied if not each.startswith(("--", "/")) and not (folder / each).exists()] == []
    bake = json.loads((folder / "docker-bake.json").read_text())
    stages = {line.split()[3] for line in dockerfile.splitlines() if line.startswith("FROM ")}
    taken = {line.split()[1].partition("=")[0] for line in dockerfile.splitlines() if line.startswith("ARG ")}
    assert bake["group"]["default"]["targets"] == ["host"]
    for image in bake["target"].values():
        assert image["target"] in stages
        assert set(image["args"]) - {"SOURCE_DATE_EPOCH"} <= taken
    assert (
        f"ASCEND_BASE:-{bake['variable']['ASCEND_BASE']['default']}}}" in (folder / "deploy/compose.yaml").read_text()
    )


@pytest.mark.parametrize("text", ["1.4.0rc1", "1.3.0"])
def test_a_version_is_later_than_every_tag(text: str) -> None:
    tags = ["venerable", "v1.4.0rc2", "v2"]
    with pytest.raises(RefusedError, match=r"not later than 1\.4\.0rc2"):
        check_is_next(parse(text), parse("1.2.3"), tags)
    check_is_next(parse("1.4.0"), parse("1.2.3"), tags)


def test_a_release_is_not_made_twice(repository: Repository) -> None:
    repository.release("1.3.0")
    with pytest.raises(RefusedError, match=r"the tag v1\.3\.0 exists"):
        repository.release("1.3.0")
    # What was released is released.
    with pytest.raises(RefusedError, match="no changes under `## Unreleased`"):
        repository.release("1.3.1")


@pytest.mark.parametrize("name", ["native/pyproject.toml", "native/new.cpp"])
def test_changes_that_are_not_committed_are_refused(repository: Repository, name: str) -> None:
    repository.write(name, PROJECT.replace("1.2.3", "1.2.2"))
    with pytest.raises(RefusedError, match=rf"1 changes are not committed: {name}"):
        repository.release("1.3.0")
    repository.commit()
    if name == "native/pyproject.toml":
        with pytest.raises(RefusedError, match="the projects differ in version"):
            repository.release("1.3.0")


def _break_build(repository: Repository) -> None:
    repository.write("Makefile", "release-files:\n\techo half > CHANGELOG.md\n\tfalse\n")


def _make_nothing(repository: Repository) -> None:
    repository.write("Makefile", "release-files:\n\ttrue\n")


def _break_protos(repository: Repository) -> None:
    repository.buf.write_text("#!/bin/sh\nexit 1\n")


def _break_signatures(repository: Repository) -> None:
    repository.git("config", "gpg.ssh.program", "false")


def _commit_meanwhile(repository: Repository) -> None:
    """The build of this repository commits to the branch that the release is made from."""
    commit = f"git -C {repository.root} commit --quiet --allow-empty --message Later"
    repository.write("Makefile", f"{MAKEFILE}\t{commit}\n")


@pytest.mark.parametrize("spoil", [_break_build, _make_nothing, _break_protos, _break_signatures, _commit_meanwhile])
def test_a_failure_releases_nothing(repository: Repository, spoil: Callable[[Repository], None]) -> None:
    spoil(repository)
    if repository.git("status", "--porcelain"):
        repository.commit()
    repository.write("dist/old.whl", "")
    before = repository.state()
    with pytest.raises(RefusedError, match="nothing has changed here, because"):
        repository.release("1.3.0")
    if spoil is not _commit_meanwhile:
        assert repository.state() == before
    assert repository.git("tag") == ""
    assert len(repository.git("worktree", "list").splitlines()) == 1
    assert [path.name for path in (repository.root / "dist").iterdir()] == ["old.whl"]
