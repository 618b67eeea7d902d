"""The pages of a run in a real browser, wide and narrow; and that the checks see what is wrong."""

import io
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
from matplotlib.image import imread

from recsys.cli.main import main
from recsys.report.html import Html, Page, figure, table
from tests.support.browser import Browser, BrowserError, Tab, browser, executable
from tests.support.cli import CITY
from tests.support.pages import WIDTHS, check_page, seen_faults

WORDS = "words " * 300
TEXT = '<text x="5" y="40" style="font-size: 12px">label</text>'


@pytest.mark.parametrize("part", ["public", "users"])
def test_a_page_of_a_run_stands_alone_and_fits(chromium: Browser, trained: Path, part: str) -> None:
    check_page(chromium, trained / part / "report.html")


def test_figures_stand_beside_each_other_where_there_is_room(
    chromium: Browser, trained: Path
) -> None:
    tops = (
        "[...document.querySelectorAll('.gallery svg')].slice(0, 2)"
        ".map(chart => chart.getBoundingClientRect().top)"
    )
    for width, beside in zip(WIDTHS, (True, False), strict=True):
        tab = chromium.open(trained / "public" / "report.html", width=width)
        first, second = tab.evaluate(tops)
        assert (first == second) is beside
        tab.close()


def edges(tab: Tab) -> list[bool]:
    """Whether the left and the right edge of the first table's box are in shadow."""
    left, right, y = tab.evaluate(
        "((box, table) => [box.left, box.right, table.bottom - 3])"
        "(...['.scroll', 'table'].map(x => document.querySelector(x).getBoundingClientRect()))"
    )
    pixels = imread(io.BytesIO(tab.screenshot()), format="png")
    return [bool(pixels[int(y), int(x), :3].max() < 0.97) for x in (left + 1, right - 2)]


def test_a_shadow_tells_where_a_table_goes_on(chromium: Browser, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_bytes(Page("t").section("s", table(["word"] * 9, [["word"] * 9])).render())
    tab = chromium.open(path, width=1280)
    assert edges(tab) == [False, False]
    tab.close()
    tab = chromium.open(path, width=400)
    assert edges(tab) == [False, True]
    tab.evaluate("void (document.querySelector('.scroll').scrollLeft = 100)")
    assert edges(tab) == [True, True]
    tab.evaluate("void (document.querySelector('.scroll').scrollLeft = 9999)")
    assert edges(tab) == [True, False]
    tab.close()


def drawing(inside: str) -> Html:
    return figure(f'<svg viewBox="0 0 403 270">{inside}</svg>', "c", "chart")


@pytest.mark.parametrize(
    ("block", "fault"),
    [
        pytest.param('<div style="width: 3000px">a</div>', "pixels wide", id="overflow"),
        pytest.param('<p style="font-size: 9px">small</p>', "text of 9.0", id="small text"),
        pytest.param('<p id="a">a</p><p id="a">b</p>', "2 elements with id a", id="equal ids"),
        pytest.param('<a href="#nowhere">a</a>', "link to nothing", id="dead link"),
        pytest.param('<img src="data:image/png;base64,AAAA">', "picture", id="broken picture"),
        pytest.param("<script>1</script>", "refused", id="script"),
        pytest.param('<img src="https://a.example/b.png">', "refused", id="outside picture"),
        pytest.param(drawing(TEXT + TEXT), "lies on", id="labels on each other"),
        pytest.param(drawing(TEXT.replace("12px", "6px")), "text of", id="small label"),
        pytest.param(drawing(TEXT.replace('x="5"', 'x="390"')), "cut off", id="label cut off"),
        pytest.param(
            drawing(TEXT).replace("<svg", '<svg hidden style="display: none"'),
            "has no size",
            id="hidden chart",
        ),
    ],
)
def test_a_page_that_is_wrong_is_caught(
    chromium: Browser, tmp_path: Path, block: str, fault: str
) -> None:
    path = tmp_path / "page.html"
    path.write_bytes(Page("t").section("s", WORDS, Html(block)).render())
    found = seen_faults(chromium, path, 400)
    assert any(fault in one for one in found), found


def test_a_page_with_nothing_wrong_passes(chromium: Browser, tmp_path: Path) -> None:
    """The innocent brother of the pages above."""
    path = tmp_path / "page.html"
    path.write_bytes(Page("t").section("s", WORDS, drawing(TEXT)).render())
    check_page(chromium, path)


def test_a_page_without_a_policy_that_asks_for_more_is_caught(
    chromium: Browser, tmp_path: Path
) -> None:
    path = tmp_path / "page.html"
    path.write_text(f'<p>{WORDS}</p><img src="beside.png">')
    assert f"asks for {(tmp_path / 'beside.png').as_uri()}" in seen_faults(chromium, path, 400)
    with pytest.raises(AssertionError, match="no content security policy"):
        check_page(chromium, path)


def test_an_empty_page_is_caught(chromium: Browser, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("<p></p>")
    assert any("of the page is dark" in one for one in seen_faults(chromium, path, 400))


# The browser itself


def test_a_browser_ends_with_its_block_and_leaves_nothing() -> None:
    with browser() as one:
        process, profile = one.process, one.profile
        assert one.command("Browser.getVersion", {})["product"]
        assert profile.is_dir()
        assert living(process.pid)
    assert process.poll() is not None
    assert not profile.exists()
    assert living(process.pid) == []


def living(session: int) -> list[str]:
    """Processes of a session that still run; what nobody has waited for yet does not."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it ended just now
            name, _, rest = path.read_text().rpartition(")")
            state, _, _, its_session = rest.split()[:4]
            if int(its_session) == session and state not in "ZX":
                found.append(name)
    return found


def test_a_browser_that_died_is_an_error_and_no_hang() -> None:
    with browser() as one:
        one.process.kill()
        with pytest.raises(BrowserError, match="the browser has ended"):
            one.command("Browser.getVersion", {})


def test_a_wrong_command_and_a_failing_script_are_errors(chromium: Browser, tmp_path: Path) -> None:
    with pytest.raises(BrowserError, match=r"No\.Such"):
        chromium.command("No.Such", {})
    path = tmp_path / "page.html"
    path.write_text("<p>a</p>")
    tab = chromium.open(path, width=400)
    assert tab.evaluate("innerWidth") == 400
    with pytest.raises(BrowserError, match="nothing"):
        tab.evaluate("nothing.here")
    with pytest.raises(BrowserError, match="ERR_FILE_NOT_FOUND"):
        chromium.open(tmp_path / "missing.html", width=400)


def test_a_test_without_a_browser_is_skipped_and_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(pytest.skip.Exception, match="Debian package chromium"):
        executable()


@pytest.mark.parametrize(
    "arguments",
    [
        ("compare", "--models", "fm,prirec,prirec-random", "--seeds", "2", "--trials", "2"),
        ("sweep", "neighbours", "--values", "0,1,3"),
        ("sweep", "epsilon", "--values", "0.5,1,4"),
        ("sweep", "iterations"),
        ("sweep", "size", "--values", "40,60,80", "--pois", "30"),
    ],
    ids=lambda arguments: "-".join(arguments[:2]),
)
def test_a_page_of_an_experiment_stands_alone_and_fits(
    chromium: Browser, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    out = tmp_path / "out"
    quick = ["--epochs", "2", "--workers", "1", "--quiet"]
    if "size" not in arguments:
        quick += CITY
    if "neighbours" not in arguments:
        quick += ["--neighbours", "3"]
    assert main([*arguments, *quick, "--out", str(out)]) == 0
    check_page(chromium, out / "public" / "report.html")
