"""The example of the documentation: three processes, asyncio streams on loopback."""

import ast
import subprocess
import sys

from tests.support.source import ROOT

EXAMPLE = ROOT / "docs" / "examples" / "three_parties.py"


def test_three_processes_learn_the_total_and_one_after_the_other_says_so() -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLE)], capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
    total = 19.99 * 3 + 4.5 * 10 + 120 * 0.5 + 7.25
    lines = sorted(done.stdout.splitlines())
    assert [line[:14] for line in lines] == [f"party {p} of 3: " for p in range(3)]
    opened = {float(line[14:]) for line in lines}
    assert len(opened) == 1
    # Encoding is off by half a unit of 2^-16 for each number, the truncation by one.
    assert abs(opened.pop() - total) < 2**-16 * (19.99 + 4.5 + 120 + 13.5 + 2) / 2 + 1e-4


def test_the_parties_are_those_of_the_package() -> None:
    """The example has transport and wiring of its own, and no arithmetic on shares."""
    imported = {
        f"{node.module}.{alias.name}"
        for node in ast.walk(ast.parse(EXAMPLE.read_text()))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert {
        "mpc.party_run.PartyRun",
        "mpc.supply_seeds.SeedSupply",
        "mpc.shared_products.matrix_product",
        "mpc.programs.Opening",
    } <= imported
