"""What a refused chunk means for its items. Pure."""

import re

from charonia.cli.arguments import InvalidArgument
from charonia.cli.batch.results import explain
from charonia.errors import InvalidRequest, TooLarge
from charonia.schemas import Failure

OF_ITEM = re.compile(r"/(\d+)(?=/|$)")
KEY = "Idempotency-Key"


def assign(error: InvalidRequest | TooLarge, count: int) -> list[Failure] | None:
    """Return why each of the `count` items of a chunk was refused, or None if smaller chunks must tell.

    Raise the error if it is about the arguments of the command, and InvalidArgument if it is about the items as a
    whole.
    """
    if any(each.pointer.startswith("/defaults") for each in error.errors):
        raise error
    if any(each.pointer == KEY for each in error.errors):
        raise InvalidArgument(
            "the items that were submitted last have changed since: their files, or the model's inputs. Put them back "
            "as they were, or begin anew with --restart"
        )
    if count == 1:
        return [explain(error)]
    texts: dict[int, list[str]] = {}
    for each in error.errors:
        if found := OF_ITEM.match(each.pointer):
            texts.setdefault(int(found[1]), []).append(
                f"{each.pointer[found.end() :]}: {each.detail}".removeprefix(": ")
            )
    if all(number in texts for number in range(count)):
        return [Failure(error.code, "; ".join(texts[number])) for number in range(count)]
    return None
