"""Whose lines are next, and how many of them."""

from common import ids
from services.gateway.batches.store import NewItem
from services.gateway.openai.batches.checks import CheckedLine
from services.gateway.openai.batches.importer import choose_turns, cut_group
from tests.unit.gateway.openai.batches.jobs import new_job

FIRST, SECOND = ids.new(), ids.new()


def test_each_tenant_has_one_turn_and_its_batches_take_turns() -> None:
    batches = [ids.new() for _ in range(4)]
    found = [(FIRST, batches[0]), (SECOND, batches[3]), (FIRST, batches[1]), (FIRST, batches[2])]
    due = dict.fromkeys(batches, 0.0)
    turns = []
    for now in (1.0, 2.0, 3.0, 4.0):
        chosen = choose_turns(found, due, now)
        turns.append(chosen[0])
        assert chosen[1] == batches[3]
        due |= dict.fromkeys(chosen, now)
    assert turns == [batches[0], batches[1], batches[2], batches[0]]


def test_a_batch_without_room_waits_while_others_go_on() -> None:
    blocked, free = ids.new(), ids.new()
    found = [(FIRST, blocked), (FIRST, free)]
    assert choose_turns(found, {blocked: 5.0, free: 1.0}, 2.0) == [free]
    assert choose_turns(found, {blocked: 5.0, free: 6.0}, 2.0) == []
    assert choose_turns(found, {blocked: 5.0, free: 6.0}, 5.5) == [blocked]


def test_lines_are_taken_up_to_the_first_without_room() -> None:
    """Wrong lines need no room."""
    group = [
        CheckedLine(NewItem(index, None), new_job() if kind == "j" else None, index)
        for index, kind in enumerate("wjwjjw")
    ]
    assert [len(cut_group(group, room)) for room in range(4)] == [1, 3, 4, 6]
    assert cut_group([], 0) == []
