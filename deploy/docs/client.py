"""The reference of the Python client, from its docstrings. It reads the source, and imports nothing of it."""

import ast
from collections.abc import Iterator

from deploy.local.settings import ROOT

PACKAGE = ROOT / "client" / "charonia"
# The modules and what of them is shown, in this order.
SHOWN = {
    "_sync/client.py": ["Charonia"],
    "_sync/jobs.py": ["Job"],
    "results.py": ["Outputs", "Result", "Part", "Done", "OutputFile"],
    "_sync/resources.py": ["Models", "Jobs", "DeadLetters"],
    "_sync/files.py": ["Files"],
    "_sync/batches.py": ["Batches"],
    "_sync/feed.py": ["Events"],
    "_sync/webhooks.py": ["Webhooks", "Deliveries"],
    "_sync/keys.py": ["Keys"],
    "webhook_signatures.py": ["verify"],
    "events.py": ["JobEvent", "ProgressEvent", "BatchEvent", "DeliveryEvent", "WebhookEvent", "UnknownEvent"],
    "references.py": ["FileId", "Url"],
    "requests.py": ["Options", "OutputTarget", "Retry", "Webhook"],
}
INTERNAL = ("prepare", "recall", "forget", "read_messages")  # methods that only the library itself calls
CONSTRUCTED = ("Charonia",)  # by users; the others are what its methods return
WIDTH = 100

Function = ast.FunctionDef | ast.AsyncFunctionDef


def write_client() -> str:
    """Return a section for each class and function."""
    return "\n\n".join(block for name, shown in SHOWN.items() for block in write_module(name, shown))


def write_errors() -> str:
    """Return the tree of errors as a list."""
    classes = [each for each in read_module("errors.py") if isinstance(each, ast.ClassDef) and each.bases]
    depths: dict[str, int] = {}
    lines = []
    for each in classes:
        parent = ast.unparse(each.bases[0])
        depths[each.name] = depths.get(parent, -1) + 1
        text = (ast.get_docstring(each) or "").split("\n\n", maxsplit=1)[0]
        lines.append(f"{'  ' * depths[each.name]}- `{each.name}`: {text}")
    return "\n".join(lines)


def read_module(name: str) -> list[ast.stmt]:
    return ast.parse((PACKAGE / name).read_text()).body


def write_module(name: str, shown: list[str]) -> Iterator[str]:
    found = {each.name: each for each in read_module(name) if isinstance(each, ast.ClassDef | Function)}
    for each in (found[name] for name in shown):
        yield f"## {each.name}"
        if isinstance(each, ast.ClassDef):
            yield from write_class(each)
        else:
            yield from write_function(each)


def write_class(found: ast.ClassDef) -> Iterator[str]:
    yield ast.get_docstring(found) or ""
    fields = [f"`{ast.unparse(each)}`" for each in found.body if isinstance(each, ast.AnnAssign)]
    if fields:
        yield f"Fields: {', '.join(fields)}."
    for each in found.body:
        if isinstance(each, Function) and is_shown(each, found.name):
            yield from write_function(each, found.name)


def is_shown(found: Function, owner: str) -> bool:
    if found.name == "__init__":
        return owner in CONSTRUCTED
    is_public = not found.name.startswith("_") and found.name not in INTERNAL
    return (is_public or found.name == "__getitem__") and ast.get_docstring(found) is not None


def write_function(found: Function, owner: str = "") -> Iterator[str]:
    """Yield the signature, without `self`, and the docstring."""
    result = ast.unparse(found.returns).strip("'") if found.returns else ""
    if any(ast.unparse(each) == "property" for each in found.decorator_list):
        yield f"`{owner}.{found.name}: {result}`"
    else:
        yield f"```python\n{write_signature(found, owner, result)}\n```"
    if text := ast.get_docstring(found):
        yield text


def write_signature(found: Function, owner: str, result: str) -> str:
    """Return the call of a function; a long one has a line for each parameter."""
    parameters = [each for each in list_parameters(found.args) if each != "self"]
    if found.name == "__getitem__":
        return f"{owner}[{', '.join(parameters)}] -> {result}"
    name = owner if found.name == "__init__" else f"{owner}.{found.name}" if owner else found.name
    end = "" if found.name == "__init__" else f" -> {result}"
    line = f"{name}({', '.join(parameters)}){end}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{name}(", *(f"    {each}," for each in parameters), f"){end}"])


def list_parameters(arguments: ast.arguments) -> list[str]:
    """Return each parameter with its type and default."""
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(plain) - len(arguments.defaults)) + arguments.defaults
    found = [show(each, default) for each, default in zip(plain, defaults, strict=True)]
    if arguments.posonlyargs:
        found.insert(len(arguments.posonlyargs), "/")
    if arguments.kwonlyargs:
        found.append("*")
    found += [show(each, default) for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
    return found + ([f"**{show(arguments.kwarg, None)}"] if arguments.kwarg else [])


def show(argument: ast.arg, default: ast.expr | None) -> str:
    kind = f": {ast.unparse(argument.annotation)}" if argument.annotation else ""
    value = f" = {ast.unparse(default)}" if default else ""
    return f"{argument.arg}{kind}{value}"
