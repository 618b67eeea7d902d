"""The packages as syntax trees, for the tests that read code instead of running it."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("mpc", "ldp", "secagg", "recsys")
OURS = (*PACKAGES, "tests", "benchmarks")


@dataclass(frozen=True)
class Import:
    """One imported module: ``from a.b import c`` may import a.b.c, which only a look tells."""

    module: str
    name: str | None
    line: int

    @property
    def top(self) -> str:
        return self.module.partition(".")[0]


@dataclass(frozen=True)
class Source:
    """A module of ours: its dotted name, whether it is a package's ``__init__``, its tree."""

    name: str
    is_package: bool
    tree: ast.Module

    @classmethod
    def parse(cls, name: str, text: str, *, is_package: bool = False) -> "Source":
        return cls(name, is_package, ast.parse(text))

    @property
    def package(self) -> str:
        """Top-level package."""
        return self.name.partition(".")[0]

    def imports(self) -> Iterator[Import]:
        """Every import in the file, those inside functions too; relative ones made absolute."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield Import(alias.name, None, node.lineno)
            elif isinstance(node, ast.ImportFrom):
                base = self._absolute(node)
                for alias in node.names:
                    yield Import(base, alias.name, node.lineno)

    def _absolute(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = self.name.split(".")
        up = node.level - 1 if self.is_package else node.level
        return ".".join([*parts[: len(parts) - up], *([node.module] if node.module else [])])

    def dotted(self) -> Iterator[tuple[str, int]]:
        """Every dotted name that is read, such as ``np.random.rand``, with its line."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Attribute | ast.Name) and (name := _dotted(node)):
                yield name, node.lineno

    def docstring(self) -> str | None:
        return ast.get_docstring(self.tree)

    def assertions(self) -> list[int]:
        """Lines of ``assert`` statements."""
        return [node.lineno for node in ast.walk(self.tree) if isinstance(node, ast.Assert)]

    @staticmethod
    def is_false(node: ast.expr) -> bool:
        """Whether an expression is the literal False."""
        return isinstance(node, ast.Constant) and node.value is False

    def calls(self) -> Iterator[tuple[str, ast.Call]]:
        """Every call of a dotted name."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call) and (name := _dotted(node.func)):
                yield name, node


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (base := _dotted(node.value)):
        return f"{base}.{node.attr}"
    return ""


def sources(packages: tuple[str, ...] = PACKAGES) -> list[Source]:
    """All modules of ``packages``, read from the working tree."""
    found = []
    for package in packages:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            is_package = parts[-1] == "__init__"
            name = ".".join(parts[:-1] if is_package else parts)
            found.append(Source.parse(name, path.read_text(), is_package=is_package))
    return found
