"""Stages the pages, has Sphinx build the site, takes the pictures of its front page, and checks it."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from website import api, commands, limits, metrics
from website.links import problems
from website.navigation import COMMANDS, HOME, LIMITS, METRICS, home, pages
from website.operators.pages import pages as operator_pages
from website.pictures import take_all
from website.staging import stage

ROOT: Final = Path(__file__).parents[1]
BUILD: Final = ROOT / "build"
STAGED: Final = BUILD / "pages"
SITE: Final = BUILD / "site"


def main() -> int:
    """Returns 0 if the site is built and whole."""
    for folder in (STAGED, SITE):
        shutil.rmtree(folder, ignore_errors=True)
    generated = {
        HOME: home((ROOT / HOME).read_text()),
        COMMANDS: commands.page(),
        LIMITS: limits.page(),
        METRICS: metrics.page(),
    }
    stage(pages(), {**dict(operator_pages()), **dict(api.pages()), **generated}, ROOT, STAGED)
    # A warning is an error; all of them are printed first. Nothing is kept between builds.
    strict = ["--fail-on-warning", "--keep-going", "--nitpicky", "--fresh-env", "--jobs", "auto", "--quiet"]
    folders = [f"--conf-dir={Path(__file__).parent}", f"--doctree-dir={BUILD / 'doctrees'}", str(STAGED), str(SITE)]
    code = subprocess.run([sys.executable, "-m", "sphinx", *strict, *folders], check=False).returncode
    if code:
        return code
    take_all(SITE)
    found = list(problems(SITE))
    print(*found, sep="\n", file=sys.stderr, end="\n" if found else "")
    print(f"{len(list(SITE.rglob('*.html')))} pages, {len(found)} problems: {SITE / 'index.html'}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
