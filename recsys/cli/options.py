"""Options that commands share: those of settings, from one table, and how help shows them."""

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

import click
import typer
from typer.core import TyperCommand

from recsys.cli.settings import NONE, PREFIX, build, variable
from recsys.config import DYNAMIC, FEATURES, MIXES, MODES, SECURITY
from recsys.config import NETWORKS as USER_NETWORKS
from recsys.data.prepare import PrepareConfig
from recsys.drop_outs import SECAGG
from recsys.network import WEIGHTS
from recsys.ratings import config as ratings
from recsys.tasks import PRESET, RATING, TASKS, VISITS

_DEFAULTS = {name: build({}, task=task).flat() for name, task in TASKS.items()}
_OF_PREPARE = get_type_hints(PrepareConfig)

Command = TypeVar("Command", bound=Callable[..., None])

Json = Annotated[bool, typer.Option("--json", help="Print JSON, alone on stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no notes.")]
Verbose = Annotated[
    bool,
    typer.Option("--verbose", "-v", help="Keep a line of each epoch; show tracebacks of bugs."),
]


def out_option(what: str, default: str) -> Any:
    """Declares --out, the folder of ``what``; default: where it is if nobody says."""
    return typer.Option(
        envvar=f"{PREFIX}OUT",
        show_envvar=False,
        help=f"Folder of the {what}. [{default}]",
        metavar="DIR",
    )


def _count_or_word(text: str) -> int | str:
    """A whole number where it is one; else the word, which the settings check."""
    try:
        return int(text)
    except ValueError:
        return text


