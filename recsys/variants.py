"""The rows of a comparison by name: a model with the settings that make the row what it is.

Source: PriRec (Chen et al., 2020), Table 3 (MF, DMF, FM, PriRec-, PriRec) and section 4.1 (a
    geographic network on Koubei, a random one on Foursquare). ``prirec-n0`` is PriRec without
    neighbours, which tells what mixing brings.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mpc.core.errors import ParameterError


@dataclass(frozen=True)
class Variant:
    """title: for a reader.  settings: flat settings of the task, ``model`` among them.

    searched: whether a comparison looks for better settings; not where the row is made by those
    that it has, or has none.
    """

    name: str
    title: str
    settings: Mapping[str, Any] = field(hash=False)
    searched: bool = True

    @property
    def model(self) -> str:
        """The model that the configuration knows."""
        return str(self.settings["model"])


VARIANTS = {
    variant.name: variant
    for variant in (
        Variant("mf", "MF (central)", {"model": "mf"}),
        Variant("dmf", "DMF (gradients in plaintext)", {"model": "dmf"}),
        Variant("fm", "FM (central)", {"model": "fm"}),
        Variant("prirec-", "PriRec- (no dynamic features)", {"model": "prirec-"}),
        Variant("prirec", "PriRec", {"model": "prirec"}),
        Variant(
            "prirec-random",
            "PriRec, random neighbours",
            {"model": "prirec", "network": "random"},
        ),
        Variant("prirec-n0", "PriRec, no neighbours", {"model": "prirec", "neighbours": 0}),
    )
}


def find_variant(name: str, variants: Mapping[str, Variant] = VARIANTS) -> Variant:
    """The variant called ``name``; ParameterError, with the names there are, for any other."""
    if name not in variants:
        raise ParameterError(
            f"model must be one of {', '.join(variants)}, got {name!r}",
            remedy="see privrec train --help",
        )
    return variants[name]


def with_variant(
    values: Mapping[str, Any], variants: Mapping[str, Variant] = VARIANTS
) -> dict[str, Any]:
    """Flat settings in which ``model`` may name a variant, with what the variant stands for.

    Raises ParameterError where a setting contradicts the variant.
    """
    settings = dict(values)
    name = settings.get("model")
    if not isinstance(name, str) or name not in variants:
        return settings  # checked where a configuration is made
    for key, value in variants[name].settings.items():
        if key != "model" and settings.get(key, value) != value:
            raise ParameterError(
                f"{key} must be {value!r} with {name}, got {settings[key]!r}",
                remedy=f"leave it out, or choose the model {variants[name].model}",
            )
        settings[key] = value
    return settings
