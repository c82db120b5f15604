"""Joins ES modules into one, so that a page loads with few requests.

Each module becomes a block of its own, which puts what it exports into one object. A module may only import names from
other modules of the folder and from the library, and only export functions, classes and constants where it defines
them. The library exports all it has in its last statement. TypeScript's checker and the tests see the modules as they
are written.
"""

import re
from pathlib import Path

_IMPORT = re.compile(r'^import \{(?P<names>[^}]*)\} from "(?P<path>\.[^"]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?(?:function\*?|class|const) (\w+))", re.MULTILINE)
_EXPORTS_OF_LIBRARY = re.compile(r"export\s*\{(?P<names>[^}]*)\};?\s*$")
_LEFT = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)


class JoinError(Exception):
    """A module cannot be joined."""


def join_modules(folder: Path, entry: str, library: Path) -> str:
    """Return one module with `entry` and all that it imports, each before the modules that import it."""
    modules: dict[Path, str] = {}
    _collect(folder / entry, modules, library, ())
    blocks = [_make_block(path, text, folder, library) for path, text in modules.items()]
    return "\n".join(["const modules = {};", _wrap_library(library), *blocks])


def _wrap_library(path: Path) -> str:
    """Return the library as a function that is called once, because its variables have short names."""
    text = path.read_text()
    exports = _EXPORTS_OF_LIBRARY.search(text)
    if exports is None:
        raise JoinError(f"{path}: expected `export {{ names }};` at the end")
    pairs = [name.strip().partition(" as ") for name in exports["names"].split(",") if name.strip()]
    returned = ", ".join(f"{outside or inside}: {inside}" for inside, _, outside in pairs)
    return f'modules["{path.name}"] = (() => {{\n{text[: exports.start()]}\nreturn {{ {returned} }};\n}})();\n'


def _collect(path: Path, modules: dict[Path, str], library: Path, above: tuple[Path, ...]) -> None:
    if path in above:
        raise JoinError(f"{path} imports itself, by way of {' and '.join(each.name for each in above)}")
    if path in modules:
        return
    text = path.read_text()
    for match in _IMPORT.finditer(text):
        target = (path.parent / match["path"]).resolve()
        if target != library.resolve():
            _collect(target, modules, library, (*above, path))
    modules[path] = text


def _make_block(path: Path, text: str, folder: Path, library: Path) -> str:
    def bind(match: re.Match[str]) -> str:
        target = (path.parent / match["path"]).resolve()
        name = library.name if target == library.resolve() else target.relative_to(folder)
        return f'const {{{match["names"].replace(" as ", ": ")}}} = modules["{name}"];\n'

    exported = ", ".join(name for _, name in _EXPORT.findall(text))
    body = _EXPORT.sub(r"\1", _IMPORT.sub(bind, text))
    if wrong := _LEFT.search(body):
        raise JoinError(f'{path}: {wrong.group()}; expected `import {{ names }} from "./file.js"` or `export function`')
    return f'{{\n{body}modules["{path.relative_to(folder)}"] = {{ {exported} }};\n}}\n'
