"""The exceptions of the toolkit: one tree, so that a caller can catch as widely as it needs.

    ToolkitError
      ParameterError (also ValueError)   a local argument is wrong
      WireError      (also ValueError)   bytes that do not parse, or parse differently
      ProtocolError
        StateError                       our caller: a call out of order, or a used-up secret
        PeerError                        the other side broke the protocol's rules
        AbortError                       too few parties are left, or the result has no meaning
      BudgetError                        the privacy budget would be exceeded
      MissingLibraryError (also ImportError)  only an extra installs what this call needs

Messages name the argument, its value and the allowed range, never a secret.
"""


class ToolkitError(Exception):
    """Base of every error that this toolkit raises on purpose.

    ``remedy`` is one sentence on what to do, or an empty string where there is nothing to do.
    """

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message} ({self.remedy})" if self.remedy else self.message

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions with keyword-only arguments cross process borders only by their state.
        return (_rebuild, (type(self), dict(self.__dict__)))


def _rebuild(cls: type[ToolkitError], state: dict[str, object]) -> ToolkitError:
    error = cls.__new__(cls)
    Exception.__init__(error, state["message"])
    error.__dict__.update(state)
    return error


class ParameterError(ToolkitError, ValueError):
    """An argument of a local call lies outside its stated range."""


class WireError(ToolkitError, ValueError):
    """Bytes that are not the canonical encoding of an expected message."""


class ProtocolError(ToolkitError):
    """A protocol run cannot go on as asked."""


class StateError(ProtocolError):
    """A call came out of order, or asks to use a secret a second time."""


class PeerError(ProtocolError):
    """Another party broke the protocol's rules; ``party`` is its id."""

    def __init__(self, message: str, *, party: int, remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.party = party


class AbortError(ProtocolError):
    """Too few parties are left, or the aggregate has no meaning; nothing was released."""


class BudgetError(ToolkitError):
    """A query would spend more privacy budget than is left."""


class MissingLibraryError(ToolkitError, ImportError):
    """This call needs a library that only an extra of the distribution installs."""
