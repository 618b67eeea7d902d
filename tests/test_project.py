"""The project's own files agree with each other and speak of the project only."""

import ast
import importlib.metadata
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.support.source import OURS, PACKAGES, ROOT, sources

PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT: dict[str, Any] = PYPROJECT["project"]

# What tools leave behind; a checkout does not hold it.
LEFT_BEHIND = re.compile(r"^(__pycache__|build|dist|_build|demo-run|runs|.*\.egg-info)$")


def project_files() -> Iterator[Path]:
    """Every file of the project itself; of the hidden folders only ``.ci``."""
    folders = [ROOT]
    while folders:
        for path in sorted(folders.pop().iterdir()):
            if path.is_dir():
                hidden = path.name.startswith(".") and path.name != ".ci"
                generated = path == ROOT / "docs" / "api"
                if not hidden and not generated and not LEFT_BEHIND.match(path.name):
                    folders.append(path)
            else:
                yield path


def test_pyproject_names_every_package_and_no_other() -> None:
    found = {source.name for source in sources() if source.is_package}
    assert sorted(PYPROJECT["tool"]["setuptools"]["packages"]) == sorted(found)


def test_no_python_file_lies_outside_a_named_package() -> None:
    named = set(PYPROJECT["tool"]["setuptools"]["packages"])
    homeless = {
        source.name
        for source in sources()
        if not source.is_package and source.name.rpartition(".")[0] not in named
    }
    assert homeless == set()


def test_every_folder_of_tests_and_benchmarks_is_a_package() -> None:
    # Without an __init__.py, tests/mpc would be imported as mpc and hide the package.
    tops = (ROOT / "tests", ROOT / "benchmarks")
    folders = {path.parent for top in tops for path in top.rglob("*.py")}
    folders.discard(
        ROOT / "benchmarks" / "peers"
    )  # scripts, run where nothing of ours is installed
    assert [folder for folder in folders if not (folder / "__init__.py").is_file()] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_every_import_package_is_typed(package: str) -> None:
    assert (ROOT / package / "py.typed").is_file()
    assert PYPROJECT["tool"]["setuptools"]["package-data"]["*"] == ["py.typed"]


def test_what_a_package_holds_beside_modules_is_installed_with_it() -> None:
    data = PYPROJECT["tool"]["setuptools"]["package-data"]
    named = PYPROJECT["tool"]["setuptools"]["packages"]
    installed = {
        path
        for package in named
        for pattern in (*data["*"], *data.get(package, ()))
        for path in (ROOT / package.replace(".", "/")).glob(pattern)
    }
    missing = [
        path
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and path.suffix not in {".py", ".pyc"} and path not in installed
    ]
    assert missing == []


def test_mypy_is_strict_over_packages_tests_and_benchmarks() -> None:
    mypy = PYPROJECT["tool"]["mypy"]
    assert mypy["strict"] is True
    assert sorted(mypy["packages"]) == sorted(OURS)


def test_the_version_is_the_same_in_metadata_and_changelog() -> None:
    headings = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert headings[1] == PROJECT["version"] == importlib.metadata.version("privrec")


def constraints() -> dict[str, Version]:
    """Name and exact version of each line of constraints.txt."""
    pins: dict[str, Version] = {}
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            name, version = line.split("==")
            pins[canonicalize_name(name)] = Version(version)
    return pins


def declared() -> Iterator[Requirement]:
    """Every requirement of pyproject.toml on a distribution that is not this one."""
    groups = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    for text in (text for group in groups for text in group):
        requirement = Requirement(text)
        if requirement.name != PROJECT["name"]:
            yield requirement


def test_constraints_pin_every_requirement_within_its_range() -> None:
    pins = constraints()
    for requirement in declared():
        version = pins[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), requirement
    assert canonicalize_name(PROJECT["name"]) not in pins


