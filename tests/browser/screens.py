"""What a person sees of a page on one screen: text, contrast, and whether it fits."""

from dataclasses import dataclass
from typing import Any

from selenium.webdriver import Chrome

from tools.screens import Screen

MIN_CONTRAST = 4.5
MIN_SIZE = 12
_PIECES = """
const background = (element) => {
  for (; element; element = element.parentElement) {
    const color = getComputedStyle(element).backgroundColor;
    if (!/, 0\\)$/.test(color)) return color;
  }
  return "rgb(255, 255, 255)";
};
const pieces = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const node = walker.currentNode, element = node.parentElement;
  if (!node.data.trim() || !element.checkVisibility() || ["SCRIPT", "STYLE"].includes(element.tagName)) continue;
  const range = document.createRange();
  range.selectNodeContents(node);
  const {left, right} = range.getBoundingClientRect(), style = getComputedStyle(element);
  pieces.push({text: node.data.trim(), left, right, ink: style.color, paper: background(element),
               size: parseFloat(style.fontSize)});
}
return pieces;
"""


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of visible text."""

    text: str
    left: float
    right: float
    size: float
    contrast: float


def pieces(browser: Chrome) -> list[Piece]:
    found: list[dict[str, Any]] = browser.execute_script(_PIECES)
    return [
        Piece(each["text"], each["left"], each["right"], each["size"], contrast(each["ink"], each["paper"]))
        for each in found
    ]


def contrast(ink: str, paper: str) -> float:
    """Returns the contrast ratio of WCAG 2 for two colours of CSS; readable text has 4.5 at least."""
    dark, light = sorted((_luminance(ink), _luminance(paper)))
    return (light + 0.05) / (dark + 0.05)


def _luminance(color: str) -> float:
    parts = [float(part) / 255 for part in color[color.index("(") + 1 : -1].split(",")[:3]]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def fits(browser: Chrome, screen: Screen) -> bool:
    """Whether nothing has to be scrolled sideways."""
    width: int = browser.execute_script("return document.documentElement.scrollWidth")
    return width <= screen.width


def check_sight(browser: Chrome, screen: Screen) -> None:
    """Checks that all text is on the screen and can be read."""
    assert fits(browser, screen)
    for each in pieces(browser):
        assert 0 <= each.left <= each.right <= screen.width, each
        assert each.contrast >= MIN_CONTRAST, each
        assert each.size >= MIN_SIZE, each
