"""The page of a judgement in a browser: on a phone and a desk, in the light and in the dark, by mouse and by keys."""

from pathlib import Path

import pytest
from selenium.webdriver import ActionChains, Chrome, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

from aclgrad.judge.dumps.page import render
from aclgrad.judge.dumps.summary import Summary
from tests.judge.dumps.summaries import CASES, run_of
from tools.screens import SCREENS, Screen, keep

from .screens import check_sight

WAIT_S = 20
DESKTOP, PHONE = SCREENS[0], SCREENS[2]


def open_page(browser: Chrome, case: str, screen: Screen, folder: Path) -> Summary:
    summary = Summary.of(CASES[case]())
    file = folder / f"{case}.html"
    file.write_text(render(summary, run_of(summary)), "utf-8")
    screen.use(browser)
    browser.get(file.as_uri())
    return summary


def opened(browser: Chrome) -> str:
    """Returns the name of the call that is shown; in one step, because the element is replaced with the next call."""
    name: str = browser.execute_script("return document.querySelector('#call h3 .name').textContent")
    return name


def wait_for(browser: Chrome, name: str) -> None:
    WebDriverWait(browser, WAIT_S, poll_frequency=0.02).until(lambda browser: opened(browser) == name)


def find(browser: Chrome, selector: str) -> WebElement:
    return browser.find_element(By.CSS_SELECTOR, selector)


def click_cell(browser: Chrome, number: int, strip: int = 0) -> None:
    """Clicks on the cell of a call."""
    canvas = browser.find_elements(By.CSS_SELECTOR, ".strip canvas")[strip]
    width, height = browser.execute_script("return [strips[arguments[0]].width, strips[arguments[0]].height]", strip)
    columns = canvas.size["width"] // width
    x, y = (number % columns + 0.5) * width, (number // columns + 0.7) * height
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", canvas)
    middle = canvas.size["width"] / 2, canvas.size["height"] / 2
    ActionChains(browser, duration=0).move_to_element_with_offset(
        canvas, round(x - middle[0]), round(y - middle[1])
    ).click().perform()


def unfold(browser: Chrome, most: int) -> None:
    """Opens the lines of the first APIs, and waits for their calls."""
    lines = browser.find_elements(By.CSS_SELECTOR, ".apis summary")[:most]
    for each in lines:
        each.click()
    WebDriverWait(browser, WAIT_S, poll_frequency=0.02).until(
        lambda browser: len(browser.find_elements(By.CSS_SELECTOR, ".apis details[open] table")) == len(lines)
    )


@pytest.mark.parametrize("screen", SCREENS, ids=str)
@pytest.mark.parametrize("case", CASES)
def test_all_is_seen(browser: Chrome, case: str, screen: Screen, pictures: Path, tmp_path: Path) -> None:
    open_page(browser, case, screen, tmp_path)
    check_sight(browser, screen)
    keep(browser, pictures / f"judge-{case}-{screen}.png")
    unfold(browser, 2)
    check_sight(browser, screen)
    assert [each for each in browser.get_log("browser") if each["level"] == "SEVERE"] == []


@pytest.mark.parametrize("screen", [DESKTOP, PHONE], ids=str)
def test_a_click_on_a_cell_opens_its_call(browser: Chrome, screen: Screen, tmp_path: Path) -> None:
    """Each dump has a strip of its own."""
    summary = open_page(browser, "ranks", screen, tmp_path)
    for strip in range(3):
        for number in (0, 39, 271):
            click_cell(browser, number, strip)
            row = summary.rows[strip * 272 + number]
            wait_for(browser, row.name)
            assert f"call {number + 1} of 272, {row.place}" in find(browser, "#call").text
    browser.back()
    wait_for(browser, summary.rows[2 * 272 + 39].name)


def test_keys_move_through_the_calls(browser: Chrome, tmp_path: Path) -> None:
    summary = open_page(browser, "eighteen", DESKTOP, tmp_path)
    wrong = [at for at, row in enumerate(summary.rows) if row.verdict == "failed"]
    cells = find(browser, ".cells")

    def after(key: str) -> str:
        cells.send_keys(key)
        name = opened(browser)
        assert name in (cells.get_attribute("aria-valuetext") or "")
        return name

    assert cells.get_attribute("aria-valuenow") == str(wrong[0] + 1)
    assert after(Keys.ARROW_RIGHT) == summary.rows[wrong[0] + 1].name
    assert after(Keys.PAGE_DOWN) == summary.rows[wrong[1]].name
    assert after(Keys.PAGE_UP) == summary.rows[wrong[0]].name
    assert after(Keys.HOME) == summary.rows[0].name
    assert after(Keys.ARROW_LEFT) == summary.rows[0].name, "there is no call before the first"
    assert after(Keys.END) == summary.rows[-1].name


def test_an_api_unfolds_to_its_calls_which_lead_to_the_details(browser: Chrome, tmp_path: Path) -> None:
    open_page(browser, "eighteen", PHONE, tmp_path)
    unfold(browser, 1)
    rows = browser.find_elements(By.CSS_SELECTOR, ".apis details[open] tr")[1:]
    assert [row.text.split()[1] for row in rows] == ["failed"] * 18 + ["passed"] * 2
    find(browser, ".apis details[open] button").click()
    rows = browser.find_elements(By.CSS_SELECTOR, ".apis details[open] tr")[1:]
    assert len(rows) == 110
    rows[7].find_element(By.TAG_NAME, "a").click()
    wait_for(browser, "Functional.batch_norm.47.backward")
    assert (
        0 <= browser.execute_script("return document.getElementById('call').getBoundingClientRect().top") < PHONE.height
    )


def test_the_last_call_of_many_can_be_reached(browser: Chrome, tmp_path: Path) -> None:
    summary = open_page(browser, "many", PHONE, tmp_path)
    cells = find(browser, ".cells")
    cells.send_keys(Keys.END)
    wait_for(browser, summary.rows[-1].name)
    top, height, whole = browser.execute_script(
        "const box = arguments[0]; return [box.scrollTop, box.clientHeight, box.scrollHeight]", cells
    )
    assert top + height >= whole - 12
    drawn = "const canvas = arguments[0]; return canvas.width * canvas.height"
    assert browser.execute_script(drawn, find(browser, ".cells canvas")) < 10**6


def test_html_in_a_dump_does_not_run(browser: Chrome, tmp_path: Path) -> None:
    summary = open_page(browser, "hostile", DESKTOP, tmp_path)
    for number in (10, 11, 20):
        click_cell(browser, number)
        assert summary.rows[number].name.partition(".")[0][:20] in find(browser, "#call").text
    assert browser.find_elements(By.TAG_NAME, "img") == []
    assert browser.get_log("browser") == []