def test_constraints_pin_all_that_the_extras_pull_in() -> None:
    pins = constraints()
    reached: set[str] = set()
    todo = [(r.name, frozenset(r.extras)) for r in declared()]
    while todo:
        name, extras = todo.pop()
        for text in importlib.metadata.requires(name) or []:
            requirement = Requirement(text)
            environments = [{"extra": extra} for extra in extras | {""}]
            if requirement.marker and not any(map(requirement.marker.evaluate, environments)):
                continue
            key = canonicalize_name(requirement.name)
            if key not in reached:
                todo.append((requirement.name, frozenset(requirement.extras)))
                reached.add(key)
        reached.add(canonicalize_name(name))
    assert reached - set(pins) == set()


def test_every_decision_has_the_same_form() -> None:
    for path in sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md")):
        text = path.read_text()
        number = path.name.partition("-")[0]
        assert re.match(rf"# {number}: \S", text), path.name
        assert re.findall(r"^## (.+)$", text, re.MULTILINE) == [
            "Context",
            "Decision",
            "Consequences",
        ], path.name


def test_every_page_that_is_named_exists() -> None:
    missing = set()
    for path in project_files():
        if path.suffix in {".py", ".md", ".toml"}:
            named = set(re.findall(r"(?<![\w/])docs/[\w/-]+\.md", path.read_text()))
            # The template's pages are named as they will lie after it is copied.
            homes = (ROOT, ROOT / "docs" / "template")
            missing |= {page for page in named if not any((h / page).is_file() for h in homes)}
    assert missing == set()


def claimed_tests() -> list[tuple[str, str]]:
    """(line, test) of each row of the table in tests/README.md."""
    rows = []
    for line in (ROOT / "tests" / "README.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        for test in re.findall(r"`(tests/[^`]+::[^`]+)`", cells[-1]):
            rows.append((cells[0], test))
    return rows


def defined_tests(path: Path) -> set[str]:
    """Names of the test functions of a file, those of classes as Class::test."""
    names = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.ClassDef):
            methods = [part.name for part in node.body if isinstance(part, ast.FunctionDef)]
            names |= {f"{node.name}::{method}" for method in methods}
    return names


def test_every_row_of_the_test_table_names_a_test_that_exists() -> None:
    rows = claimed_tests()
    assert rows
    missing = []
    for line, test in rows:
        file, _, name = test.partition("::")
        path = ROOT / file
        if not path.is_file() or name not in defined_tests(path):
            missing.append(f"{line}: {test}")
    assert missing == []


# Written in two halves, so that this file does not hold what it looks for.
FOREIGN = {
    "a machine path": r"(?<![\w.])/(wo" r"rk|fa" r"rm|ho" r"me|ro" r"ot)/",
    "a registry host": r"pyp" r"i\.org|pythonhos" r"ted|npm" r"js\.org|deb\.deb" r"ian",
    "a tool of the workplace": r"bash_jo" r"bs|\.libr" r"ary|before-s" r"top",
    "an unfinished mark": r"\b(TO" r"DO|FIX" r"ME|NotImplemen" r"tedError)\b",
    "a skipped or expected failure": r"mark\.(sk" r"ip|xf" r"ail)",
}


def foreign(text: str, kind: str) -> list[str]:
    return [match.group() for match in re.finditer(FOREIGN[kind], text)]


@pytest.mark.parametrize("kind", FOREIGN)
def test_no_file_holds(kind: str) -> None:
    found = []
    for path in project_files():
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue  # data, not prose
        found += [f"{path.relative_to(ROOT)}: {match}" for match in foreign(text, kind)]
    assert found == []


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("a machine path", "see /wo" + "rk/main/README"),
        ("a registry host", "pip install -i https://pyp" + "i.org/simple"),
        ("a tool of the workplace", "the .libr" + "ary folder"),
        ("an unfinished mark", "# TO" + "DO: later"),
        ("a skipped or expected failure", "@pytest.mark.sk" + "ip"),
    ],
)
def test_a_foreign_text_is_caught(kind: str, text: str) -> None:
    assert foreign(text, kind)
