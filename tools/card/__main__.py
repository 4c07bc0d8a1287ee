"""Examines a card at the ABI, alone on it, and prints a JSON line for each row, as `aclgrad check --rows` does."""

import argparse
import faulthandler
import json
import os
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import aclgrad_native
from aclgrad.judge.findings.rows import Origin, Row, Verdict
from aclgrad.products import product_of_soc
from tools.abi.acl import AclError
from tools.card.card import Card
from tools.card.examinations import EXAMINATIONS

_REMEDY: Final = "see npu-smi info, CANN's log and the file of --acl-config"


def main() -> int:
    parser = argparse.ArgumentParser("python -m tools.card", description=__doc__)
    parser.add_argument("--backend", default="ascend", help="ascend, host, or the path of an ACL library")
    parser.add_argument("--acl-config", help="JSON file for aclInit")
    parser.add_argument("--device", type=int, default=0)
    parser.add_argument("--limit-s", type=float, default=60.0, help="for one row; a driver that hangs longer ends it")
    options = parser.parse_args()
    files = aclgrad_native.library_files(options.backend)
    library, verdicts = Path(files[0][0]).name, set()
    try:
        for row in _rows(Card(files), library, options):
            print(json.dumps(row.to_json()), flush=True)
            verdicts.add(row.verdict)
    except (AclError, OSError) as error:
        print(f"device {options.device}: {error}; {_REMEDY}", file=sys.stderr)
        return 1
    # What was skipped proves nothing of the card.
    return 1 if Verdict.FAILED in verdicts or verdicts <= {Verdict.SKIPPED} else 0


def _rows(card: Card, library: str, options: argparse.Namespace) -> Iterator[Row]:
    """Yields a row for each case; ends the process with all stacks if one takes longer than the limit."""
    faulthandler.dump_traceback_later(options.limit_s, exit=True)
    card.call("aclInit", os.fsencode(options.acl_config) if options.acl_config else None)
    card.call("aclrtSetDevice", options.device)
    origin = Origin(socket.gethostname(), product_of_soc(card.soc_name) or card.soc_name, library, card.version)
    for examination in EXAMINATIONS:
        begin = time.monotonic()
        for case, finding in examination(card):
            seconds = time.monotonic() - begin
            told = finding.verdict, finding.message, finding.figures
            yield Row(origin, examination.__name__, "", "", (), case, *told, seconds)
            faulthandler.dump_traceback_later(options.limit_s, exit=True)
            begin = time.monotonic()
    card.call("aclrtResetDevice", options.device)
    card.call("aclFinalize")


if __name__ == "__main__":
    sys.exit(main())
