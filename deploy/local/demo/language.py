"""`python -m deploy.local.demo.language` asks a language model in the background, with OpenAI's own client.

It ends with the webhook that this client has verified, and the answer.
"""

import sys
import time
from dataclasses import replace
from typing import TypeAlias

import openai
from charonia import Charonia
from openai.types.webhooks import ResponseCompletedWebhookEvent, ResponseIncompleteWebhookEvent

from deploy.local.demo.errors import DemoFailed
from deploy.local.demo.inbox import Inbox
from deploy.local.demo.job import POLL, WITHIN
from deploy.local.demo.stage import run_demo, run_stack, tell
from deploy.local.settings import Settings
from deploy.local.stack import Stack
from deploy.local.terminal import say

MODEL = "chat"
QUESTION = "Name the capital of France."
MOST_TOKENS = 100
Answered: TypeAlias = ResponseCompletedWebhookEvent | ResponseIncompleteWebhookEvent

NEXT = """
Next: `{up}` keeps the stack running. Then try in another terminal:

  CHARONIA_URL={url} CHARONIA_KEY={key} .venv/bin/charonia chat {model}

{url}/console/chat is the same in a browser.
"""


def show_language_model(settings: Settings) -> None:
    """Start the stack, ask the model, stop the stack. Raise LocalError if anything is wrong."""
    with Inbox() as inbox, run_stack(settings) as stack:
        key = stack.environment["CHARONIA_BOOTSTRAP_KEY"]
        with Charonia(stack.url, key) as charonia:
            webhook = charonia.webhooks.create(f"{inbox.url}/webhook", format="openai", events=["response.*"])
            assert webhook.secret is not None, "a new subscription has its secret"
            say("\n One response, with the package `openai`:\n")
            try:
                with openai.OpenAI(
                    base_url=f"{stack.url}/openai/v1", api_key=key, webhook_secret=webhook.secret
                ) as client:
                    ask(client, inbox, stack)
            except openai.OpenAIError as error:
                raise DemoFailed(f"the client failed: {error}") from error
            finally:
                charonia.webhooks.delete(webhook.id)  # its receiver ends with the demo
        up = settings.make_call("up", LANGUAGE_MODELS="1")
        say(NEXT.format(up=up, url=stack.url, key=key, model=MODEL))


def ask(client: openai.OpenAI, inbox: Inbox, stack: Stack) -> None:
    """Ask in the background, wait for the webhook, and get the answer. Raise DemoFailed and OpenAIError."""
    started = time.monotonic()

    def note(step: str, text: str) -> None:
        tell((time.monotonic() - started) * 1000, step, text)

    note("asking", f'the model {MODEL}: "{QUESTION}"')
    response = client.responses.create(
        model=MODEL, input=QUESTION, background=True, max_output_tokens=MOST_TOKENS, temperature=0
    )
    note("accepted", f"{response.id}, {response.status}")
    event = wait_for_event(client, inbox, stack)
    note("webhook", f"{event.type}, {event.id}")
    note("verified", f"client.webhooks.unwrap: the signature is correct, and it is about {event.data.id}")
    if event.data.id != response.id:
        raise DemoFailed(f"an unexpected webhook: {event}")
    answer = client.responses.retrieve(event.data.id)
    note("answer", f"{answer.status}")
    for line in answer.output_text.splitlines():
        tell(0, "", line)
    if not answer.output_text or answer.usage is None:
        raise DemoFailed(f"an answer without a text or tokens: {answer}")
    tell(0, "", f"{answer.usage.input_tokens} + {answer.usage.output_tokens} tokens")


def wait_for_event(client: openai.OpenAI, inbox: Inbox, stack: Stack) -> Answered:
    """Return the first webhook, verified and read by the client. Raise DemoFailed for another one, or none."""
    deadline = time.monotonic() + WITHIN
    while time.monotonic() < deadline:
        stack.check()
        if (posted := inbox.take(POLL)) is not None:
            event = client.webhooks.unwrap(posted.body, posted.headers)
            if not isinstance(event, Answered):
                raise DemoFailed(f"an unexpected webhook: {event}")
            return event
    raise DemoFailed(f"no webhook within {WITHIN:g} s")


if __name__ == "__main__":
    sys.exit(run_demo(show_language_model, lambda given: replace(given, language_models=1)))
