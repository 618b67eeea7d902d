"""``privrec train`` and ``recommend`` with rating models: settings, rows, folders, mistakes."""

import json
import re
import stat
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from recsys.baselines.biases import Biases
from recsys.cli.main import main
from recsys.cli.options import SETTINGS
from recsys.data.rating_catalogue import resolve
from recsys.data.rating_split import SplitConfig
from recsys.ratings import registry
from recsys.ratings.config import RatingConfig
from recsys.ratings.files import holds_rating_model
from recsys.ratings.presets import PRESETS
from recsys.report import toml
from recsys.report.run_folder import RunFolder
from recsys.tasks import RATING
from tests.recsys.rating_worlds import QUICK, SET, Federated
from tests.support.cli import Run
from tests.support.source import ROOT

FIELDS = {
    *("model", "rmse", "rmse_sd", "seconds", "bytes_per_user", "epsilon", "mode", "model_digest"),
    *("epochs", "best_epoch", "validation_rmse", "constant_rmse", "fallbacks", "data", "users"),
    *("items", "train_ratings", "validation_ratings", "test_ratings", "clipped", "steps"),
    *("traffic", "peak_memory_bytes", "seed", "out", "notes", "model_notes", "guesses"),
}
EPSILON = {"headline", "bit", "coordinate", "vector", "user", "rounds", "scope", "note"}
QUIET = (*QUICK, "--quiet")


