"""Where the settings of a training come from, and how mistakes in them are named."""

import contextlib
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from mpc.core.errors import ParameterError
from recsys.cli.settings import Settings, build
from recsys.config import TrainConfig
from recsys.data.prepare import PrepareConfig
from recsys.report import toml
from recsys.tasks import NAMES
from tests.support.cli import CITY, QUICK, Run


def settings_of(folder: str) -> dict[str, Any]:
    return tomllib.loads(Path(folder, "public", "config.toml").read_text())


def test_options_win_over_environment_over_file_over_defaults(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("some.toml").write_text("epochs = 1\nfactors = 2\nregions = 3\nmax-positives = 6\n")
    monkeypatch.setenv("PRIVREC_EPOCHS", "2")
    monkeypatch.setenv("PRIVREC_FACTORS", "3")
    monkeypatch.setenv("PRIVREC_RELAY", "yes")
    monkeypatch.setenv("PRIVREC_LEARNING_RATE", "0.125")
    options = [*CITY, "--neighbours", "3", "--epochs", "3", "--config", "some.toml", "--out", "a"]
    assert run("train", "prirec", *options).code == 0
    found = settings_of("a")
    assert found["epochs"] == 3
    assert found["factors"] == 3
    assert found["regions"] == 3
    assert found["max_positives"] == 6
    assert found["relay"] is True
    assert found["learning_rate"] == 0.125
    assert found["patience"] == TrainConfig().patience
    assert json.loads(Path("a/public/metrics.json").read_text())["rows"][0]["epochs"] == 3


def test_an_option_can_switch_off_what_the_environment_switched_on(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRIVREC_RELAY", "1")
    assert run("train", "prirec", *QUICK, "--no-relay", "--out", "a").code == 0
    assert settings_of("a")["relay"] is False


def test_sums_with_macs_are_an_option_and_take_no_relay(run: Run) -> None:
    options = [*QUICK, "--security", "malicious"]
    assert run("train", "prirec", *options, "--out", "a").code == 0
    assert settings_of("a")["security"] == "malicious"
    assert "malicious, with a trusted dealer" in Path("a/public/ledger.json").read_text()
    refused = run("train", "prirec", *options, "--relay", "--out", "b")
    assert refused.code == 2
    assert "relay must be left out with security 'malicious'" in refused.err


def test_model_data_and_file_can_come_from_the_environment(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("some.toml").write_text("epochs = 1\n")
    monkeypatch.setenv("PRIVREC_CONFIG", "some.toml")
    monkeypatch.setenv("PRIVREC_MODEL", "fm")
    monkeypatch.setenv("PRIVREC_DATASET", CITY[1])
    monkeypatch.setenv("PRIVREC_OUT", "b")
    assert run("train").code == 0
    assert settings_of("b")["model"] == "fm"
    assert settings_of("b")["data"] == CITY[1]
    assert settings_of("b")["epochs"] == 1


def test_the_saved_settings_repeat_the_run(run: Run) -> None:
    assert run("train", "prirec", *QUICK, "--seed", "9", "--out", "a").code == 0
    again = run("train", "--config", "a/public/config.toml", "--out", "b", "--json")
    row = json.loads(Path("a/public/metrics.json").read_text())["rows"][0]
    assert again.row["model_digest"] == row["model_digest"]


def test_every_setting_survives_the_way_through_the_file() -> None:
    config = TrainConfig(
        model="prirec-",
        features="static",
        learning_rate=1e-7,
        seed=2**64 - 1,
        relay=True,
        prepare=PrepareConfig(bounds=(1.0, 2.0, 3.5, -4.0), max_positives=3, negatives="local"),
    )
    settings = Settings('a "strange" näme\\', config)
    assert build(tomllib.loads(toml.dump(settings.flat()))) == settings
    assert len(NAMES) == len(set(NAMES))
    with pytest.raises(ParameterError, match="data must be a name or a path, got 3"):
        build({"data": 3})


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("epoch = 3", "unknown setting 'epoch' (in some.toml)"),
        ('epochs = "3"', "epochs must be an integer of at least 1, got '3' (in some.toml)"),
        ("epochs = 0", "epochs must be an integer of at least 1, got 0 (in some.toml)"),
        ("epsilon = nan", "epsilon must be finite and at least 2^-60, got nan (in some.toml)"),
        ("max_positives = 0", "max_positives must"),
        ("bounds = [1, 2]", "bounds are (south, west, north, east), got 2 numbers (in some.toml)"),
        ("epochs 3", "some.toml: not TOML"),
        ("[train]\nepochs = 3", "unknown setting 'train' (in some.toml)"),
    ],
)
def test_a_mistake_in_the_file_is_named_with_the_file(run: Run, text: str, sentence: str) -> None:
    Path("some.toml").write_text(text)
    result = run("train", "fm", *CITY, "--config", "some.toml")
    assert result.code == 2
    assert sentence in result.err
    assert not Path("runs").exists()


@pytest.mark.parametrize("name", NAMES)
def test_no_value_of_a_file_escapes_as_a_bug(name: str) -> None:
    values: list[Any] = ["x", "", [], [1, 2], {}, True, float("nan"), -1, 0, 10**30, 1.5]
    for value in values:
        with contextlib.suppress(ParameterError):
            assert isinstance(build({name: value}), Settings)


@pytest.mark.parametrize(
    ("value", "sentence"),
    [("x", "'x' is not a valid integer"), ("0", "got 0 (in PRIVREC_EPOCHS)")],
)
def test_a_mistake_in_the_environment_is_refused(
    run: Run, monkeypatch: pytest.MonkeyPatch, value: str, sentence: str
) -> None:
    monkeypatch.setenv("PRIVREC_EPOCHS", value)
    result = run("train", "fm", *CITY)
    assert result.code == 2
    assert sentence in result.err
