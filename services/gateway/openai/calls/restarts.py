"""A stream of text whose job begins again, because an attempt failed. Pure."""

import hashlib


class Diverged(Exception):
    """A new attempt writes another text than what the client has already."""


class SentText:
    """What a client got of a text. A new attempt must write the same again before more is sent.

    A model writes the same again with a temperature of 0, or with a seed. Only a hash of the text is kept.
    """

    def __init__(self) -> None:
        self._sent = hashlib.sha256()
        self._size = 0  # bytes
        self._again = hashlib.sha256()
        self._left = 0  # bytes of what was sent that the new attempt has not written yet

    def begin_again(self) -> None:
        """Note that a new attempt writes from the beginning."""
        self._again, self._left = hashlib.sha256(), self._size

    def add(self, text: str) -> str:
        """Take what the model has written, and return what of it is new for the client. Raises Diverged."""
        written = text.encode()
        known, new = written[: self._left], written[self._left :]
        if known:
            self._again.update(known)
            self._left -= len(known)
            if not self._left and self._again.digest() != self._sent.digest():
                raise Diverged
        self._sent.update(new)
        self._size += len(new)
        return new.decode(errors="replace")

    def end(self) -> None:
        """Raises Diverged if the new attempt has written less."""
        if self._left:
            raise Diverged
