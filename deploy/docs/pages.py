"""The pages with generated sections. They begin with `<!-- generated: NAME -->`."""

import re
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

from deploy.docs import api, chart, client, command_line, errors, job_states, logs, metrics, settings
from deploy.docs.markdown import SECTION
from deploy.local.settings import ROOT

FOLDER = ROOT / "docs" / "reference"
LIFECYCLE = ROOT / "docs" / "explanation" / "job-lifecycle.md"


write_api = cache(api.write_sections)

# Each takes the page as it is, for what people write in its tables.
SECTIONS: dict[str, Callable[[str], str]] = {
    "client": lambda _: client.write_client(),
    "client-errors": lambda _: client.write_errors(),
    "commands": lambda _: command_line.write_commands(),
    "metrics": lambda _: metrics.write_metrics(),
    "chart-values": lambda _: chart.write_values(),
    "stack": lambda _: settings.write_stack(),
    "job-states": lambda _: job_states.write_diagram(),
    "http-errors": errors.write_http_errors,
    "job-errors": errors.write_job_errors,
    "delivery-errors": errors.write_delivery_errors,
    **{name: partial(lambda name, _: write_api()[name], name) for name in api.PAGES},
    **{f"settings-{name}": partial(settings.write_settings, kind) for name, kind in settings.OF_SERVICES.items()},
    **{f"events-{name}": partial(logs.write_events, folder) for name, folder in logs.FOLDERS.items()},
}


def list_pages() -> list[Path]:
    return [*sorted(FOLDER.rglob("*.md")), LIFECYCLE, chart.README]


def renew(page: Path) -> str:
    """Return a page with its generated sections as they are to be now.

    Raises LookupError for a section that nothing generates, such as that of a resource which no longer exists.
    """
    text = page.read_text()

    def write(section: re.Match[str]) -> str:
        name, old = section.groups()
        if name not in SECTIONS:
            raise LookupError(f"{page.relative_to(ROOT)}: nothing generates {name!r}; remove the section or the page")
        return f"<!-- generated: {name} -->\n\n{SECTIONS[name](old).strip()}\n\n<!-- end -->"

    return SECTION.sub(write, text)
