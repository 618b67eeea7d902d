"""The blank protocol of docs/template works as handed out, laid over a copy of the project."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.source import OURS, ROOT, Source
from tests.test_layers import RULES, Rule

TEMPLATE = ROOT / "docs" / "template"

MEASURE = """
import json
from benchmarks.environments import Environments
from benchmarks.harness import measure
from benchmarks.rows.blank import ROWS
results = [measure(row, Environments(), rounds=1, least_seconds=0.0) for row in ROWS]
print(json.dumps({result.name: result.ok for result in results}))
"""


def template_files(ending: str) -> list[str]:
    return sorted(str(path.relative_to(TEMPLATE)) for path in TEMPLATE.rglob(f"*{ending}"))


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ``cp -R docs/template/. .`` makes of a checkout."""
    folder = tmp_path_factory.mktemp("checkout")
    shutil.copy(ROOT / "pyproject.toml", folder)
    ignored = shutil.ignore_patterns("__pycache__", "results")
    for package in OURS:
        shutil.copytree(ROOT / package, folder / package, ignore=ignored)
    shutil.copytree(TEMPLATE, folder, dirs_exist_ok=True)
    return folder


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A Python command in the copy: ``-m`` puts its folder before the installed packages."""
    # Not a worker of the run that this test itself belongs to.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_its_tests_and_benchmarks_pass(copy: Path) -> None:
    files = [name for name in template_files(".py") if "test_" in name or "bench_" in name]
    done = run(copy, "-m", "pytest", "-q", "--benchmark-disable", *files)
    assert done.returncode == 0, done.stdout
    assert len(files) == 3
    assert "skipped" not in done.stdout


def test_its_code_passes_mypy(copy: Path) -> None:
    # Files are named relative to the folder, so the project's own cache fits its copy too.
    cache = f"--cache-dir={ROOT / '.mypy_cache'}"
    done = run(copy, "-m", "mypy", cache, *template_files(".py"))
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_its_module_keeps_the_rules_of_the_packages(rule: Rule) -> None:
    text = (TEMPLATE / "mpc" / "blank.py").read_text()
    assert rule(Source.parse("mpc.blank", text)) == []


def test_its_ratio_row_is_measured_and_right(copy: Path) -> None:
    done = run(copy, "-c", MEASURE)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"mpc.blank_n3_1e5.of_keystream": True}


def test_every_file_marks_what_to_replace() -> None:
    files = template_files(".py") + template_files(".md")
    assert len(files) == 6
    for name in files:
        assert "Replace:" in (TEMPLATE / name).read_text(), name


def test_a_broken_template_is_caught(copy: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(copy, broken)
    kernel = broken / "mpc" / "blank.py"
    text = kernel.read_text()
    line = "RING.add(RING.add(RING.check(message), RING.check(drawn)), RING.check(handed))"
    assert line in text
    kernel.write_text(text.replace(line, "RING.add(RING.check(message), RING.check(drawn))"))
    done = run(broken, "-m", "pytest", "-q", "tests/mpc/test_blank_security.py")
    assert done.returncode == 1
