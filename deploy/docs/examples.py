"""Examples of the API reference: commands that send a call, and JSON."""

import json
import shlex

from deploy.docs.openapi import Call

SERVER, KEY = "http://localhost:8080", "ch_dev"
IN_PATH = {
    "job_id": "job_01m7ysshxnfbevq05b7h55g94z",
    "batch_id": "batch_01m7ystfs0e0x8s13t679vdnpf",
    "webhook_id": "whk_01m7ystrn7eevsede7n1a4q217",
    "recovery_id": "rec_01m7ysv7pnetqtwvzp4kk6hgz5",
    "delivery_id": "dlv_01m7ystyjreeattn4s7m92kk5s",
    "file_id": "file_01m0p2tmt8fa7bvqpx6v5ebrxj",
    "openai_file_id": "file_output_01m7ystfs0e0x8s13t679vdnpf",
    "key_id": "key_01m0p2rz5zf3cs8fw8dnz7m5rv",
    "response_id": "resp_01m7ysshxnfbevq05b7h55g94z",
    "name": "echo",
    "model": "echo",
    "pipeline": "twice",
    "version": "1",
}
WIDTH = 100  # of JSON


def write_curl(call: Call) -> str:
    """Return a command that sends the first example of the body."""
    method, path, operation = call
    bodies = operation.get("requestBody", {}).get("content", {})
    is_file = next(iter(bodies), "") == "application/octet-stream"
    is_form = "multipart/form-data" in bodies
    examples = {} if is_file else bodies.get("application/json", {}).get("examples", {})
    words = ["curl", "-s", SERVER + path.format(**IN_PATH)]
    if method != ("POST" if examples or is_file or is_form else "GET"):
        words += ["-X", method]
    lines = [shlex.join(words)]
    if any("key" in each for each in operation["security"]):
        lines.append(f"-H 'Authorization: Bearer {KEY}'")
    if examples:
        body = json.dumps(next(iter(examples.values()))["value"], ensure_ascii=False)
        lines += ["-H 'Content-Type: application/json'", f"-d {shlex.quote(body)}"]
    if is_file:
        lines.append("--data-binary @FILE")
    if is_form:
        lines.append("-F purpose=batch -F file=@FILE")
    return " \\\n  ".join(lines)


def show_example(example: object) -> str:
    """Return JSON, or lines of it."""
    if not isinstance(example, str):
        return show_json(example)
    return "\n".join(show_json(json.loads(line)) for line in example.splitlines())


def show_json(value: object, indent: str = "") -> str:
    """Return JSON that breaks only what is too long for a line."""
    flat = json.dumps(value, ensure_ascii=False)
    if len(indent) + len(flat) <= WIDTH:
        return flat
    deeper = indent + "  "
    match value:
        case dict():
            parts = [f"{json.dumps(name)}: {show_json(each, deeper)}" for name, each in value.items()]
            return f"{{\n{join(parts, deeper)}\n{indent}}}"
        case list():
            return f"[\n{join([show_json(each, deeper) for each in value], deeper)}\n{indent}]"
        case _:
            return flat


def join(parts: list[str], indent: str) -> str:
    return ",\n".join(indent + part for part in parts)
