"""Who may import what, and what the packages never contain.

Every rule is a function from a module's source to the sentences it breaks. Each is applied to all
modules, and to a broken twin that it must catch, beside an innocent text that it must let pass.
"""

import ast
import graphlib
import subprocess
import sys
from collections.abc import Callable, Iterable

import pytest

from tests.support.source import OURS, PACKAGES, Source, sources

Rule = Callable[[Source], list[str]]

# The longest prefix that fits a module decides what of ours it may import.
LAYERS = {
    "mpc.core": ("mpc.core",),
    "mpc": ("mpc",),
    "ldp": ("ldp", "mpc.core"),
    "secagg": ("secagg", "mpc.core", "mpc.additive", "mpc.fixed", "mpc.shamir"),
    "recsys": ("recsys", "secagg", "ldp", "mpc"),
}

# What knows Flower, which nothing else may need: who may import it beside itself.
APART = {"secagg.flower": ("recsys.flower",), "recsys.flower": ("recsys.cli",)}

# The one package whose ``__init__`` names what users import.
FACADES = ("secagg.flower",)

# Third-party libraries, and the only places that may import them.
LIBRARIES = {
    "numpy": PACKAGES,
    "cryptography": ("mpc.core.keystream", "mpc.core.keys", "secagg.full.identity"),
    "msgspec": ("mpc.core.wire",),
    "gmpy2": ("mpc.paillier",),
    "rbcl": ("mpc.oprf_group",),
    "phe": ("mpc.paillier.interop",),
    "scipy": ("recsys", "ldp.audit_statistics"),
    "dp_accounting": ("ldp.composition",),
    "sklearn": ("recsys",),
    "torch": ("recsys.models", "recsys.baselines", "recsys.fedgnn"),
    "h5py": ("recsys.data.matlab",),
    "surprise": ("recsys.baselines.svdpp",),
    "matplotlib": ("recsys.report",),
    "typer": ("recsys.cli",),
    "click": ("recsys.cli",),
    "flwr": ("secagg.flower", "recsys.flower"),
    "ray": ("recsys.engine_ray",),
}

# What Flower promises to keep. Its legacy API is known in one place.
FLOWER_API = ("flwr.app", "flwr.clientapp", "flwr.serverapp")
FLOWER_LEGACY = ("secagg.flower.legacy",)

BASE = ("mpc", "ldp", "secagg")
SPEAKING = ("recsys.cli", "recsys.report", "recsys.__main__")

# Into Flower's log: a client why it left a round, a server that one was aborted.
LOGGING = ("secagg.flower.mod", "secagg.flower.outcome", "recsys.flower.log")
PICKLERS = {"pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}

# A party opens no socket, starts no thread and reads no clock: one code serves every transport.
# Locks are fine: they keep two callers from using one pad or one budget twice.
OUTSIDE_WORLD = {
    "asyncio",
    "datetime",
    "http",
    "multiprocessing",
    "sched",
    "select",
    "selectors",
    "signal",
    "socket",
    "socketserver",
    "ssl",
    "subprocess",
    "time",
    "urllib",
}

THREADS = {"threading.Thread", "threading.Timer"}

# A transport: it waits for answers, to a deadline.
CLOCKS = ("secagg.flower.exchange",)

# Where the operating system's generator is read: to key ours, and to name temporary files.
SYSTEM_RANDOMNESS = ("mpc.core.rng", "mpc.core.durable")

HEAVY = (
    *("scipy", "sklearn", "matplotlib", "typer", "torch", "dp_accounting", "recsys"),
    *("flwr", "ray"),
)


def within(module: str, places: Iterable[str]) -> bool:
    return any(module == place or module.startswith(f"{place}.") for place in places)


def layers(source: Source) -> list[str]:
    prefix = max((p for p in LAYERS if within(source.name, (p,))), key=len)
    allowed = LAYERS[prefix]
    broken = []
    for found in source.imports():
        if found.top not in OURS:
            continue
        # ``from mpc import additive`` names the module only in its last part.
        full = f"{found.module}.{found.name}" if found.name else found.module
        if not within(found.module, allowed) and not within(full, allowed):
            broken.append(f"{source.name}:{found.line} imports {full}, of {allowed} at most")
        for apart, users in APART.items():
            if within(full, (apart,)) and not within(source.name, (apart, *users)):
                broken.append(f"{source.name}:{found.line} imports {full}, which stands apart")
    return broken


def libraries(source: Source) -> list[str]:
    broken = []
    for found in source.imports():
        if found.top in OURS or found.top in sys.stdlib_module_names:
            continue
        if not within(source.name, LIBRARIES.get(found.top, ())):
            broken.append(f"{source.name}:{found.line} imports {found.top}")
    return broken


def flower_api(source: Source) -> list[str]:
    if within(source.name, FLOWER_LEGACY):
        return []
    return [
        f"{source.name}:{found.line} imports {found.module}"
        for found in source.imports()
        if found.top == "flwr" and not within(found.module, FLOWER_API)
    ]


def dynamic_imports(source: Source) -> list[str]:
    names = {"__import__", "import_module", "importlib.import_module"}
    return [f"{source.name}:{c.lineno} calls {n}" for n, c in source.calls() if n in names]


def empty_package_file(source: Source) -> list[str]:
    if not source.is_package:
        return []
    body = source.tree.body
    if source.name in FACADES:
        body = [node for node in body if not _names_only(node)]
    if len(body) == 1 and source.docstring():
        return []
    return [f"{source.name}/__init__.py holds more than a docstring"]


def _names_only(node: ast.AST) -> bool:
    """Whether a statement does nothing but import by name, or list names in ``__all__``."""
    if isinstance(node, ast.ImportFrom):
        return True
    targets = node.targets if isinstance(node, ast.Assign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)] == ["__all__"]


