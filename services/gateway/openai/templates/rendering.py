"""Renders Jinja templates in a sandbox. Pure.

A template of a model's configuration may run for ever or fill the memory. So it is rendered in a process of its own
(templates/limits.py). The templates with names take time and memory in proportion to the messages.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from http import HTTPStatus
from typing import Any, NoReturn

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

from services.gateway.http.problems import MAX_TEXT, Problem

MAX_PROMPT = 64 * 1024 * 1024  # characters
CACHED_TEMPLATES = 32  # of at most 32 KiB of text each


class ConversationRefused(Exception):
    """A template refuses messages, with `raise_exception`."""


def raise_exception(text: object) -> NoReturn:
    raise ConversationRefused(str(text))


def to_json(value: Any, indent: int | None = None, **options: Any) -> str:
    """Return JSON as tokenizers of Hugging Face write it: Jinja's own filter escapes for HTML."""
    return json.dumps(value, ensure_ascii=False, indent=indent, **options)


def make_environment() -> ImmutableSandboxedEnvironment:
    # Without the optimizer, no expression is computed before the template runs.
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, optimized=False, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = to_json
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return environment


ENVIRONMENT = make_environment()


@lru_cache(CACHED_TEMPLATES)
def compile_template(text: str) -> jinja2.Template:
    return ENVIRONMENT.from_string(text)


@lru_cache(CACHED_TEMPLATES)
def find_syntax_error(text: str) -> str | None:
    """Return why a text is no template, or None. It runs nothing of it."""
    try:
        ENVIRONMENT.parse(text)
    except jinja2.TemplateSyntaxError as error:
        return f"line {error.lineno}: {error.message}"
    except RecursionError:
        return "it is nested too deeply"
    return None


def render(template: str, messages: Sequence[Mapping[str, Any]], values: Mapping[str, Any]) -> str:
    """Return the prompt of messages. `values` are further variables.

    Raises Problem: 400 if the template refuses the messages, 500 if it fails.
    """
    parts, size = [], 0
    try:
        for part in compile_template(template).generate(messages=messages, add_generation_prompt=True, **values):
            parts.append(part)
            size += len(part)
            if size > MAX_PROMPT:
                raise failed(f"the prompt has more than {MAX_PROMPT} characters")
    except ConversationRefused as error:
        text = f"messages: the model's chat template refuses them: {str(error)[:MAX_TEXT]}"
        raise Problem(HTTPStatus.BAD_REQUEST, "invalid_messages", text) from error
    except (jinja2.TemplateError, ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise failed(f"{type(error).__name__}: {error}") from error
    except (MemoryError, AttributeError) as error:
        raise failed(type(error).__name__) from error
    return "".join(parts)


def failed(why: str) -> Problem:
    text = f"the model's chat template fails: {why[:MAX_TEXT]}; ask your operator to change `charonia.chat_template`"
    return Problem(HTTPStatus.INTERNAL_SERVER_ERROR, "template_failed", text)