def _number_or_none(text: str) -> float | str:
    """A number, or the word that switches a setting off."""
    if text == NONE:
        return text
    try:
        return float(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is neither a number nor {NONE}.") from None


@dataclass(frozen=True)
class Setting:
    """The option of one setting.

    kind: type of a value, or what reads one.  choices: shown in place of the type.
    absent: what no value means, where the default does not say it.
    """

    name: str
    kind: Any
    help: str
    choices: tuple[str, ...] = ()
    absent: str = ""

    def option(self, absent: str = "") -> Any:
        """Declares the option. absent: in place of the setting's own."""
        flag = f"--{self.name.replace('_', '-')}"
        return typer.Option(
            f"{flag}/--no{flag[1:]}" if self.kind is bool else flag,
            help=f"{self.help} {f'[{absent}]' if absent else self.defaults()}".rstrip(),
            envvar=variable(self.name),
            show_envvar=False,
            metavar="|".join(self.choices) or None,
            show_default=False,
            parser=None if isinstance(self.kind, type) else self.kind,
        )

    @property
    def annotation(self) -> Any:
        """The type of its value; None says that nobody gave one."""
        return self.kind | None if isinstance(self.kind, type) else str | None

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks that have the setting."""
        found = tuple(name for name, values in _DEFAULTS.items() if self.name in values)
        return found or (RATING.name,)  # a preset is no field

    def defaults(self) -> str:
        """What no value means, in brackets; for both tasks where they differ."""
        told = {task: self._default(task) for task in self.tasks}
        first = next(iter(told.values()))
        rest = [f" [{task}: {text}]" for task, text in told.items() if text != first]
        return (f"[{first}]" if first else "") + "".join(rest)

    def _default(self, task: str) -> str:
        if self.absent or self.name == PRESET:
            return self.absent
        default = _DEFAULTS[task][self.name]
        if isinstance(default, bool):
            return "yes" if default else "no"
        return NONE if default is None else str(default)


_OWN = "the model's own"
_NUMBER = ("NUMBER", NONE)

_TABLE = (
    # Of both tasks.
    Setting("data", str, "Name of a data set, or path to its file or folder."),
    Setting(
        "seed",
        int,
        "Repeatable run: the seed tells every coin, so it gives no privacy.",
        absent="none: coins of the system",
    ),
    Setting("epochs", int, "Epochs, at most."),
    Setting("patience", int, "Epochs without a better validation measure before it stops."),
    Setting(
        "mode",
        str,
        "Shares, pads and noise for real; or the same sums in the clear. Of visits also float: no "
        "encoding.",
        MODES,
    ),
    Setting(
        "neighbours",
        _count_or_word,
        "Visits: N, users that each mixes with; 0 for none. Ratings: neighbours' embeddings, none, "
        "fixed or trainable.",
        ("N", *ratings.NEIGHBOURS),
    ),
    Setting("cohort", int, "Members of an aggregation cohort; of ratings, users of a round."),
    Setting("min_cohort", int, "Fewest members accepted."),
    Setting("chunk", int, "Members of a cohort who are computed at once, or by one worker."),
    Setting(
        "secagg",
        str,
        "What adds up a cohort: one-time pads, or the full protocol, which takes drop-outs.",
        SECAGG,
    ),
    Setting(
        "drop_rate",
        float,
        "Share of a cohort, others in each round, that drops out; of the full protocol.",
    ),
    Setting("learning_rate", float, "Step; of visits, that of the linear models.", absent=_OWN),
    Setting("test_fraction", float, "Share of the data that is tested on."),
    Setting("clip", _number_or_none, "Bound on a user's gradient entries.", _NUMBER),
    # Of visits.
    Setting(
        "features",
        str,
        "Those of users; also static ones of POIs; also dynamic ones.",
        FEATURES,
        absent="all; static for prirec-",
    ),
    Setting(
        "network",
        str,
        "Nearest users, whose homes somebody must then know; or random ones.",
        USER_NETWORKS,
    ),
    Setting("weights", str, "Weights of the user network.", WEIGHTS),
    Setting("mix", str, "One secure sum of each user per epoch, or per update.", MIXES),
    Setting(
        "security",
        str,
        "Against parties of secure sums who look; or also who alter messages.",
        SECURITY,
    ),
    Setting("relay", bool, "Shares travel through the recommender, sealed."),
    Setting("epsilon", float, "Privacy loss of one user-POI pair by all dynamic features."),
    Setting(
        "dynamic",
        str,
        "One visitor count, the average visits, or the paper's three counts.",
        DYNAMIC,
    ),
    Setting("visit_cap", int, "Visits of a user to one POI that the average counts, at most."),
    Setting("factors", int, "K, length of a factor vector."),
    Setting("local_batch", int, "Samples of a user in one update."),
    Setting("min_visitors", int, "POIs with fewer visitors are left out."),
    Setting(
        "rounds",
        int,
        "Rounds of an epoch; 0 takes what the busiest user needs.",
        absent="users' mean number of batches",
    ),
    Setting(
        "max_positives",
        int,
        "Random visits of each user to learn from and test on.",
        absent="all",
    ),
    Setting(
        "negatives",
        str,
        "From all POIs, or from those nearby.",
        get_args(_OF_PREPARE["negatives"]),
    ),
    Setting(
        "order",
        str,
        "Split first, or the paper's literal order.",
        get_args(_OF_PREPARE["order"]),
    ),
    # Of ratings.
    Setting(
        PRESET,
        str,
        "Settings of fedgnn that belong together; any other option wins over them.",
        tuple(RATING.presets),
    ),
    Setting("gnn", str, "The network over a user, her items and her neighbours.", ratings.NETWORKS),
    Setting("dim", int, "Length of an embedding; 0 for biases alone."),
    Setting("loss", str, "Of a prediction.", ratings.LOSSES),
    Setting("reduction", str, "Of the losses of a user.", ratings.REDUCTIONS),
    Setting("optimizer", str, "Of the server, on the aggregate.", ratings.OPTIMIZERS),
    Setting(
        "decay",
        float,
        "Factor of the step from epoch to epoch; of fedgnn for 8 rounds, or for a shorter epoch.",
    ),
    Setting("penalty", float, "Weight decay.", absent=_OWN),
    Setting("bias_penalty", float, "Weight decay of the items' biases.", absent="as penalty"),
    Setting(
        "user_fit",
        str,
        "A user's embedding and bias: the best fit to her ratings, or by gradient steps.",
        ratings.USER_FITS,
    ),
    Setting("user_rate", float, "Step of what stays on the device, with user-fit steps."),
    Setting("full_star", bool, "After training, devices solve with the validation ratings too."),
    Setting("init_scale", float, "Standard deviation of the first embeddings."),
    Setting("center", bool, "Learn ratings less their training mean, which is then public."),
    Setting("bias", bool, "Biases of users and items."),
    Setting("residual", bool, "Representations are added to the embeddings."),
    Setting("rating_edges", bool, "Edges carry the ratings, but for the one that is predicted."),
    Setting("dropout", float, "Share of the entries that is dropped."),
    Setting(
        "aggregate",
        str,
        "Sums over the whole catalogue under pads; or uploads in the clear, as in the paper.",
        ratings.AGGREGATES,
    ),
    Setting("pseudo", int, "M, items without interaction that a user uploads too; of clear alone."),
    Setting(
        "pseudo_items",
        str,
        "The same ones in every round, or others, which intersecting rounds removes.",
        ratings.PSEUDO,
    ),
    Setting(
        "laplace",
        _number_or_none,
        "Scale of the noise on every entry that is sent; needs a clip.",
        _NUMBER,
    ),
    Setting("bound", float, "Largest entry that the encoding can hold, without a clip."),
    Setting("expand_after", int, "T, epochs before neighbours join."),
    Setting("most_neighbours", int, "Neighbours of a user, at most."),
    Setting("match_items", int, "Items of a user that are matched, at most."),
    Setting("min_group", int, "Items with fewer holders match nobody."),
    Setting(
        "embedding_epsilon",
        _number_or_none,
        "Privacy loss of one coordinate of the embedding that matching hands on.",
        _NUMBER,
        absent="no noise",
    ),
    Setting("published", bool, "Test on the part that was published with the data, if one was."),
)

SETTINGS = {each.name: each for each in _TABLE}


def with_settings(names: Iterable[str], **absent: str) -> Callable[[Command], Command]:
    """Give a command the options of settings, which it reads from its context.

    They stand before the command's other options, in the order of the table.
    absent: by name, what no value means where this command has a default of its own.
    """
    wanted = set(names)

    def decorate(command: Command) -> Command:
        parameters = [
            inspect.Parameter(
                each.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=None,
                annotation=Annotated[
                    each.annotation, each.option(absent=absent.get(each.name, ""))
                ],
            )
            for each in _TABLE
            if each.name in wanted
        ]
        own = inspect.signature(command, eval_str=True)
        kept = [p for p in own.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
        # Typer reads the options of a command from its signature.
        command.__signature__ = own.replace(parameters=[*kept, *parameters])  # type: ignore[attr-defined]
        return command

    return decorate


_SECTIONS = {
    ("visits", "rating"): "Settings",
    ("visits",): f"Settings of models that learn from {VISITS.learns_from}",
    ("rating",): f"Settings of models that learn from {RATING.learns_from}",
}


class PlainCommand(TyperCommand):
    """A command whose help is plain text: Typer escapes brackets for Rich even without Rich.

    The options of settings stand apart, by the task that has them.
    """

    def get_help(self, ctx: click.Context) -> str:
        """The help as Click words it."""
        return super().get_help(ctx).replace("\\[", "[")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write arguments and options, a section for each kind."""
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        sections |= {title: [] for title in _SECTIONS.values()}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is None:
                continue
            title = "Options"
            if param.param_type_name == "argument":
                title = "Arguments"
            elif param.name in SETTINGS and param.envvar == variable(param.name):
                # Its variable tells a setting from what a command calls by the same name.
                title = _SECTIONS[SETTINGS[param.name].tasks]
            sections[title].append(record)
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)
