"""The tree of exceptions.

CharoniaError
├── SettingsError        an environment variable is missing or wrong
├── SchemaError          the schema of the database is older or newer than this version can use
├── Unavailable          a dependency does not answer; trying later helps
│   ├── DatabaseUnavailable
│   │   ├── DatabaseAccessDenied
│   │   └── StatementTimeout the database answers, but not this statement in time
│   ├── BrokerUnavailable
│   ├── StoreUnavailable     the object store
│   │   ├── StoreDenied      it answers, but credentials, bucket or permissions are wrong
│   │   └── StoreFull
│   └── Overloaded       a bounded buffer of this process is full
├── StoreNotFound        the object store has no such object
├── StoreRangeInvalid    an object ends before the bytes that were asked for
├── Unroutable           no queue takes a message
├── SecretUnreadable     no encryption key of this process decrypts a secret of the database
├── AddressRefused       a URL or address of a client may not be called: see security/ssrf.py
└── NotHandled           how a message handler ends without success: see rabbitmq/consumer.py
    ├── Retry
    ├── Reject
    └── UnknownMessage
"""


class CharoniaError(Exception):
    """The base of all exceptions. `exit_code` is that of a program which ends with the error."""

    exit_code = 1

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())


class SettingsError(CharoniaError):
    """An environment variable is missing or wrong."""

    exit_code = 2


class SchemaError(CharoniaError):
    """The schema of the database is older or newer than this version can use."""

    exit_code = 3


class Unavailable(CharoniaError):
    """A dependency does not answer."""


class DatabaseUnavailable(Unavailable):
    """The database does not answer."""


class DatabaseAccessDenied(DatabaseUnavailable):
    """The database denies access."""


class StatementTimeout(DatabaseUnavailable):
    """The database answers, but it did not complete this statement in time."""


class BrokerUnavailable(Unavailable):
    """The message broker does not answer."""


class StoreUnavailable(Unavailable):
    """The object store does not answer."""


class StoreDenied(StoreUnavailable):
    """The object store denies access."""


class StoreFull(StoreUnavailable):
    """The object store is full."""


class Overloaded(Unavailable):
    """Too many items are waiting already."""


class StoreNotFound(CharoniaError):
    """The object store has no such object."""


class StoreRangeInvalid(CharoniaError):
    """The object ends before the first of these bytes."""


class Unroutable(CharoniaError):
    """No queue takes this message."""


class SecretUnreadable(CharoniaError):
    """No key of CHARONIA_ENCRYPTION_KEYS decrypts this secret: add the key that encrypted it."""


class AddressRefused(CharoniaError):
    """This address may not be called."""


class NotHandled(CharoniaError):
    """The message was not handled."""


class Retry(NotHandled):
    """Requeue the message."""


class Reject(NotHandled):
    """Dead-letter the message: it can never be handled."""


class UnknownMessage(NotHandled):
    """Acknowledge the message: only a later release handles it."""
