"""What every HTML page of ours must keep, read from its source and seen in a browser."""

import io
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from matplotlib.image import imread

from tests.support.browser import Browser, Tab

WIDTHS = (1280, 400)
"""CSS pixels: a desktop's window and a phone."""

LEAST_TEXT, LEAST_CHART_TEXT = 11.0, 8.0  # CSS pixels

_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://|\burl\((?!#)|@import", re.IGNORECASE)
_FORBIDDEN = {"script", "link", "iframe", "object", "embed", "base", "form", "video", "audio"}
_VOID = {"meta", "br", "hr", "img", "input", "link", "base", "embed"}

# Measured in the page: what is closed in a <details> is opened first.
_MEASURE = """(() => {
  document.querySelectorAll("details").forEach(box => { box.open = true; });
  const box = element => {
    const r = element.getBoundingClientRect();
    return {left: r.left, top: r.top, right: r.right, bottom: r.bottom};
  };
  const texts = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode, parent = node.parentElement;
    if (!node.nodeValue.trim() || parent.closest("svg")) continue;
    texts.push([parseFloat(getComputedStyle(parent).fontSize), node.nodeValue.trim()]);
  }
  const drawings = [...document.querySelectorAll("svg")].map(svg => ({
    name: svg.getAttribute("aria-label") || "",
    box: box(svg),
    texts: [...svg.querySelectorAll("text")].map(text => {
      const m = text.getScreenCTM();
      const size = parseFloat(getComputedStyle(text).fontSize) * Math.hypot(m.a, m.b);
      return {size: size, text: text.textContent, box: box(text)};
    }),
  }));
  const pictures = [...document.querySelectorAll("img, svg image")].map(box);
  const broken = [...document.images].filter(i => !i.naturalWidth).map(i => i.src.slice(0, 60));
  const links = [...document.querySelectorAll("a")].map(a => a.getAttribute("href"));
  const root = document.documentElement;
  return {
    texts, drawings, pictures, broken, links,
    ids: [...document.querySelectorAll("[id]")].map(element => element.id),
    scroll: root.scrollWidth, client: root.clientWidth,
  };
})()"""


def check_page(browser: Browser, page: Path) -> None:
    """Assert all that is asked of a page, at every one of ``WIDTHS``."""
    faults = source_faults(page.read_bytes())
    for width in WIDTHS:
        faults += [f"{width} pixels: {fault}" for fault in seen_faults(browser, page, width)]
    assert not faults, "\n".join(faults)


def source_faults(data: bytes) -> list[str]:
    """What makes a page more than one file without scripts."""
    source = Source(data)
    found = [f"<{tag}>" for tag in source.tags if tag in _FORBIDDEN]
    for tag, name, value in source.attributes:
        if name.startswith("on"):
            found.append(f"<{tag} {name}>")
        elif name in ("href", "src", "xlink:href", "srcset", "data", "action"):
            if not value.startswith(("#", "data:image/png;base64,")):
                found.append(f"<{tag} {name}={value[:60]!r}>")
        elif name == "style" and _ADDRESS.search(value):
            found.append(f"<{tag} style={value[:60]!r}>")
    found += [f"style sheet with {m[0]!r}" for m in _ADDRESS.finditer(source.styles)]
    if not any("default-src 'none'" in value for _, _, value in source.attributes):
        found.append("no content security policy")
    return found


def seen_faults(browser: Browser, page: Path, width: int) -> list[str]:
    """What is wrong with a page in a window of ``width`` CSS pixels."""
    tab = browser.open(page, width=width)
    found = [f"asks for {url}" for url in tab.requests]
    found += _blank(tab)
    seen = tab.evaluate(_MEASURE)
    found += [f"refused: {text}" for text in tab.errors]
    if seen["scroll"] > seen["client"]:
        found.append(f"{seen['scroll']} pixels wide in a window of {seen['client']}")
    found += [f"text of {s:.1f} pixels: {t[:40]!r}" for s, t in seen["texts"] if s < LEAST_TEXT]
    found += [f"picture without size: {box}" for box in seen["pictures"] if not _has_size(box, 5)]
    found += [f"broken picture: {source}" for source in seen["broken"]]
    for drawing in seen["drawings"]:
        found += [f"{drawing['name']}: {fault}" for fault in _drawing_faults(drawing)]
    ids = Counter(seen["ids"])
    found += [f"{count} elements with id {name}" for name, count in ids.items() if count > 1]
    found += [f"link to nothing: {link}" for link in seen["links"] if link.lstrip("#") not in ids]
    tab.close()
    return found


class Source(HTMLParser):
    """Tags, attributes and words of a page.

    cells: text of each dt, dd, th and td in order.  styles: of all style elements.
    text: all words outside of style elements, single-spaced.
    """

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.cells: list[tuple[str, str]] = []
        self.styles = ""
        self._open: list[str] = []
        self._text: list[str] = []
        self.feed(data.decode())
        self.close()
        self.text = " ".join(" ".join(self._text).split())

    def facts(self) -> dict[str, str]:
        """Name and value of each tile."""
        values = [text for tag, text in self.cells if tag in ("dt", "dd")]
        return dict(zip(values[::2], values[1::2], strict=True))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in _VOID:
            self._open.append(tag)
        if tag in ("dt", "dd", "th", "td"):
            self.cells.append((tag, ""))

    def handle_endtag(self, tag: str) -> None:
        assert self._open[-1:] == [tag], f"</{tag}> closes {self._open[-1:]}"
        self._open.pop()

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] == "style":
            self.styles += data
            return
        self._text.append(data)
        if self._open and self._open[-1] in ("dt", "dd", "th", "td"):
            tag, text = self.cells[-1]
            self.cells[-1] = tag, text + data


def _drawing_faults(drawing: dict[str, Any]) -> list[str]:
    frame, texts = drawing["box"], drawing["texts"]
    if not _has_size(frame, 50):
        return ["has no size"]
    found = []
    for text in texts:
        if text["size"] < LEAST_CHART_TEXT:
            found.append(f"text of {text['size']:.1f} pixels: {text['text']!r}")
        if _area(_common(frame, text["box"])) < 0.97 * _area(text["box"]):
            found.append(f"cut off: {text['text']!r}")
    for number, text in enumerate(texts):
        for other in texts[:number]:
            smaller = min(_area(text["box"]), _area(other["box"]))
            if _area(_common(text["box"], other["box"])) > 0.2 * smaller:
                found.append(f"{text['text']!r} lies on {other['text']!r}")
    return found


def _blank(tab: Tab) -> list[str]:
    pixels = imread(io.BytesIO(tab.screenshot()), format="png")[..., :3]
    inked = float((pixels.min(axis=-1) < 0.6).mean())
    return [] if inked > 0.005 else [f"only {inked:.2%} of the page is dark"]


def _has_size(box: dict[str, float], least: float) -> bool:
    return min(box["right"] - box["left"], box["bottom"] - box["top"]) >= least


def _common(one: dict[str, float], other: dict[str, float]) -> dict[str, float]:
    return {
        "left": max(one["left"], other["left"]),
        "top": max(one["top"], other["top"]),
        "right": min(one["right"], other["right"]),
        "bottom": min(one["bottom"], other["bottom"]),
    }


def _area(box: dict[str, float]) -> float:
    return max(0.0, box["right"] - box["left"]) * max(0.0, box["bottom"] - box["top"])
