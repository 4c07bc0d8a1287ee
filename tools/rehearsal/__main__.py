"""Runs every shell block of the runbook, in one shell for each product, and says which step failed."""

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from aclgrad.operators.catalogue import OPERATORS
from aclgrad.products import Product
from tools.serving import clean_environment
from tools.strict import config_text, strict_library

ROOT: Final = Path(__file__).resolve().parents[2]
RUNBOOK: Final = ROOT / "docs/first-day.md"
PRODUCTS: Final = [product for product in Product if any(product in spec.products for spec in OPERATORS.values())]
SHORT: Final = {"QUICK": "--quick", "KILLS": "1", "SOAK_S": "1"}
LIMIT_S: Final = 1200
STEP: Final = "=== "
LAST_LINES: Final = 15
ON_PURPOSE: Final = "misaligned async copy"
"""What the examination of the card tries, to learn how the card takes it."""


def blocks(runbook: str) -> Iterator[tuple[str, str]]:
    """Yields the heading and the text of each block that is a shell's; those of a console are for people."""
    heading = ""
    for found in re.finditer(r"^## (?P<heading>.*?)$|^```sh\n(?P<block>.*?)^```$", runbook, re.MULTILINE | re.DOTALL):
        if found["heading"]:
            heading = found["heading"]
        else:
            yield heading, found["block"]


def script(runbook: str) -> str:
    """Returns the blocks as one script, which says where it is and at what second."""
    return "".join(f'echo "{STEP}$SECONDS s: {heading}"\n{block}' for heading, block in blocks(runbook))


def rehearse(product: Product, folder: Path, port: int, variables: dict[str, str]) -> bool:
    """Runs the steps on a strict device of the product; says whether all of them, and no rule of a card, passed."""
    folder.mkdir(parents=True, exist_ok=True)
    config, report, output = folder / "acl.json", folder / "misuse.txt", folder / "output.txt"
    report.unlink(missing_ok=True)
    config.write_text(config_text(product=product, host_pointers=False, strict=True, strict_report=report))
    (folder / "script.sh").write_text(script(RUNBOOK.read_text()))
    # The host library has one card, which two workers share.
    own = {"BACKEND": strict_library(), "PORT": str(port), "ACLGRAD_ACL_CONFIG": str(config), "WORKERS": "2"}
    environment = clean_environment(**own, **variables)
    # As on a card: tests alone save the time.
    del environment["ACLGRAD_PROBE_IN_CHILD"]
    environment["CLONE"] = str(ROOT)
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    with output.open("w") as file:
        shell = subprocess.Popen(
            ["bash", "script.sh"], cwd=folder, env=environment, stdout=file, stderr=file, start_new_session=True
        )
        try:
            code = shell.wait(LIMIT_S)
        finally:
            # Servers that a failed step has left behind.
            with suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
    told = output.read_text()
    if STEP not in told:
        print(f"{product}: {RUNBOOK.name} has no step that ran", flush=True)
        return False
    reports = report.read_text().splitlines() if report.exists() else []
    misuse = "\n".join(line for line in reports if ON_PURPOSE not in line)
    if code == 0 and not misuse:
        print(f"{product}: go", flush=True)
        return True
    step = re.findall(rf"^{STEP}(.*)$", told, re.MULTILINE)[-1]
    last = "\n".join(told.splitlines()[-LAST_LINES:])
    print(f"{product}: no-go, exit code {code} at {step}; see {folder}\n{last}\n{misuse}", flush=True)
    return False


def main() -> int:
    parser = argparse.ArgumentParser("python -m tools.rehearsal", description=__doc__)
    parser.add_argument("products", nargs="*", default=[str(each) for each in PRODUCTS], help=" ".join(PRODUCTS))
    parser.add_argument("--full", action="store_true", help="with the full check, ten kills and an hour of load")
    parser.add_argument("--folder", type=Path, help="where to leave what the steps write; build/rehearsal in make")
    parser.add_argument("--port", type=int, default=19464, help="of the admin listener, and the next one")
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp())
    start = time.monotonic()
    results = [
        rehearse(Product(each), folder.resolve() / each, options.port, {} if options.full else SHORT)
        for each in options.products
    ]
    print(f"{sum(results)} of {len(results)} products in {time.monotonic() - start:.0f} s")
    return 0 if results and all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
