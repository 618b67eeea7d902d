"""Options, marks and hypothesis profiles of the whole test suite.

--deep      runs the tests marked ``deep`` too; without it they are deselected, not skipped
--no-skips  turns every skip into a failure, except for tests marked ``gpu`` or ``peers``

The hypothesis profile is the environment variable HYPOTHESIS_PROFILE (dev, ci or deep) where it is
set; else deep with --deep, ci where the variable CI is set, and dev at a desk.
"""

import gc
import os
from collections.abc import Generator

import pytest
from hypothesis import settings

MAY_SKIP = ("gpu", "peers")

# No profile has a deadline: a test may count bytes, rounds and operations, never seconds.
settings.register_profile("dev", max_examples=50, deadline=None)
# The same examples on every run, so that a red run is red again on the next machine.
settings.register_profile(
    "ci", max_examples=100, deadline=None, derandomize=True, database=None, print_blob=True
)
settings.register_profile("deep", max_examples=1000, deadline=None, print_blob=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("privrec")
    group.addoption("--deep", action="store_true", help="run the tests marked deep too")
    group.addoption("--no-skips", action="store_true", help="a skip without need is a failure")


def pytest_configure(config: pytest.Config) -> None:
    fallback = "deep" if config.getoption("deep") else "ci" if os.environ.get("CI") else "dev"
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or fallback)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # Stable: all others stay in order.
    items.sort(key=lambda item: item.get_closest_marker("first") is None)
    if config.getoption("deep"):
        return
    deep = [item for item in items if item.get_closest_marker("deep")]
    if deep:
        config.hook.pytest_deselected(items=deep)
        items[:] = [item for item in items if not item.get_closest_marker("deep")]


def pytest_collection_finish() -> None:
    # Thousands of tests are millions of objects, which no later collection needs to walk again.
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and not any(item.get_closest_marker(mark) for mark in MAY_SKIP):
        _refuse_skip(item.config, report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    if report.skipped:  # a whole module skipped itself, whatever marks its tests have
        _refuse_skip(collector.config, report)
    return report


def _refuse_skip(config: pytest.Config, report: pytest.TestReport | pytest.CollectReport) -> None:
    if config.getoption("no_skips"):
        report.outcome = "failed"
        report.longrepr = f"skipped, which --no-skips refuses: {report.longreprtext}"