def randomness(source: Source) -> list[str]:
    if source.package not in BASE:
        return []
    broken = []
    for found in source.imports():
        full = f"{found.module}.{found.name}"
        if found.top == "random" or within(full, ("numpy.random",)):
            broken.append(f"{source.name}:{found.line} imports {full}")
    for name, line in source.dotted():
        if within(name, ("np.random", "numpy.random", "random")):
            broken.append(f"{source.name}:{line} uses {name}")
    return broken


def operating_system_randomness(source: Source) -> list[str]:
    if within(source.name, SYSTEM_RANDOMNESS):
        return []
    return [
        f"{source.name}:{found.line} imports {found.module}"
        for found in source.imports()
        if found.top == "secrets" or (found.module == "os" and found.name == "urandom")
    ] + [
        f"{source.name}:{line} uses {name}"
        for name, line in source.dotted()
        if name == "os.urandom"
    ]


def environment_variables(source: Source) -> list[str]:
    if source.package not in BASE:
        return []
    names = {"os.environ", "os.getenv", "os.putenv"}
    return [f"{source.name}:{line} uses {name}" for name, line in source.dotted() if name in names]


def sans_io(source: Source) -> list[str]:
    if source.package not in BASE:
        return []
    return [
        f"{source.name}:{found.line} imports {found.module}"
        for found in source.imports()
        if (
            found.top in OUTSIDE_WORLD and not (found.top == "time" and within(source.name, CLOCKS))
        )
        or f"{found.module}.{found.name}" in THREADS
    ] + [f"{source.name}:{line} uses {name}" for name, line in source.dotted() if name in THREADS]


def assertions(source: Source) -> list[str]:
    return [f"{source.name}:{line} asserts" for line in source.assertions()]


def silence(source: Source) -> list[str]:
    if within(source.name, SPEAKING):
        return []
    broken = [
        f"{source.name}:{found.line} imports {found.module}"
        for found in source.imports()
        if found.top in {"logging", "warnings"}
        and not (found.top == "logging" and within(source.name, LOGGING))
    ]
    names = {"print", "sys.stdout", "sys.stderr"}
    return broken + [
        f"{source.name}:{line} uses {name}" for name, line in source.dotted() if name in names
    ]


def no_pickle(source: Source) -> list[str]:
    broken = [
        f"{source.name}:{found.line} imports {found.module}"
        for found in source.imports()
        if found.top in PICKLERS
    ]
    for name, call in source.calls():
        for keyword in call.keywords:
            if keyword.arg == "allow_pickle" and not Source.is_false(keyword.value):
                broken.append(f"{source.name}:{call.lineno} calls {name} with allow_pickle")
    return broken


