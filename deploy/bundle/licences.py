"""Lists every part of the bundle with its version, its licence, and where the text of the licence is."""

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageMetadata, distributions
from pathlib import Path

from common import VERSION
from deploy.bundle.debian import LICENCE, Package
from deploy.bundle.wheels import SITE

HEADER = """\
Every part of Charonia's bundle, with its licence. Paths are in the folder of an installation.
Debian's packages are unchanged, except for the paths in which programs look for libraries. Their
sources are in Debian's archive, under the name and version in brackets.
"""
NAMED = re.compile(r"^License:\s*(\S.*)$", re.MULTILINE)
TEXTS = re.compile(r"\.dist-info/(licenses/.+|(LICEN[CS]E|COPYING|NOTICE)[^/]*)$", re.IGNORECASE)
PREFIX = "License :: "


@dataclass(frozen=True)
class Part:
    name: str
    version: str
    licence: str
    texts: tuple[str, ...]


def describe_project(pyproject: Path) -> Part:
    """Return Charonia itself, with the licence that its project declares."""
    return Part("Charonia", VERSION, tomllib.loads(pyproject.read_text())["project"]["license"], ("app/LICENSE",))


def describe_packages(tree: Path, packages: Iterable[Package]) -> list[Part]:
    """Return the Debian packages of which the tree has files."""
    parts = []
    for package in packages:
        path = LICENCE.format(package.name)
        names = sorted({name.strip() for name in NAMED.findall((tree / path).read_text(errors="replace"))})
        parts.append(Part(package.name, f"{package.version} ({package.source})", "; ".join(names), (path,)))
    return parts


def describe_distributions(tree: Path, environment: str) -> list[Part]:
    """Return the Python packages of an environment."""
    site = Path(environment) / SITE
    found = [_describe(each, site) for each in distributions(path=[str(tree / site)])]
    return sorted(found, key=lambda part: part.name.lower())


def write_list(file: Path, groups: dict[str, list[Part]]) -> None:
    """Write the list, with a heading for each group."""
    lines = [HEADER]
    for name, parts in groups.items():
        lines += [name, "=" * len(name), ""]
        for part in parts:
            lines += [
                f"{part.name} {part.version}",
                f"    {part.licence or 'see the text'}",
                *(f"    {text}" for text in part.texts),
                "",
            ]
    file.write_text("\n".join(lines))


def _describe(found: Distribution, site: Path) -> Part:
    metadata = found.metadata
    stated = _first_line(metadata, "License-Expression") or _first_line(metadata, "License")
    classified = [
        text.removeprefix(PREFIX).split(" :: ")[-1]
        for text in metadata.get_all("Classifier", [])
        if text.startswith(PREFIX)
    ]
    texts = sorted(str(path) for path in found.files or () if TEXTS.search(str(path)))
    if not texts:  # the metadata is all that the package says
        texts = [f"{next(str(path) for path in found.files or () if path.name == 'METADATA')}"]
    return Part(
        metadata["Name"], found.version, stated or "; ".join(classified), tuple(f"{site}/{text}" for text in texts)
    )


def _first_line(metadata: PackageMetadata, name: str) -> str:
    return "".join(metadata.get_all(name, [])).strip().split("\n")[0]
