"""Where ``privrec train`` does the users' work: its options, and the engine that they name."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import typer

from mpc.core.errors import ParameterError
from recsys.engine import ENGINES, LOCAL, RAY, Engine, LocalEngine

EngineName = Annotated[
    str,
    typer.Option(
        "--engine",
        help="Who computes for the users: this process, or Ray workers. Changes no result. [local]",
        metavar="|".join(ENGINES),
        show_default=False,
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(help="Processes of the engine ray. [one for each processor]", metavar="N"),
]
RayAddress = Annotated[
    str | None,
    typer.Option(
        help="Ray cluster that this machine is a part of. [one that ends with the training]",
        metavar="HOST:PORT|auto",
    ),
]


@dataclass(frozen=True)
class EngineChoice:
    """What the options say; by default the engine of one process."""

    name: str = LOCAL
    workers: int | None = None
    address: str | None = None

    def check(self) -> None:
        """Refuse what cannot work, before anything is written.

        Raises ParameterError, and MissingLibraryError without Ray.
        """
        if self.name not in ENGINES:
            raise ParameterError(f"engine must be one of {', '.join(ENGINES)}, got {self.name!r}")
        if self.name == RAY:
            from recsys.engine_ray import RayEngine  # noqa: PLC0415 - most trainings need none

            RayEngine(self.workers, self.address).check()
            return
        for option, value in (("workers", self.workers), ("ray_address", self.address)):
            if value is not None:
                raise ParameterError(
                    f"{option} has no meaning with the engine {self.name}, got {value!r}",
                    remedy=f"leave it out, or choose the engine {RAY}",
                )

    def open(self, tell: Callable[[str], None]) -> Engine:
        """The engine, which its block ends. tell: is told what is worth knowing."""
        if self.name == RAY:
            from recsys.engine_ray import RayEngine  # noqa: PLC0415

            return RayEngine(self.workers, self.address, tell)
        return LocalEngine()
