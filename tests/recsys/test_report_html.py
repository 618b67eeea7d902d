"""Pages are one file without scripts, and text on them is never markup."""

import re

import pytest

from mpc.core.errors import ParameterError
from recsys.report import html
from recsys.report.html import (
    Html,
    Page,
    bullets,
    callout,
    details,
    facts,
    figure,
    gallery,
    paragraph,
    table,
    verbatim,
)
from tests.support.pages import Source, source_faults

HOSTILE = "<script>alert('x')</script> & \"<img src=x onerror=y>\""
SVG = '<svg viewBox="0 0 1 1"></svg>'


def everything(text: str) -> bytes:
    """A page with ``text`` wherever a text can be put."""
    return (
        Page(text, text)
        .section(text, text, paragraph(text), callout(text), bullets([text]), verbatim(text))
        .section(text, table((text, text), [(text, text)], right=(1,)), facts([(text, text)]))
        .section("figures", gallery(figure(SVG, text, text), text), details(text, text))
        .render()
    )


def test_text_shows_as_text_wherever_it_is_put() -> None:
    source = Source(everything(HOSTILE))
    assert source_faults(everything(HOSTILE)) == []
    assert source.tags.count("script") == source.tags.count("img") == 0
    plain = Source(everything("plain"))
    assert source.tags == plain.tags
    assert source.text.count("alert('x')") == plain.text.count("plain") > 20


def test_a_builder_that_forgets_to_escape_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html, "escape", lambda text: text)
    assert "<script>" in source_faults(everything("<script>alert('x')</script>"))


def test_only_markup_of_the_builder_counts_as_markup() -> None:
    joined = f"{paragraph('one')}{paragraph('two')}"
    assert not isinstance(joined, Html)
    text = Page("t").section("s", joined).render().decode()
    assert "&lt;p&gt;one&lt;/p&gt;" in text


def test_a_page_forbids_scripts_and_every_request() -> None:
    (policy,) = (
        value
        for _, name, value in Source(Page("t").render()).attributes
        if name == "content" and "default-src" in value
    )
    assert policy == "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


@pytest.mark.parametrize(
    ("markup", "fault"),
    [
        pytest.param("<script>1</script>", "<script>", id="script"),
        pytest.param("<p onclick='x()'>a</p>", "<p onclick>", id="handler"),
        pytest.param("<img src='//a.example/b.png'>", "<img src=", id="picture"),
        pytest.param("<a href='http://a.example'>b</a>", "<a href=", id="link"),
        pytest.param("<link href='a.css'>", "<link>", id="style sheet"),
        pytest.param("<p style='background: url(a.png)'>b</p>", "<p style=", id="background"),
        pytest.param("<style>@import 'a.css'</style>", "style sheet", id="import"),
    ],
)
def test_a_page_that_depends_on_anything_else_is_caught(markup: str, fault: str) -> None:
    found = source_faults(Page("t").section("s", Html(markup)).render())
    assert any(one.startswith(fault) for one in found), found


def test_a_page_names_its_language_and_fits_a_narrow_screen() -> None:
    attributes = Source(Page("t").render()).attributes
    assert ("html", "lang", "en") in attributes
    assert ("meta", "content", "width=device-width, initial-scale=1") in attributes


def test_a_page_without_a_policy_is_caught() -> None:
    assert source_faults(b"<p>a</p>") == ["no content security policy"]


def test_every_section_has_its_own_id_and_a_link_to_it() -> None:
    page = Page("t").section("Same & same").section("Same, same").section("\u00e9\u00e8")
    source = Source(page.render())
    links = [value for tag, name, value in source.attributes if (tag, name) == ("a", "href")]
    ids = [value for tag, name, value in source.attributes if (tag, name) == ("section", "id")]
    assert links == [f"#{name}" for name in ids]
    assert len(set(ids)) == 3


def test_equal_sections_give_equal_bytes() -> None:
    assert everything("a") == everything("a")


def test_cells_keep_their_order_and_the_first_is_the_rows_heading() -> None:
    source = Source(Page("t").section("s", table(("a", "b"), [("c", "d"), ("e", "f")])).render())
    expected = [("th", "a"), ("th", "b"), ("th", "c"), ("td", "d"), ("th", "e"), ("td", "f")]
    assert source.cells == expected


def test_a_row_of_another_length_is_refused() -> None:
    with pytest.raises(ParameterError, match="a row of 1 cells below a header of 2"):
        table(("a", "b"), [("c",)])


def test_a_figure_is_an_inline_drawing_with_words_for_who_cannot_see_it() -> None:
    assert 'role="img" aria-label="a &quot;b&quot;"' in figure(SVG, "c", 'a "b"')
    with pytest.raises(ParameterError, match="an inline SVG starts with <svg"):
        figure("<?xml?>" + SVG, "c", "a")


def test_colours_of_text_have_enough_contrast() -> None:
    styles = Source(Page("t").render()).styles
    colours = dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", styles))
    for text in ("ink", "soft", "link"):
        for background in ("#ffffff", colours["tint"]):
            assert _contrast(colours[text], background) >= 4.5, text  # WCAG 2.2, 1.4.3


def _contrast(one: str, other: str) -> float:
    """WCAG 2.2, definitions of contrast ratio and relative luminance."""

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)
