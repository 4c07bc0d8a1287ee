"""Renders the overlays of Kubernetes and every set of components that go together, and checks them.

With folders as arguments, it checks those overlays alone.
"""

import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tools.overlays.components import FOLDER, components_of, refusals, sets
from tools.overlays.rendering import RenderError, render, write_overlay
from tools.overlays.schemas import misfits


def problems(overlay: Path) -> list[str]:
    """Returns what is wrong with an overlay. It is not rendered if its components do not go together."""
    if not (overlay / "kustomization.yaml").is_file():
        return ["there is no kustomization.yaml: name the folder of an overlay"]
    if refused := list(refusals(components_of(overlay))):
        return refused
    try:
        it = render(overlay).documents
    except RenderError as error:
        return [str(error)]
    return list(misfits(it))


def main(arguments: list[str]) -> int:
    """Prints the problems of each overlay, and returns whether there are any."""
    chosen = list(sets())
    allowed = [each for each in chosen if not any(refusals(each))]
    with tempfile.TemporaryDirectory() as temporary, ThreadPoolExecutor(os.cpu_count()) as pool:
        overlays = [Path(each) for each in arguments] or sorted((FOLDER / "overlays").iterdir())
        made = [] if arguments else [write_overlay(Path(temporary) / "+".join(each), each) for each in allowed]
        found = zip([*overlays, *made], pool.map(problems, [*overlays, *made]), strict=True)
        told = [f"{overlay.resolve().name}: {problem}" for overlay, each in found for problem in each]
    if not (overlays or made):
        told.append(f"{FOLDER} has no overlay and no component, so nothing was checked")
    print(*told, sep="\n", end="\n" if told else "", file=sys.stderr)
    if not arguments:
        print(
            f"{len(overlays)} overlays and {len(made)} of {len(chosen)} sets of components; the other sets are refused"
        )
    return int(bool(told))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
