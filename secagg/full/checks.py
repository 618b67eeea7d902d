"""What a client checks before a secret leaves it: one method for each rule.

Source: Bonawitz et al., CCS 2017, Figure 4, the client's assertions in rounds 1 to 4, and section
    6.2 for the signatures; Bell et al., CCS 2020, Algorithm 2, for counts within a neighbourhood.
Model: each rule stops an attack of its own; tests leave out each in turn and carry the attack out.
    Threshold and signatures together stop a server that tells clients different survivors; that
    a client answers once, with the share of a seed *or* of a key, stops it from asking one client
    for both.
Differs: the paper's client aborts without a word; here the error names the rule, the claim and the
    bound, never a secret.
"""

import numpy as np

from mpc.core.errors import AbortError, PeerError
from secagg.full.identity import Identities, is_valid, keys_text, survivors_text
from secagg.full.messages import KEYS_BYTES, SIGNATURE_BYTES
from secagg.full.neighbourhoods import Members, Positions
from secagg.full.params import RoundParams
from secagg.messages import SERVER


class ClientChecks:
    """The rules, as methods that a subclass can replace. ``Client`` inherits them."""

    params: RoundParams
    client: int
    at: int  # the client's position

    # Sets of clients.

    def check_own_membership(self, members: Members, step: str) -> None:
        """PeerError unless this client is in a set that it is told."""
        if not members[self.at]:
            raise PeerError(f"client {self.client} is not in the set of {step}", party=SERVER)

    def check_subset(self, members: Members, earlier: Members, step: str) -> None:
        """PeerError unless the set lies within the one of the step before."""
        new = self.params.ids(members & ~earlier)
        if new:
            raise PeerError(
                f"the set of {step} has clients {list(new[:8])} that took no part before",
                party=SERVER,
            )

    def check_count(self, members: Members, step: str) -> None:
        """AbortError for fewer clients than a sum may have.

        In the complete graph that is at least the threshold.
        """
        count = int(np.count_nonzero(members))
        if count < self.params.least:
            raise AbortError(f"the set of {step}: {count} clients of {self.params.least} needed")

    def check_threshold(self, members: Members, step: str) -> None:
        """AbortError for fewer than t clients in the closed neighbourhood."""
        count, t = self.params.within(self.at, members).size, self.params.threshold
        if count < t:
            raise AbortError(f"the set of {step}: {count} clients of {t} needed beside this one")

    # Keys.

    def check_own_keys(self, keys: bytes, own: bytes) -> None:
        """PeerError unless the roster has this client's keys as it advertised them."""
        if keys != own:
            raise PeerError(f"the roster holds other keys for client {self.client}", party=SERVER)

    def check_distinct_keys(self, keys: bytes) -> None:
        """PeerError if two of the roster's public keys are the same, of whichever purpose."""
        half = KEYS_BYTES // 2
        single = {keys[start : start + half] for start in range(0, len(keys), half)}
        if len(single) * half < len(keys):
            raise PeerError("two public keys of the roster are the same", party=SERVER)

    def check_key_signatures(
        self, identities: Identities, members: Positions, keys: bytes, signatures: bytes
    ) -> None:
        """PeerError, naming the client, unless each signed its keys for this very round."""
        if len(signatures) != len(members) * SIGNATURE_BYTES:
            raise PeerError("the roster's keys are not signed", party=SERVER)
        for i, client in enumerate(self.params.ids(members)):
            own = keys[i * KEYS_BYTES : (i + 1) * KEYS_BYTES]
            signature = signatures[i * SIGNATURE_BYTES : (i + 1) * SIGNATURE_BYTES]
            if not is_valid(identities, client, keys_text(self.params, client, own), signature):
                raise PeerError(f"client {client} did not sign these keys", party=client)

    # Before the last step.

    def check_signed_set(self, members: bytes, signed: bytes) -> None:
        """PeerError unless the survivors are the very set that this client signed."""
        if members != signed:
            raise PeerError("the survivors are not those that this client signed", party=SERVER)

    def check_signer_count(self, signers: Members) -> None:
        """AbortError for fewer than t signers."""
        count, t = int(np.count_nonzero(signers)), self.params.threshold
        if count < t:
            raise AbortError(f"{count} clients signed the survivors, {t} needed")

    def check_survivor_signatures(
        self,
        identities: Identities,
        roster: bytes,
        members: bytes,
        signers: Members,
        signatures: bytes,
    ) -> None:
        """PeerError, naming the client, unless each signer signed this very set."""
        ids = self.params.ids(signers)
        if len(signatures) != len(ids) * SIGNATURE_BYTES:
            raise PeerError(f"{len(ids)} signers need a signature each", party=SERVER)
        text = survivors_text(self.params, roster, members)
        for i, client in enumerate(ids):
            signature = signatures[i * SIGNATURE_BYTES : (i + 1) * SIGNATURE_BYTES]
            if not is_valid(identities, client, text, signature):
                raise PeerError(f"client {client} did not sign these survivors", party=client)
