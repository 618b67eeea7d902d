"""What a training of an experiment leaves: plain values, as JSON gives them back."""

from typing import Any, Literal

Wanted = Literal["validation", "test", "curve"]
"""What an outcome holds: no figure of the test part; all of them; also the test loss by epoch."""

Outcome = dict[str, Any]
