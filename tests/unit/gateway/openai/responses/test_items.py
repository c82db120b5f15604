"""The input of a response, in pages."""

from typing import Any

import msgspec
import pytest

from services.gateway.openai.responses.items import Order, UnknownItem, page_items

BODY = msgspec.json.encode(
    {
        "model": "llm",
        "input": [
            {"role": "user", "content": "one"},
            {"role": "assistant", "content": "two"},
            {"role": "user", "content": [{"type": "input_text", "text": "three"}]},
        ],
    }
)


def page(after: str | None = None, limit: int = 20, order: Order = "asc") -> Any:
    return msgspec.to_builtins(page_items("msg_x", BODY, after, limit, order))


def test_items_have_parts_and_ids() -> None:
    found = page()
    assert (found["object"], found["first_id"], found["last_id"], found["has_more"]) == (
        "list",
        "msg_x_0",
        "msg_x_2",
        False,
    )
    assert [(item["id"], item["role"], item["content"][0]) for item in found["data"]] == [
        ("msg_x_0", "user", {"type": "input_text", "text": "one"}),
        ("msg_x_1", "assistant", {"type": "output_text", "text": "two", "annotations": [], "logprobs": []}),
        ("msg_x_2", "user", {"type": "input_text", "text": "three"}),
    ]


def test_pages_follow_each_other_in_both_orders() -> None:
    for order, wanted in (("asc", [0, 1, 2]), ("desc", [2, 1, 0])):
        seen, after, has_more = [], None, True
        while has_more:
            found = page(after, 2, "desc" if order == "desc" else "asc")
            seen += [item["id"] for item in found["data"]]
            after, has_more = found["last_id"], found["has_more"]
        assert seen == [f"msg_x_{number}" for number in wanted]


def test_a_text_is_one_message_of_the_user() -> None:
    (item,) = page_items("msg_x", b'{"input":"hello"}', None, 20, "desc").data
    assert (item.role, item.content) == ("user", [{"type": "input_text", "text": "hello"}])


def test_a_page_after_the_last_item_is_empty_and_an_unknown_one_is_an_error() -> None:
    assert page("msg_x_2")["data"] == []
    with pytest.raises(UnknownItem):
        page("msg_y_0")
