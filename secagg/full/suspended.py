"""A client between two steps as bytes, for an owner whose process does not live through the round.

Source: ours. The paper's client is one process.
Model: the bytes are the client: whoever reads them can do what it could, so they lie where only its
    owner reads, and are overwritten by the next ones. They may be copied, lost or come back from an
    older step: a step that was taken once is refused to every copy by the ``History``, which is
    kept apart from them and never goes back. The checksum is against damage, not against forgery.
Leaks: to whoever reads them, before the input is masked, all of the client's masks; after it, this
    client's shares of its neighbours' secrets.
"""

import hashlib

from mpc.core.errors import ParameterError, WireError
from mpc.core.keys import KEY_BYTES
from mpc.core.wire import Message
from secagg.full.messages import SHARE_BYTES
from secagg.full.params import RoundParams
from secagg.full.sharing import SECRETS

SEED_BYTES = 32
_HASH_BYTES = 32


class Suspended(Message, frozen=True, tag="full.suspended"):
    """What a client knows; see ``Client`` and ``RoundSecrets``.

    params, context: digest and context of its ``RoundParams``.  phase: the name of its phase.
    roster: hash of the roster.  members: U_1, and U_2 once the input is masked.  signed: the
    survivors it signed.  privates: of its channel and its mask key.  keys: what opens shares of its
    peers, then the keys of their common masks.  shares: its own, later all that it holds.
    """

    params: bytes
    context: bytes
    client: int
    phase: str
    roster: bytes
    members: bytes
    signed: bytes
    privates: bytes
    seed: bytes
    keys: bytes
    shares: bytes
    check: bytes = b""


def write(state: Suspended) -> bytes:
    """The state as bytes, with a checksum; ``read`` is the inverse."""
    return _with(state, _checksum(state)).to_bytes()


def read(data: bytes, params: RoundParams) -> tuple[Suspended, RoundParams]:
    """The state of a client of this round, and the params with the context that it was in.

    Raises WireError for bytes that are damaged, belong to another round, or are no client's state.
    """
    state = Suspended.from_bytes(data)
    if state.check != _checksum(_with(state, b"")):
        raise WireError("the suspended client is damaged")
    bound = params.as_saved(state.context, state.params)
    try:
        fits = _sizes(state, bound) == _expected(state, bound)
    except ParameterError:  # a client of no such round
        fits = False
    if not fits:
        raise WireError("the suspended client does not hold together")
    return state, bound


def _sizes(state: Suspended, params: RoundParams) -> tuple[int, ...]:
    fields = (state.privates, state.seed, state.roster, state.members)
    return tuple(map(len, (*fields, state.keys, state.shares, state.signed)))


def _expected(state: Suspended, params: RoundParams) -> tuple[int, ...] | None:
    """How long each field is in this phase; None where there is no such phase."""
    at = params.position(state.client)
    if state.phase in ("new", "advertised"):
        return 2 * KEY_BYTES, SEED_BYTES, 0, 0, 0, 0, 0
    members = params.unpack_set(state.members)
    beside, share = params.within(at, members).size, SECRETS * SHARE_BYTES
    if not members[at]:
        return None
    known = _HASH_BYTES, params.set_bytes
    if state.phase == "shared":
        return 0, SEED_BYTES, *known, 2 * KEY_BYTES * (beside - 1), share, 0
    if state.phase == "masked":
        return 0, 0, *known, 0, share * beside, 0
    if state.phase == "signed" and params.malicious:
        return 0, 0, *known, 0, share * beside, params.set_bytes
    return None


def _with(state: Suspended, check: bytes) -> Suspended:
    fields = {name: getattr(state, name) for name in state.__struct_fields__}
    return Suspended(**{**fields, "check": check})


def _checksum(unchecked: Suspended) -> bytes:
    return hashlib.sha256(unchecked.to_bytes()).digest()