@pytest.fixture
def federated(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few lines in the place of FedGNN."""
    given = registry._import
    monkeypatch.setattr(
        registry, "_import", lambda model: Federated if model == "fedgnn" else given(model)
    )


def settings_of(folder: str) -> dict[str, Any]:
    return tomllib.loads(Path(folder, "public", "config.toml").read_text())


# Rows


@pytest.mark.parametrize("model", ["global-mean", "user-mean", "bias", "pmf", "grals", "fcf"])
def test_every_model_gives_the_same_fields(run: Run, model: str) -> None:
    row = run("train", model, *QUICK, "--mode", "simulate", "--json").row
    assert set(row) >= FIELDS
    assert set(row["epsilon"]) == EPSILON
    assert row["model"] == model
    assert row["rmse"] > 0
    assert row["rmse_sd"] is None
    assert len(row["model_digest"]) == 64
    assert row["epsilon"]["headline"] == "infinity"
    assert "auc" not in row


def test_the_row_is_that_of_the_library(run: Run) -> None:
    row = run("train", "bias", "--data", SET, "--seed", "3", "--json").row
    config = RatingConfig(model="bias", seed=3)
    model = Biases(config).fit(resolve(SET))
    assert row["model_digest"] == model.model_digest
    assert row["rmse"] == model.evaluate(model.parts_.test)


def test_one_seed_gives_one_digest_in_both_modes(run: Run, federated: None) -> None:
    digests = {
        run("train", "fedgnn", *QUICK, "--seed", "5", "--mode", mode, "--json").row["model_digest"]
        for mode in ("protocol", "protocol", "simulate")
    }
    assert len(digests) == 1


def test_what_is_sent_is_counted(run: Run, federated: None) -> None:
    row = run("train", "fedgnn", *QUICK, "--json").row
    assert row["mode"] == "protocol"
    assert row["bytes_counted"] is True
    assert row["bytes_per_user"] == sum(k["bytes"] for k in row["traffic"].values()) / row["users"]
    simulated = run("train", "fedgnn", *QUICK, "--mode", "simulate", "--json").row
    assert simulated["traffic"] == {}
    assert simulated["bytes_counted"] is False
    assert 0 < simulated["bytes_per_user"] < row["bytes_per_user"]


def test_progress_tells_of_every_epoch(run: Run, federated: None) -> None:
    noisy = ("--clip", "0.1", "--laplace", "0.2")
    ran = run("train", "fedgnn", *QUICK, *noisy, "--mode", "simulate")
    lines = [line for line in ran.err.splitlines() if line.startswith("epoch")]
    assert len(lines) == 3
    assert all("training RMSE" in line and "validation RMSE" in line for line in lines)
    assert all("epsilon 1 per coordinate and round" in line for line in lines)
    seeded = run("train", "fedgnn", *QUICK, *noisy, "--mode", "simulate", "--seed", "1")
    assert "epsilon 1 (nominal) per coordinate and round" in seeded.err


def test_the_summary_opens_with_what_privacy_there_was(run: Run, federated: None) -> None:
    first = run("train", "fedgnn", *QUIET).out.splitlines()[0]
    assert first == "no differential privacy: epsilon = infinity"
    seeded = run("train", "fedgnn", *QUIET, "--seed", "1").out.splitlines()[0]
    assert "privacy: none (reproducible simulation)" in seeded


def test_the_summary_compares_with_the_constant_predictor(run: Run) -> None:
    assert "it ends at the constant predictor" in run("train", "global-mean", *QUIET).out
    assert (
        "it beats the constant predictor by 0." in run("train", "bias", *QUIET, "--seed", "0").out
    )


# Settings


def test_the_model_names_the_task_and_its_data(run: Run) -> None:
    assert run("train", "global-mean", "--epochs", "1", "--out", "a").code == 0
    found = settings_of("a")
    assert found["data"] == "synthetic-ratings"
    assert set(found) <= set(RATING.names)
    assert found["patience"] == RatingConfig().patience


def test_options_win_over_environment_over_file_over_preset_over_defaults(
    run: Run, monkeypatch: pytest.MonkeyPatch, federated: None
) -> None:
    presets = {"some": {"epochs": 9, "dim": 9, "cohort": 40, "decay": 0.5, "gnn": "ggnn"}}
    monkeypatch.setitem(RATING.__dict__, "presets", presets)
    Path("some.toml").write_text("epochs = 8\ndim = 8\ncohort = 20\n")
    monkeypatch.setenv("PRIVREC_EPOCHS", "7")
    monkeypatch.setenv("PRIVREC_DIM", "7")
    options = ("--data", SET, "--preset", "some", "--config", "some.toml", "--epochs", "2")
    assert run("train", "fedgnn", *options, "--out", "a").code == 0
    found = settings_of("a")
    assert (found["epochs"], found["dim"], found["cohort"]) == (2, 7, 20)
    assert (found["decay"], found["gnn"]) == (0.5, "ggnn")
    assert found["user_rate"] == RatingConfig().user_rate
    assert "preset" not in found  # all that it stands for is there


def test_a_preset_can_stand_in_the_environment_or_in_a_file(
    run: Run, monkeypatch: pytest.MonkeyPatch, federated: None
) -> None:
    presets = {"some": {"epochs": 2, "cohort": 40}, "other": {"epochs": 1, "cohort": 20}}
    monkeypatch.setitem(RATING.__dict__, "presets", presets)
    Path("some.toml").write_text('preset = "some"\n')
    assert run("train", "fedgnn", "--data", SET, "--config", "some.toml", "--out", "a").code == 0
    assert settings_of("a")["cohort"] == 40
    monkeypatch.setenv("PRIVREC_PRESET", "other")
    assert run("train", "fedgnn", "--data", SET, "--config", "some.toml", "--out", "b").code == 0
    assert settings_of("b")["cohort"] == 20


def test_none_switches_off_what_a_preset_switches_on(
    run: Run, monkeypatch: pytest.MonkeyPatch, federated: None
) -> None:
    presets = {"noisy": {"epochs": 1, "clip": 0.1, "laplace": 0.2, "cohort": 30}}
    monkeypatch.setitem(RATING.__dict__, "presets", presets)
    noisy = run("train", "fedgnn", "--data", SET, "--preset", "noisy", "--json").row
    assert noisy["epsilon"]["coordinate"] == 1.0
    options = ("--data", SET, "--preset", "noisy", "--laplace", "none", "--json")
    plain = run("train", "fedgnn", *options).row
    assert plain["epsilon"]["coordinate"] is None


def test_switches_have_a_no_for_each(run: Run, federated: None) -> None:
    options = ("--no-center", "--no-bias", "--no-residual", "--no-rating-edges", "--no-published")
    assert run("train", "fedgnn", *QUICK, *options, "--out", "a").code == 0
    found = settings_of("a")
    names = ("center", "bias", "residual", "rating_edges", "published")
    assert [found[name] for name in names] == [False] * 5


def test_every_setting_survives_the_way_through_the_file() -> None:
    config = RatingConfig(
        *("fcf", "simulate"),
        clip=0.1,
        laplace=0.2,
        seed=2**64 - 1,
        center=False,
        split=SplitConfig(validation_fraction=0.25, published=False),
    )
    flat = RATING.flat(config)
    assert RATING.make(tomllib.loads(toml.dump(flat))) == config
    assert len(RATING.names) == len(set(RATING.names))


def test_the_saved_settings_repeat_the_run(run: Run) -> None:
    row = run("train", "pmf", *QUICK, "--seed", "9", "--out", "a", "--json").row
    again = run("train", "--config", "a/public/config.toml", "--json").row
    assert again["model_digest"] == row["model_digest"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ("bias", "--factors", "3"),
            "--factors has no meaning with bias, which learns from ratings",
        ),
        (("prirec", "--dim", "3"), "--dim has no meaning with prirec, which learns from visits"),
        (("prirec", "--preset", "paper"), "--preset has no meaning with prirec"),
        (("prirec", "--no-center"), "--center has no meaning with prirec"),
        (("fedgnn", "--preset", "hard"), "preset must be one of"),
        (
            ("fedgnn", "--neighbours", "5"),
            "neighbours must be one of none, fixed, trainable, got 5",
        ),
        (("prirec", "--neighbours", "fixed"), "neighbours must be an integer of at least 0"),
        (("fedgnn", "--gnn", "mlp"), "gnn must be one of gcn, gat, ggnn, got 'mlp'"),
        (("fedgnn", "--laplace", "0.2"), "laplace needs a clip"),
        (("fedgnn", "--laplace", "loud"), "'loud' is neither a number nor none"),
        (("fedgnn", "--pseudo", "9"), "pseudo must be 0 with aggregate secure, got 9"),
        (("fedgnn", "--mode", "float"), "mode must be one of protocol, simulate, got 'float'"),
        (("fedgnn", "--epochs", "0"), "epochs"),
        (("gnn",), "model must be one of mf, dmf, fm, prirec-, prirec, prirec-random, prirec-n0, "),
        (("bias", "--data", "nowhere"), "there is no rating set 'nowhere'"),
    ],
)
def test_a_mistake_is_told_in_one_sentence(
    run: Run, arguments: tuple[str, ...], sentence: str
) -> None:
    ran = run("train", *arguments)
    assert ran.code == 2
    assert sentence in ran.err
    assert ran.out == ""
    assert list(Path().iterdir()) == []


def test_an_environment_variable_of_the_other_task_is_refused(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRIVREC_DIM", "3")
    ran = run("train", "prirec")
    assert ran.code == 2
    assert "PRIVREC_DIM has no meaning with prirec" in ran.err


def test_a_setting_of_the_other_task_in_a_file_is_named_with_the_file(run: Run) -> None:
    Path("some.toml").write_text("dim = 3\n")
    ran = run("train", "prirec", "--config", "some.toml")
    assert ran.code == 2
    assert "dim (in some.toml) has no meaning with prirec" in ran.err
    Path("some.toml").write_text("dims = 3\n")
    ran = run("train", "bias", "--config", "some.toml")
    assert "unknown setting 'dims' (in some.toml)" in ran.err


def test_a_cohort_that_is_too_small_is_refused_for_privacy(run: Run, federated: None) -> None:
    ran = run("train", "fedgnn", "--data", SET, "--cohort", "5")
    assert ran.code == 3
    assert "a cohort of 5 users is below the minimum of 16" in ran.err
    assert list(Path().iterdir()) == []


def test_a_missing_library_is_told_with_its_remedy(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(model: str) -> Any:
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    monkeypatch.setattr(registry, "_import", absent)
    ran = run("train", "fedgnn", *QUICK)
    assert ran.code == 2
    assert "fedgnn needs torch, which is not installed" in ran.err
    assert "remedy: pip install 'privrec[gnn]'" in ran.err
    assert list(Path().iterdir()) == []
    ran = run("train", "fedgnn", "--data", "nowhere.csv")
    assert ran.code == 2
    assert "nowhere.csv" in ran.err
    assert "torch" not in ran.err


def test_help_and_models_of_visits_load_no_network_library() -> None:
    script = (
        "import sys; from recsys.cli.main import main\n"
        "main(['train', '--help'])\n"
        "main(['train', 'fm', '--data', 'synthetic-city:40x30', '--epochs', '1', '-q'])\n"
        "main(['train', 'bias', '--epochs', '1', '-q'])\n"
        "assert not {'torch', 'surprise'} & set(sys.modules)\n"
    )
    subprocess.run(
        [sys.executable, "-c", f"import os, tempfile; os.chdir(tempfile.mkdtemp())\n{script}"],
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        check=True,
        capture_output=True,
    )


# Folders


def test_a_run_folder_separates_who_holds_what(run: Run, federated: None) -> None:
    assert run("train", "fedgnn", *QUIET, "--out", "a").code == 0
    names = {
        part: {path.name for path in Path("a", part).iterdir()}
        for part in ("public", "recommender", "users")
    }
    assert names["public"] == {
        *("config.toml", "ledger.json", "metrics.json", "model.json", "report.html"),
        *("run.json", "state.json"),
    }
    assert names["recommender"] == {"checkpoint-0003.npz", "model.npz"}
    assert names["users"] >= {"checkpoint-0003.npz", "models.npz", "report.html"}
    assert stat.S_IMODE(Path("a/users").stat().st_mode) == 0o700
    assert holds_rating_model(Path("a"))
    row = json.loads(Path("a/public/metrics.json").read_text())["rows"][0]
    assert json.loads(Path("a/public/ledger.json").read_text())["epsilon"] == row["epsilon"]


def interrupted(monkeypatch: pytest.MonkeyPatch, *command: str) -> int:
    """The exit code of a command that Ctrl-C ends right after its second checkpoint."""
    save = RunFolder.save

    def interrupts(self: RunFolder, snapshot: Any) -> None:
        save(self, snapshot)
        if self.checkpoints == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(RunFolder, "save", interrupts)
        return main(command)


@pytest.mark.parametrize("model", ["pmf", "fedgnn"])
def test_a_resumed_run_has_the_digest_of_a_whole_one(
    run: Run, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    if model == "fedgnn":
        monkeypatch.setattr(registry, "_import", lambda name: Federated)
    command = ("train", model, *QUIET, "--seed", "4")
    whole = run(*command, "--json").row
    assert interrupted(monkeypatch, *command, "--out", "a") == 130
    resumed = run("train", "--resume", "a", "--json").row
    assert resumed["model_digest"] == whole["model_digest"]
    assert resumed["epochs"] == whole["epochs"]
    refused = run("train", "--resume", "a", "--epochs", "9")
    assert refused.code == 2
    assert "--epochs 9 differs from the run's 3" in refused.err
    assert run("train", "--resume", "a", "--preset", "paper").code == 2


def test_a_resumed_run_wants_its_own_data(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"u{u},i{i},{1 + (u + i) % 5}" for u in range(30) for i in range(8)]
    Path("own.csv").write_text("\n".join(["user,item,rating", *lines]))
    command = ("train", "pmf", "--data", "own.csv", "--epochs", "3", "--quiet")
    assert interrupted(monkeypatch, *command, "--out", "a") == 130
    Path("own.csv").write_text("\n".join(["user,item,rating", *lines[:-1]]))
    ran = run("train", "--resume", "a")
    assert ran.code == 2
    assert "the data are not those that the run began with" in ran.err


def test_the_versions_that_decide_a_digest_are_kept(run: Run, federated: None) -> None:
    assert run("train", "fedgnn", *QUIET, "--out", "a").code == 0
    assert "torch" in json.loads(Path("a/public/run.json").read_text())["versions"]
    assert run("train", "bias", *QUIET, "--out", "b").code == 0
    assert "torch" not in json.loads(Path("b/public/run.json").read_text())["versions"]


# Recommendations


def test_recommend_lists_items_by_predicted_rating(run: Run) -> None:
    assert run("train", "bias", *QUIET, "--out", "a").code == 0
    ran = run("recommend", "--model", "a", "--user", "u7", "-k", "4", "--json")
    rows = ran.json["rows"]
    expected = Biases.load("a").recommend("u7", 4)
    assert rows == [
        {"rank": rank, "item": one.item, "rating": one.value}
        for rank, one in enumerate(expected, start=1)
    ]
    text = run("recommend", "--model", "a", "--user", "u7", "-k", "4").out.splitlines()
    assert text[0].split() == ["rank", "item", "rating"]
    assert text[2].split() == ["1", expected[0].item, f"{expected[0].value:.2f}"]


def test_an_unknown_user_is_refused(run: Run) -> None:
    assert run("train", "bias", *QUIET, "--out", "a").code == 0
    ran = run("recommend", "--model", "a", "--user", "nobody")
    assert ran.code == 2
    assert "user 'nobody' was not in the training data" in ran.err


# FedGNN itself


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_trains_and_its_ledger_says_what_it_gives(run: Run, preset: str) -> None:
    options = ("--data", SET, "--preset", preset, "--epochs", "3", "--mode", "simulate")
    row = run("train", "fedgnn", *options, "--out", "a", "--json").row
    epsilon = row["epsilon"]
    assert epsilon["headline"] == "infinity"
    noisy = PRESETS[preset].get("laplace") is not None
    assert epsilon["coordinate"] == (1.0 if noisy else None)
    if noisy:
        assert epsilon["user"] == 3 * epsilon["vector"] > 3
    ledger = json.loads(Path("a/public/ledger.json").read_text())
    shown = " ".join(release["what"] for release in ledger["releases"])
    assert ("items that a user uploads" in shown) is noisy
    page = Path("a/public/report.html").read_text()
    opening = page[page.index("<main>") :]
    assert ("No differential privacy: epsilon = infinity." in opening) is not noisy
    assert settings_of("a")["epochs"] == 3


def test_the_papers_preset_ends_at_the_constant_and_says_so(run: Run) -> None:
    options = ("--data", SET, "--preset", "paper", "--mode", "simulate", "--dim", "8", "-q")
    out = run("train", "fedgnn", *options).out
    figures = re.search(r"test RMSE (\S+), the training mean alone has (\S+)", out)
    assert figures is not None
    near = abs(float(figures[1]) - float(figures[2])) <= 0.002
    assert ("it ends at the constant predictor" in out) is near


def test_fedgnn_in_both_modes_has_one_digest_and_recommends(run: Run) -> None:
    rows = [
        run("train", "fedgnn", *QUICK, "--seed", "2", "--mode", mode, "--out", mode, "--json").row
        for mode in ("protocol", "simulate")
    ]
    assert rows[0]["model_digest"] == rows[1]["model_digest"]
    assert rows[0]["rmse"] == rows[1]["rmse"]
    listed = run("recommend", "--model", "protocol", "--user", "u3", "--json").json["rows"]
    assert len(listed) == 10
    assert [one["rating"] for one in listed] == sorted((o["rating"] for o in listed), reverse=True)


def test_a_run_that_is_not_finished_says_how_to_finish_it(run: Run) -> None:
    with RunFolder("half done", settings={}):
        pass
    ran = run("recommend", "--model", "half done", "--user", "u1")
    assert ran.code == 2
    assert ran.err.splitlines() == [
        "error: half done: this run is not finished",
        "remedy: finish it with: privrec train --resume 'half done'",
    ]
    assert "no trained model here" in run("recommend", "--model", "nowhere", "--user", "u1").err


def test_an_option_without_its_value_names_the_commands_help(run: Run) -> None:
    for command in ("train", "compare", "sweep", "recommend"):
        ran = run(command, "--data" if command != "recommend" else "--user")
        assert ran.code == 2
        assert f"remedy: see privrec {command} --help" in ran.err


def test_biases_alone_have_no_network(run: Run) -> None:
    told = run("train", "fedgnn", *QUICK, "--dim", "0", "--mode", "simulate", "-q").out
    assert "FedGNN: biases alone, mode simulate" in told
    assert "FedGNN: d = 2, GCN, no neighbours" in run("train", "fedgnn", *QUIET, "--dim", "2").out


def test_every_setting_of_a_rating_model_has_an_option() -> None:
    """But for the encoding's, of which nobody should have to think, and the validation part's."""
    without = {"model", "ring_bits", "frac_bits", "validation_fraction"}
    assert set(RATING.names) - without <= set(SETTINGS)
