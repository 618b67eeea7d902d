"""A round's parameters as a message, so that a client can be told what it is to take part in.

Source: ours. The papers' parties know the parameters beforehand.
Model: a claim of whoever sent it. The reader refuses what ``RoundParams`` refuses; whether a client
    wants to take part in such a round, with so few others or so low a threshold, is for its owner
    to decide. Clients that were told different rounds share no key.
Differs: the session may be anybody's; a ``History`` sees to it that it serves once.
"""

from typing import Self

from mpc.core.checks import integer
from mpc.core.errors import ParameterError, WireError
from mpc.core.ring import Ring
from mpc.core.wire import MAX_BYTES, Message
from secagg.full.params import RoundParams
from secagg.graph import Graph, complete


class Announcement(Message, frozen=True, tag="full.announcement"):
    """The public parameters of a round, field by field, see ``RoundParams``.

    malicious: 1 or 0.  graph: the bytes of a ``secagg.graph.Graph``, which has the clients' ids;
    the complete one stands for no graph.
    """

    session: bytes
    round: int
    threshold: int
    bits: int
    dim: int
    malicious: int
    colluding: int
    min_survivors: int
    graph: bytes
    context: bytes

    def __post_init__(self) -> None:
        """Refuse what is neither of the variants."""
        integer("malicious", self.malicious, 0, 1)

    @classmethod
    def of(cls, params: RoundParams) -> Self:
        """What tells ``params``. ParameterError for a sparse graph that is no ``secagg`` Graph."""
        return cls(
            params.session,
            params.round,
            params.threshold,
            params.ring.bits,
            params.dim,
            int(params.malicious),
            params.colluding,
            params.min_survivors,
            _graph(params).to_bytes(),
            params.context,
        )

    @classmethod
    def read(cls, data: bytes, *, limit: int = MAX_BYTES) -> RoundParams:
        """The params that ``data`` announces.

        limit: as for ``from_bytes``. Raises WireError for whatever announces none.
        """
        return cls.from_bytes(data, limit=limit).params()

    def params(self) -> RoundParams:
        """The params that ``of`` was given. WireError if there can be no such round."""
        graph = Graph.from_bytes(self.graph)
        try:
            return RoundParams(
                self.session,
                self.round,
                graph.clients,
                self.threshold,
                Ring(self.bits),
                self.dim,
                "malicious" if self.malicious else "semi-honest",
                self.colluding,
                self.min_survivors,
                None if graph.is_complete else graph,
                self.context,
            )
        except ParameterError as error:
            raise WireError(f"no such round: {error.message}") from error


def _graph(params: RoundParams) -> Graph:
    if params.neighbourhoods.complete:
        return complete(params.clients)
    if not isinstance(params.graph, Graph) or params.graph.clients != params.clients:
        raise ParameterError(
            "only a secagg.graph.Graph of the round's own clients can be announced",
            remedy="draw it with secagg.graph.sparse or Plan.graph",
        )
    return params.graph
