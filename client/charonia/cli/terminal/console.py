"""The console through which everything for people goes. It shows control characters instead of sending them."""

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Span, Text

from charonia.cli.terminal.control_characters import HIDDEN, show_controls, show_line


class SafeConsole(Console):
    """Only rich itself sends control sequences. A text that nobody has made safe before is made safe here."""

    def __init__(self, *, stderr: bool = False) -> None:
        # What is printed comes from elsewhere, so it is no markup: that could be a link.
        super().__init__(highlight=False, markup=False, emoji=False, stderr=stderr)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render an object, and what is in it."""
        if isinstance(renderable, Text):
            renderable = escape(renderable)  # before it is wrapped
        for each in super().render(renderable, options):
            if each.control is None and HIDDEN.search(each.text):
                each = Segment(show_controls(each.text), each.style)
            yield each


def show_text(text: str, style: str = "") -> Text:
    """Return a text of several lines. `Text` alone would drop some control characters."""
    return Text(show_controls(text), style)


def show_text_line(text: str, style: str = "") -> Text:
    """Return a text as one line."""
    return Text(show_line(text), style)


def escape(text: Text) -> Text:
    """Return a text with its control characters shown, in the same styles."""
    places = [each.span() for each in HIDDEN.finditer(text.plain)]
    if not places:
        return text
    pieces = text.divide([place for span in places for place in span])
    for each in pieces:
        if (shown := show_controls(each.plain)) != each.plain:  # one character, so its styles are all of it
            each.plain, each.spans = shown, [Span(0, len(shown), span.style) for span in each.spans]
    return text.blank_copy().join(pieces)
