"""Flat settings as TOML 1.0, which the standard library reads but does not write."""

import json
from collections.abc import Mapping, Sequence

Value = str | bool | int | float | Sequence[float] | None


def dump(settings: Mapping[str, Value]) -> str:
    """One ``name = value`` line for each setting; None is left out, as TOML has no word for it."""
    present = {name: value for name, value in settings.items() if value is not None}
    return "".join(f"{name} = {_value(value)}\n" for name, value in present.items())


def _value(value: Value) -> str:
    # JSON's numbers, truth values, arrays and strings are TOML's, but TOML escapes DEL and has no
    # surrogate pairs, so other characters stay as they are.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
