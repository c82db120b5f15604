"""The programs of the JavaScript guide: typed, compiled and run as a reader would."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from deploy.local.npm_packages import DIRECTORY, MANIFESTS
from deploy.local.processes.ports import is_free
from deploy.local.processes.process import Process
from deploy.local.services import DEVELOPMENT_KEY
from deploy.local.settings import ROOT
from deploy.local.stack import Stack
from tests.support.guides import check, make_environment, read_blocks, use

GUIDE = ROOT / "docs" / "how-to" / "use-from-javascript.md"
SERVE = MANIFESTS / "serve.mjs"  # serves a fetch-style handler
NAME = re.compile(r"// (\S+)\n")
PACKAGES = DIRECTORY / "node_modules"
PARSER = PACKAGES / "eventsource-parser" / "dist"
BLANK = '<!DOCTYPE html><link rel="icon" href="data:,"><body>'
SCRIPTS = """
<script type="importmap">{"imports": {"eventsource-parser/stream": "/parser/stream.js"}}</script>
<script type="module" src="/page.js"></script>"""
SECONDS = 120.0
READY_SECONDS = 30.0


@dataclass(frozen=True)
class Programs:
    """A reader's folder, in which the programs of the guide are compiled."""

    stack: Stack
    folder: Path

    def run(self, name: str) -> str:
        """Return what a program prints. Fail if it fails or prints errors."""
        return check(self.call("node", f"dist/{name}.js"))

    def call(self, *argv: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        """Run a program to its end."""
        environment = self._environment | variables
        return subprocess.run(
            argv, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
        )

    @contextmanager
    def serve(self, argv: Sequence[str], port: int, **variables: str) -> Iterator[list[str]]:
        """Run a program that listens on a port. Gives the lines that it prints."""
        lines: list[str] = []
        environment = self._environment | {"PORT": str(port)} | variables
        process = Process(
            argv[-1],
            argv,
            env=environment,
            cwd=self.folder,
            log=self.folder / f"{port}.log",
            on_line=lambda _, line: lines.append(line),
        )
        process.start()
        try:
            process.wait_ready(lambda: not is_free(port), READY_SECONDS)
            yield lines
        finally:
            process.stop()

    def publish(self, gateway: str) -> None:
        """Put the page of the guide, which calls this gateway, where `app.js` serves it. A bundler is not needed."""
        public = self.folder / "public"
        shutil.copytree(PARSER, public / "parser", dirs_exist_ok=True)
        shutil.copy(self.folder / "dist" / "charonia.js", public)
        (public / "blank.html").write_text(BLANK)
        (public / "index.html").write_text(BLANK + SCRIPTS)
        (public / "page.js").write_text((self.folder / "dist" / "page.js").read_text().replace(self.stack.url, gateway))

    @property
    def _environment(self) -> dict[str, str]:
        found = make_environment(self.stack, self.folder, DEVELOPMENT_KEY)
        return found | {"PATH": f"{PACKAGES / '.bin'}{os.pathsep}{found['PATH']}"}


def compile_programs(stack: Stack, folder: Path) -> Programs:
    """Write the programs of the guide into a folder, make their types, and check and compile them."""
    (settings,) = read_blocks(GUIDE, "json")
    (folder / "tsconfig.json").write_text(settings)
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "node_modules").symlink_to(PACKAGES)
    for program in read_blocks(GUIDE, "ts"):
        found = NAME.match(program)
        assert found, program
        (folder / found[1]).write_text(use(stack, program))
    programs = Programs(stack, folder)
    setup = read_blocks(GUIDE, "sh")[0]
    for command in (setup[setup.index("npx openapi-typescript") :], "npx tsc"):
        done = programs.call("sh", "-ec", use(stack, command.replace("npx ", "")))
        assert done.returncode == 0, done.stdout + done.stderr
    return programs
