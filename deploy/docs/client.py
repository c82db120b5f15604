"""The reference of the Python client, from its docstrings. It reads the source, and imports nothing of it."""

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import chain, pairwise

from deploy.local.settings import ROOT

PACKAGE = ROOT / "client" / "charonia"
# The modules and what of them is shown, in this order.
SHOWN = {
    "_sync/client.py": ["Charonia"],
    "_sync/jobs.py": ["Job"],
    "results.py": ["Outputs", "Result", "Part", "Done", "OutputFile"],
    "_sync/resources.py": ["Models", "Jobs", "DeadLetters"],
    "_sync/pipelines.py": ["Pipelines"],
    "_sync/files.py": ["Files"],
    "_sync/batches.py": ["Batches"],
    "_sync/feed.py": ["Events"],
    "_sync/webhooks.py": ["Webhooks", "Deliveries"],
    "_sync/keys.py": ["Keys"],
    "webhook_signatures.py": ["verify"],
    "references.py": ["FileId", "Url"],
    "requests.py": ["Options", "OutputTarget", "Retry", "Reuse", "Webhook"],
    "model_schemas.py": [
        "ModelInfo",
        "Residency",
        "TensorInfo",
        "VersionInfo",
        "RecentJobs",
        "Percentiles",
        "TritonTimes",
    ],
    "pipeline_schemas.py": ["PipelineData", "CheckedPipeline"],
    "schemas.py": [
        *(
            "Status",
            "Priority",
            "JobData",
            "RunStep",
            "Output",
            "Failure",
            "Metrics",
            "WaitingFor",
            "Input",
            "AttemptData",
        ),
        *("AttemptFailure", "FileData"),
        *("BatchData", "BatchAccepted", "RefusedItem", "BatchLine", "ItemProblem"),
        *("Replayed", "Skipped", "FieldProblem"),
    ],
    "inputs.py": ["EncodedItem"],
    "admin_schemas.py": [
        *("Scope", "KeyData", "WebhookData", "WebhookSecret", "WebhookHealth", "DeliveryWindow", "AttemptDuration"),
        *("DeliveryData", "DeliveryAttempt", "TestedDelivery", "Recovery", "Trace", "Span"),
        *("Stats", "QueueStats", "JobWindow", "HourStats", "MinuteStats", "UsageData", "AuditEntry"),
    ],
    "events.py": [
        *("Event", "JobEvent", "ProgressEvent", "JobProgress", "StepEvent", "StepProgress", "BatchEvent"),
        *("DeliveryEvent", "WebhookEvent", "WebhookNote", "UnknownEvent"),
    ],
}
CONSTRUCTED = ("Charonia",)  # by users; the others are what its methods return
SECTIONS = frozenset(chain.from_iterable(SHOWN.values()))
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
        text = " ".join((ast.get_docstring(each) or "").split("\n\n", maxsplit=1)[0].split())
        fields = ", ".join(f"`{field}`" for field in list_fields(each))
        lines.append(f"{'  ' * depths[each.name]}- `{each.name}`: {text}{f' Fields: {fields}.' if fields else ''}")
    return "\n".join(lines)


def read_module(name: str) -> list[ast.stmt]:
    return ast.parse((PACKAGE / name).read_text()).body


@cache
def find_values(name: str) -> Mapping[str, ast.expr]:
    """Return the constants and the types without a section that a module defines, or imports from another one."""
    values: dict[str, ast.expr] = {}
    for each in read_module(name):
        match each:
            case ast.Assign(targets=[ast.Name(id=found)], value=value) if found not in SECTIONS:
                values[found] = value
            case ast.ImportFrom(module=str(path)) if path.startswith(f"{PACKAGE.name}."):
                theirs = find_values(path.partition(".")[2].replace(".", "/") + ".py")
                values |= {alias.name: theirs[alias.name] for alias in each.names if alias.name in theirs}
    return values


class Inliner(ast.NodeTransformer):
    """Puts values in place of names, which a reader of the page cannot look up."""

    def __init__(self, values: Mapping[str, ast.expr]) -> None:
        self._values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._values.get(node.id, node) if isinstance(node.ctx, ast.Load) else node


def write_module(name: str, shown: list[str]) -> Iterator[str]:
    inliner = Inliner(find_values(name))
    module: list[ast.stmt] = [inliner.visit(each) for each in read_module(name)]
    found = {each.name: each for each in module if isinstance(each, ast.ClassDef | Function)}
    for each in shown:
        yield f"## {each}"
        match found.get(each):
            case ast.ClassDef() as kind:
                yield from write_class(kind, found)
            case None:
                yield from write_alias(each, module)
            case function:
                yield from write_function(function)


def write_alias(name: str, module: list[ast.stmt]) -> Iterator[str]:
    """Yield the text below an alias of a type, and the type."""
    for found, below in pairwise(module):
        match found, below:
            case (
                ast.Assign(targets=[ast.Name(id=each)], value=value)
                | ast.AnnAssign(target=ast.Name(id=each), value=value),
                ast.Expr(value=ast.Constant(value=str(text))),
            ) if each == name and value is not None:
                yield text.strip()
                yield f"`{ast.unparse(value)}`"


def write_class(found: ast.ClassDef, module: Mapping[str, ast.stmt]) -> Iterator[str]:
    """Yield the docstring, the fields and the methods. Those of a base that has a section are there."""
    yield ast.get_docstring(found) or ""
    fields = list_fields(found)
    for base in (module.get(ast.unparse(each)) for each in found.bases):
        if isinstance(base, ast.ClassDef) and base.name in SECTIONS:
            yield f"Also has what `{base.name}` has."
        elif isinstance(base, ast.ClassDef):
            fields = [*list_fields(base), *fields]
    if fields:
        yield "\n".join(["```python", *fields, "```"])
    for each in found.body:
        if isinstance(each, Function) and is_shown(each, found.name):
            yield from write_function(each, found.name)


def list_fields(found: ast.ClassDef) -> list[str]:
    """Return the fields of a class, and the attributes that its constructor sets and whose types are in the source."""
    fields = [show_field(each.target, each.annotation) for each in found.body if isinstance(each, ast.AnnAssign)]
    for constructor in found.body:
        if isinstance(constructor, Function) and constructor.name == "__init__":
            fields += list_attributes(constructor)
    return [each for each in fields if not each.startswith("_")]


def list_attributes(constructor: Function) -> Iterator[str]:
    """Yield the attributes that are annotated, made of a class, or a parameter as it is."""
    arguments = (*constructor.args.posonlyargs, *constructor.args.args, *constructor.args.kwonlyargs)
    types = {each.arg: each.annotation for each in arguments}
    for each in constructor.body:
        match each:
            case ast.AnnAssign(target=ast.Attribute() as target, annotation=kind):
                yield show_field(target, kind)
            case ast.Assign(targets=[ast.Attribute() as target], value=ast.Call(func=ast.Name() as kind)):
                yield show_field(target, kind)
            case ast.Assign(targets=[ast.Attribute() as target], value=ast.Name(id=given)) if given in types:
                yield show_field(target, types[given])


def show_field(target: ast.expr, kind: ast.expr | None) -> str:
    return f"{ast.unparse(target).removeprefix('self.')}: {ast.unparse(kind) if kind else 'Any'}"


def is_shown(found: Function, owner: str) -> bool:
    if found.name == "__init__":
        return owner in CONSTRUCTED
    return not found.name.startswith("_")


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
