"""`python -m tools.scale`: prints the tables of docs/scale.md, or writes them there."""

import argparse

from tools.scale.tables import PAGE, TABLES, markdown, written
from tools.scale.validation import validate


def main() -> None:
    parser = argparse.ArgumentParser("python -m tools.scale", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the tables into the page")
    parser.add_argument("--validate", action="store_true", help="load a server, and compare it with the page")
    options = parser.parse_args()
    if options.validate:
        validate()
    elif options.write:
        PAGE.write_text(written(PAGE.read_text()))
    else:
        for name, make in TABLES.items():
            print(f"{name}\n\n{markdown(make())}")


if __name__ == "__main__":
    main()
