"""Chat templates: those with names, and hostile ones, which end in an error within their limits."""

import time
from collections.abc import AsyncIterator

import pytest

from services.gateway.http.problems import Problem
from services.gateway.http.worker_processes import Workers
from services.gateway.openai.templates.limits import limited
from services.gateway.openai.templates.named import NAMED
from services.gateway.openai.templates.rendering import find_syntax_error, render

TALK = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "Hi <b>{{ 1 }}</b>"},
    {"role": "assistant", "content": "Hello"},
    {"role": "user", "content": "Bye"},
]
SAID = "Hi <b>{{ 1 }}</b>"
EXPECTED = {
    "chatml": "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\n" + SAID + "<|im_end|>\n"
    "<|im_start|>assistant\nHello<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n",
    "llama3": "<|start_header_id|>system<|end_header_id|>\n\nBe kind.<|eot_id|>"
    "<|start_header_id|>user<|end_header_id|>\n\n" + SAID + "<|eot_id|>"
    "<|start_header_id|>assistant<|end_header_id|>\n\nHello<|eot_id|>"
    "<|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
    "gemma": "<start_of_turn>user\nBe kind.\n\n" + SAID + "<end_of_turn>\n<start_of_turn>model\nHello<end_of_turn>\n"
    "<start_of_turn>user\nBye<end_of_turn>\n<start_of_turn>model\n",
    "mistral": "[INST] Be kind.\n\n" + SAID + " [/INST] Hello</s>[INST] Bye [/INST]",
    "zephyr": "<|system|>\nBe kind.</s>\n<|user|>\n" + SAID + "</s>\n<|assistant|>\nHello</s>\n<|user|>\nBye</s>\n"
    "<|assistant|>\n",
    "plain": "System: Be kind.\nUser: " + SAID + "\nAssistant: Hello\nUser: Bye\nAssistant:",
}
LOOP = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
DOUBLE = "{% set s = namespace(t='x') %}{% for a in range(99) %}{% set s.t = s.t ~ s.t %}{% endfor %}"
HOSTILE = {
    "a loop without an end": LOOP,
    "a text that doubles": DOUBLE,
    "a huge text": "{{ 'x' * 99999999999 }}",
    "a huge field": "{{ '%99999999999d' % 1 }}",
    "a huge number": "{{ 9 ** 9 ** 9 }}" + LOOP,
    "many outputs": "{% for a in range(99999) %}{{ 'x' * 99999 }}{% endfor %}",
    "a recursive macro": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "attributes of a class": "{{ messages.__class__.__mro__[1].__subclasses__() }}",
    "attributes by a filter": "{{ (messages | attr('__class__')).__mro__ }}",
    "attributes by a format": "{{ '{0.__class__.__mro__}'.format(messages) }}",
    "a global's globals": "{{ raise_exception.__globals__.x }}",
    "a change": "{{ messages.append(1) }}",
    "a missing value": "{{ nothing.at.all }}",
    "a division": "{{ 1 / 0 }}",
    "a wrong type": "{{ 'a' + 1 }}",
}


@pytest.mark.parametrize("name", NAMED)
def test_a_named_template_writes_its_models_form(name: str) -> None:
    assert render(NAMED[name], TALK, {}) == EXPECTED[name]


def render_limited(template: str) -> str:
    with limited():
        return render(template, TALK, {})


@pytest.fixture(scope="module")
async def workers() -> AsyncIterator[Workers]:
    pool = Workers(1, 60.0, preload=[__name__])
    yield pool
    pool.close()


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_template_ends_in_an_error(workers: Workers, name: str) -> None:
    with pytest.raises(Problem) as raised:
        await workers.run(render_limited, HOSTILE[name])
    assert (raised.value.status, raised.value.code) == (500, "template_failed")
    assert await workers.run(render_limited, "{{ messages | length }}") == "4"


def test_a_template_may_refuse_messages() -> None:
    with pytest.raises(Problem, match="refuses them: only users may speak") as raised:
        render("{{ raise_exception('only users may speak') }}", TALK, {})
    assert (raised.value.status, raised.value.code) == (400, "invalid_messages")


def test_templates_have_what_those_of_hugging_face_use() -> None:
    text = "{% for m in messages %}{% if loop.first %}{% continue %}{% endif %}{{ m | tojson }}{% break %}{% endfor %}"
    assert render(text, TALK, {}) == '{"role": "user", "content": "Hi <b>{{ 1 }}</b>"}'
    assert render("{{ bos_token }}{{ strftime_now('%Y') }}", TALK, {"bos_token": "<s>"}) == f"<s>{time.strftime('%Y')}"


def test_a_syntax_error_names_its_line() -> None:
    assert find_syntax_error("a\n{% if %}") == "line 2: Expected an expression, got 'end of statement block'"
    assert find_syntax_error("{{ a }}") is None
