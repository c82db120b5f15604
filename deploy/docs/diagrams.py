"""Renders the Mermaid diagrams of the docs as pictures, so that pages need no script from elsewhere."""

import re
from typing import Any
from zlib import crc32

import mermaidx
from pymdownx.superfences import SuperFencesException

MAX_WIDTH = re.compile(r"max-width: ([\d.]+px);")
SAME = "my-svg"  # the id that every picture has, and that its styles and arrows refer to
STYLE = "width: 100%; background: white; padding: 1em; overflow-x: auto"  # white also where pages are dark
READABLE = "880px"  # a wider diagram is scaled down to this and scrolls, so that its text stays readable


def render(source: str, *_: object, **__: Any) -> str:
    """Return a diagram as SVG. Markdown's extension for fenced blocks calls this.

    Raises SuperFencesException for a diagram with a mistake: any other exception would show its source.
    """
    try:
        svg: str = mermaidx.render(source).svg()
    except Exception as error:
        raise SuperFencesException(f"{error}\n{source}") from error
    svg = svg.replace(SAME, f"diagram-{crc32(source.encode())}")
    svg = MAX_WIDTH.sub(rf"\g<0> min-width: min(\1, {READABLE});", svg, count=1)
    return f'<figure style="{STYLE}">{svg}</figure>'
