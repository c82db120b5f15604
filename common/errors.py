"""The exception tree, drawn once.

CharoniaError
├── SettingsError        a variable of the environment is missing or wrong
├── Unavailable          something we depend on does not answer; trying later helps
│   ├── DatabaseUnavailable
│   │   └── DatabaseRefused  it answers that it does not let us in
│   ├── BrokerUnavailable
│   └── Overloaded       a bounded buffer of our own is full
├── Unroutable           the broker has no queue for a message
├── AddressRefused       a URL or address that no webhook may be sent to: see addresses.py
└── Refused              settlement of a message: see broker.py
    ├── Retry
    └── Reject
"""


class CharoniaError(Exception):
    """Something of Charonia's own went wrong."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())


class SettingsError(CharoniaError):
    """A variable of the environment is missing or wrong."""


class Unavailable(CharoniaError):
    """Something we depend on does not answer."""


class DatabaseUnavailable(Unavailable):
    """The database does not answer."""


class DatabaseRefused(DatabaseUnavailable):
    """The database does not let us in."""


class BrokerUnavailable(Unavailable):
    """The message broker does not answer."""


class Overloaded(Unavailable):
    """Too much is waiting already."""


class Unroutable(CharoniaError):
    """The broker has no queue for this message."""


class AddressRefused(CharoniaError):
    """Webhooks may not be sent to this address."""


class Refused(CharoniaError):
    """The message was not handled."""


class Retry(Refused):
    """The message goes back to its queue."""


class Reject(Refused):
    """The message can never be handled and goes to the dead-letter queue."""