RULES: list[Rule] = [
    layers,
    libraries,
    flower_api,
    dynamic_imports,
    empty_package_file,
    randomness,
    operating_system_randomness,
    environment_variables,
    sans_io,
    assertions,
    silence,
    no_pickle,
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_module_keeps_the_rule(rule: Rule) -> None:
    broken = [sentence for source in sources() for sentence in rule(source)]
    assert broken == []


BROKEN: list[tuple[Rule, str, str]] = [
    (layers, "mpc.core.ring", "from mpc.additive import share"),
    (layers, "mpc.core.ring", "from .. import additive"),
    (layers, "mpc.additive", "import ldp.memo"),
    (layers, "mpc.additive", "from tests.support.enumerate import law"),
    (layers, "ldp.memo", "from mpc import additive"),
    (layers, "ldp.memo", "from secagg.masks import expand"),
    (layers, "secagg.client", "from ldp.laplace import perturb"),
    (layers, "secagg.client", "def f():\n    from mpc.secure_sum import mix"),
    (layers, "secagg.client", "import recsys.prirec"),
    (layers, "recsys.prirec", "from benchmarks.harness import Row"),
    (layers, "secagg.full.client", "def f():\n    from secagg.flower.mod import SecAggMod"),
    (layers, "recsys.prirec", "from secagg import flower"),
    (layers, "recsys.training", "import recsys.flower.apps"),
    (libraries, "mpc.additive", "from cryptography.hazmat.primitives import hashes"),
    (libraries, "secagg.messages", "import msgspec"),
    (libraries, "ldp.mean", "from scipy.stats import norm"),
    (libraries, "ldp.accounting", "import dp_accounting"),
    (libraries, "ldp.composition", "from scipy.stats import norm"),
    (libraries, "recsys.report.ledger", "def f():\n    from dp_accounting.pld import pld_pmf"),
    (libraries, "recsys.prirec", "import typer"),
    (libraries, "recsys.prirec", "import matplotlib.pyplot as plt"),
    (libraries, "recsys.prirec", "import pandas"),
    (libraries, "recsys.engine", "import ray"),
    (libraries, "recsys.prirec_chunks", "def f():\n    from ray import remote"),
    (libraries, "secagg.client", "def f():\n    from flwr.app import Message"),
    (libraries, "recsys.flower.apps", "import ray"),
    (libraries, "secagg.flower.grid", "import ray"),
    (flower_api, "secagg.flower.grid", "from flwr.server import LegacyContext"),
    (flower_api, "secagg.flower.mod", "from flwr.supercore import log"),
    (flower_api, "recsys.flower.apps", "import flwr"),
    (dynamic_imports, "ldp.mean", "import importlib\nimportlib.import_module('recsys')"),
    (dynamic_imports, "ldp.mean", "__import__('recsys')"),
    (empty_package_file, "ldp", "'''Doc.'''\nfrom ldp.mean import mean"),
    (empty_package_file, "ldp", "'''Doc.'''\n__all__ = []"),
    (empty_package_file, "ldp", ""),
    (empty_package_file, "secagg.flower", "from secagg.flower.mod import SecAggMod"),
    (empty_package_file, "secagg.flower", "'''Doc.'''\nlimit = 3"),
    (randomness, "mpc.additive", "import random"),
    (randomness, "mpc.additive", "from random import getrandbits"),
    (randomness, "ldp.mean", "import numpy as np\nx = np.random.default_rng(0)"),
    (randomness, "ldp.mean", "from numpy import random"),
    (randomness, "secagg.masks", "from numpy.random import default_rng"),
    (operating_system_randomness, "secagg.masks", "import os\nseed = os.urandom(32)"),
    (operating_system_randomness, "secagg.masks", "from os import urandom"),
    (operating_system_randomness, "recsys.prirec", "import secrets"),
    (environment_variables, "mpc.core.rng", "import os\nseed = os.environ['SEED']"),
    (environment_variables, "mpc.core.rng", "import os\nseed = os.getenv('SEED')"),
    (sans_io, "secagg.client", "import socket"),
    (sans_io, "secagg.client", "from time import sleep"),
    (sans_io, "mpc.core.prg", "import threading\nthreading.Thread(target=f).start()"),
    (sans_io, "mpc.core.prg", "from threading import Timer"),
    (sans_io, "secagg.flower.exchange", "import socket"),
    (sans_io, "secagg.flower.grid", "import time"),
    (assertions, "recsys.prirec", "def f(x):\n    assert x > 0"),
    (silence, "recsys.prirec", "print('epoch')"),
    (silence, "ldp.mean", "import logging"),
    (silence, "secagg.client", "import sys\nsys.stderr.write('dropped')"),
    (silence, "secagg.flower.grid", "import logging"),
    (silence, "secagg.flower.mod", "print('refused')"),
    (no_pickle, "recsys.checkpoint", "import pickle"),
    (no_pickle, "recsys.checkpoint", "import joblib"),
    (no_pickle, "recsys.checkpoint", "import numpy as np\nnp.load(p, allow_pickle=True)"),
    (no_pickle, "recsys.checkpoint", "import numpy as np\nnp.load(p, allow_pickle=flag)"),
]


@pytest.mark.parametrize(("rule", "module", "text"), BROKEN)
def test_a_broken_twin_is_caught(rule: Rule, module: str, text: str) -> None:
    assert rule(Source.parse(module, text, is_package=rule is empty_package_file))


INNOCENT: list[tuple[Rule, str, str]] = [
    (layers, "mpc.secure_sum", "from mpc import additive\nfrom mpc.core.ring import Ring"),
    (layers, "mpc.core.prg", "from .keystream import Keystream"),
    (layers, "secagg.masks", "from mpc.core.prg import Prg\nfrom mpc.fixed import FixedPoint"),
    (layers, "recsys.prirec", "import ldp.mean\nimport secagg.client\nimport mpc.secure_sum"),
    (libraries, "mpc.core.keys", "from cryptography.exceptions import InvalidTag"),
    (libraries, "recsys.network", "from scipy.spatial import cKDTree\nimport json"),
    (libraries, "ldp.composition", "def f():\n    from dp_accounting.pld import pld_pmf"),
    (libraries, "ldp.audit_statistics", "def f():\n    from scipy.special import betaincinv"),
    (layers, "recsys.flower.apps", "from secagg.flower import SecAggMod"),
    (libraries, "recsys.cli.train", "import typer"),
    (libraries, "recsys.engine_ray", "def f():\n    import ray"),
    (libraries, "secagg.flower.mod", "from flwr.app import Message"),
    (flower_api, "secagg.flower.mod", "from flwr.clientapp.typing import ClientAppCallable"),
    (flower_api, "secagg.flower.legacy", "from flwr.server import LegacyContext"),
    (dynamic_imports, "recsys.report.html", "from importlib import resources"),
    (empty_package_file, "ldp", "'''Local differential privacy.'''"),
    (
        empty_package_file,
        "secagg.flower",
        "'''Doc.'''\nfrom secagg.flower.mod import SecAggMod\n__all__ = ['SecAggMod']",
    ),
    (randomness, "recsys.data.city", "import numpy as np\nx = np.random.default_rng(0)"),
    (randomness, "mpc.additive", "masks = ring.random((3, 2), rng)"),
    (operating_system_randomness, "mpc.core.rng", "import os\nkey = os.urandom(32)"),
    (environment_variables, "recsys.data.registry", "import os\npath = os.environ['PRIVREC_DATA']"),
    (sans_io, "mpc.core.rng", "import threading\nlock = threading.Lock()"),
    (sans_io, "recsys.training", "import time"),
    (sans_io, "secagg.flower.exchange", "import time"),
    (assertions, "recsys.prirec", "def f(x):\n    '''We assert nothing.'''"),
    (silence, "recsys.cli.train", "print('done')"),
    (silence, "secagg.flower.outcome", "import logging"),
    (no_pickle, "recsys.checkpoint", "import numpy as np\nnp.load(p, allow_pickle=False)"),
]


@pytest.mark.parametrize(("rule", "module", "text"), INNOCENT)
def test_an_innocent_text_passes(rule: Rule, module: str, text: str) -> None:
    assert rule(Source.parse(module, text, is_package=rule is empty_package_file)) == []


def test_each_rule_has_a_broken_and_an_innocent_twin() -> None:
    assert {rule for rule, _, _ in BROKEN} == set(RULES)
    assert {rule for rule, _, _ in INNOCENT} == set(RULES)


def import_order(modules: list[Source]) -> list[str]:
    """An order in which every module comes after what it imports; CycleError if there is none."""
    names = {module.name for module in modules}
    graph: dict[str, set[str]] = {}
    for module in modules:
        needs = set()
        for found in module.imports():
            full = f"{found.module}.{found.name}"
            needs.add(full if full in names else found.module)
        graph[module.name] = (needs & names) - {module.name}
    return list(graphlib.TopologicalSorter(graph).static_order())


def test_modules_import_each_other_without_circles() -> None:
    assert len(import_order(sources())) == len(sources())


def test_a_circle_is_caught() -> None:
    texts = {"mpc.a": "from mpc import b", "mpc.b": "def f():\n    from mpc.a import g"}
    with pytest.raises(graphlib.CycleError):
        import_order([Source.parse(name, text) for name, text in texts.items()])


def loaded(statements: str) -> set[str]:
    """What of HEAVY a fresh interpreter has loaded after ``statements``."""
    code = f"{statements}\nimport sys\nprint(*(name for name in {HEAVY!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("package", BASE)
def test_the_base_layer_loads_nothing_heavy(package: str) -> None:
    modules = [source.name for source in sources((package,)) if not within(source.name, APART)]
    assert loaded("\n".join(f"import {module}" for module in modules)) == set()


def test_a_heavy_import_is_caught() -> None:
    assert loaded("import scipy") == {"scipy"}
    assert loaded("import dp_accounting") >= {"dp_accounting", "scipy"}
    assert loaded("from flwr.app import Message") >= {"flwr"}
