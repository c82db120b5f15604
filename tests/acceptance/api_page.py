"""docs/api.md: its curl lines, the answers it shows, and what may differ between two runs."""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import httpx
import msgspec

from deploy.local.settings import ROOT

PAGE = ROOT / "docs" / "api.md"
API, KEY, HOOK = "http://localhost:8080", "ch_dev", "https://example.com/hook"  # as the page has them
CALL = re.compile(r"```sh\n(curl .*?)\n```\n+```(json|text) (\d{3})\n(.*?)```\n", re.DOTALL)
ID = re.compile(r"\b(?:job|evt|whk|dlv|rec|bat)_[0-9a-z]{26}\b")
CHANGING = {  # what no two runs share
    re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"): "<time>",
    re.compile(r'("(?:\w+_ms|latency_ms|queue_position)": ?)\d+'): r"\1<number>",
    re.compile(r'("(?:trace_id|worker|secret|public_key|signature|next_cursor)": ?)"[^"]+"'): r'\1"<text>"',
    # Of a job that has just ended: a subscription's delivery is made in that moment. Any other is as it is shown.
    re.compile(
        r'("status": ?"succeeded",(?:(?!"webhook_status").)*"webhook_status": ?)"(?:none|pending)"', re.DOTALL
    ): (r'\1"<none or pending>"'),
    re.compile(r"trace/[0-9a-f]{32}"): "trace/<text>",
    re.compile(r'("(?:detail|text|message)": ?)"[^"]{200,}"'): r'\1"<text>"',
}


@dataclass(frozen=True)
class Call:
    """A curl line, and the answer under it."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: str | None
    language: str
    status: int
    answer: str
    span: tuple[int, int]  # of the answer, with its fence


@dataclass
class Run:
    """What the ids on the page are called this time."""

    url: str
    key: str
    hook: str
    ids: dict[str, str] = field(default_factory=dict)

    async def send(self, http: httpx.AsyncClient, call: Call) -> httpx.Response:
        headers = {name: self.translate(value) for name, value in call.headers.items()}
        body = None if call.body is None else self.translate(call.body).encode()
        return await http.request(call.method, self.url + self.translate(call.path), headers=headers, content=body)

    def translate(self, text: str) -> str:
        return self.rename(text).replace(KEY, self.key).replace(HOOK, self.hook)

    def rename(self, text: str) -> str:
        return ID.sub(lambda found: self.ids.get(found.group(), found.group()), text)

    def learn(self, shown: str, came: str) -> None:
        """The ids in an answer, in the order in which the page has them."""
        self.ids |= dict(zip(ID.findall(shown), ID.findall(came), strict=False))


def read_calls(page: str) -> Iterator[Call]:
    for found in CALL.finditer(page):
        command, language, status, answer = found.groups()
        yield read_call(command, language, int(status), answer, found.span())


def read_call(command: str, language: str, status: int, answer: str, span: tuple[int, int]) -> Call:
    """What curl would send; only the options that the page uses."""
    words = iter(shlex.split(command.replace("\\\n", " "))[1:])
    method, url, body, headers = None, "", None, {}
    for word in words:
        match word:
            case "-X":
                method = next(words)
            case "-H":
                name, _, value = next(words).partition(":")
                headers[name.strip()] = value.strip()
            case "-d" | "--data-binary":
                body = next(words)
            case "-s" | "-sN":
                pass
            case _:
                assert word.startswith(API), f"what is {word}?"
                url = word.removeprefix(API)
    return Call(method or ("GET" if body is None else "POST"), url, headers, body, language, status, answer, span)


def show(answer: httpx.Response, run: Run) -> str:
    """An answer as the page shows it."""
    if answer.headers.get("content-type", "").split(";")[0].endswith("json"):
        text = msgspec.json.format(answer.content, indent=2).decode() + "\n"
    else:
        text = answer.text if answer.text.endswith("\n") or not answer.text else answer.text + "\n"
    return text.replace(run.hook, HOOK).replace(run.url, API)


def settle(text: str) -> str:
    """The same for any two runs: ids by the order in which they come."""
    names: dict[str, str] = {}
    text = ID.sub(lambda found: names.setdefault(found.group(), f"<id {len(names)}>"), text)
    for pattern, replacement in CHANGING.items():
        text = pattern.sub(replacement, text)
    return text
