"""What an ensemble takes: Triton loads its models with it, and they stay as long as it does. Pure."""

from collections.abc import Iterable, Mapping, Sequence

from services.dispatcher.residency.state import Phase, Sized


def find_steps(names: Iterable[str], steps: Mapping[str, Sequence[str]]) -> set[str]:
    """Return all models that these ensembles consist of. `steps` has those of each one, which may be ensembles, too."""
    found, left = set[str](), [*names]
    while left:
        new = {*steps.get(left.pop(), ())} - found
        found |= new
        left += new
    return found


def count_steps(models: Sequence[Sized]) -> list[Sized]:
    """Return the models with the memory of each ensemble's models counted as its own, once.

    An absent ensemble needs room for those that are not resident. One that is loaded frees the room of all when it
    goes. Kept models stay, so they count for themselves.
    """
    by_name = {one.name: one for one in models}
    members = {one.name: [by_name[step] for step in one.model.steps if step in by_name] for one in models}
    held: dict[str, Sized] = {}  # models that count as part of a loaded ensemble
    parts: dict[str, int] = {}
    for one in sorted(models, key=lambda one: (-len(members[one.name]), one.name)):  # the outermost first
        if one.model.phase is not Phase.ABSENT:
            own = [each for each in members[one.name] if not each.model.keep and each.name not in held]
            held |= {each.name: each for each in own}
            parts[one.name] = sum(each.memory for each in own)
    counted = []
    for one in models:
        if one.name in held:
            counted.append(one._replace(memory=0))
        elif one.model.phase is not Phase.ABSENT:
            counted.append(one._replace(memory=one.memory + parts[one.name]))
        else:
            there = [each for each in members[one.name] if each.model.phase is Phase.RESIDENT]
            lacking = sum(each.memory for each in members[one.name] if each not in there)
            movable = [
                each for each in there if not each.model.keep and (each.name in held or not each.model.is_frozen)
            ]
            counted.append(one._replace(memory=one.memory + lacking, rest=sum(each.memory for each in movable)))
    return counted
