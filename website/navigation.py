"""The site's pages in the order of the sidebar."""

from collections.abc import Mapping
from typing import Final

from aclgrad.operators.catalogue import OPERATORS as TABLE
from website.api import MODULES
from website.pictures import PICTURES, html_of

OPERATORS: Final = "operators/index.md"
COMMANDS: Final = "commands.md"
LIMITS: Final = "limits.md"
METRICS: Final = "metrics.md"
HOME: Final = "website/home.md"

NAVIGATION: Final[Mapping[str, Mapping[str, str]]] = {
    "Begin": {
        "README.md": "What it is",
        "docs/quick-start.md": "Quick start",
        "docs/concepts.md": "Key concepts",
        "docs/troubleshooting.md": "Errors",
    },
    "Trust a card": {
        "docs/right-gradients.md": "Is my gradient right?",
        "docs/check.md": "Check a server",
        "docs/first-day.md": "First day with a card",
        "docs/card-rules.md": "Rules of cards",
        "docs/cards-seen.md": "Seen on cards",
        "docs/torch-npu.md": "torch_npu",
    },
    "Compute elsewhere": {
        OPERATORS: "Operators",
        "docs/pytorch.md": "PyTorch",
        "docs/steps.md": "Whole training steps",
        "docs/jax.md": "JAX",
        "docs/attention.md": "Attention",
        "docs/client.md": "The client",
        "docs/programs.md": "Several operators in one call",
        "docs/command-line.md": "Command line",
        "docs/coverage.md": "Coverage of models",
    },
    "Serve": {
        "docs/server.md": "The server",
        "docs/platforms.md": "Platforms",
        "deploy/README.md": "Deployment",
        "docs/many-servers.md": "Several servers",
        "docs/placement.md": "Placement",
        "docs/metrics.md": "Metrics",
        "docs/traces.md": "Traces",
        "docs/runbook.md": "Runbook",
        "docs/capacity.md": "Capacity",
        "SECURITY.md": "Security",
    },
    "Look up": {
        COMMANDS: "Every flag",
        METRICS: "Every metric",
        "docs/protocol.md": "Protocol",
        LIMITS: "Limits",
        "ARCHITECTURE.md": "Architecture",
        "docs/decisions/README.md": "Decisions",
        "CONTRIBUTING.md": "Contributing",
        "docs/releasing.md": "Releasing",
        "CHANGELOG.md": "Changelog",
    },
    "Python API": {f"api/{module}.md": module for module in MODULES},
}
"""By the caption of a part: its pages, by their names in the repository, with their titles."""


def home(text: str) -> str:
    """Returns the text of the home page with its pictures and the number of operators."""
    return text.format(operators=len(TABLE), **{each.name: html_of(each) for each in PICTURES})


def pages() -> list[str]:
    """Returns every page that the sidebar has of its own."""
    return [HOME, *(page for part in NAVIGATION.values() for page in part)]


def sidebar() -> str:
    """Returns what the home page says of the sidebar to Sphinx."""
    return "".join(
        f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n"
        + "".join(f"{title} <{page.removesuffix('.md')}>\n" for page, title in part.items())
        + "```\n"
        for caption, part in NAVIGATION.items()
    )
