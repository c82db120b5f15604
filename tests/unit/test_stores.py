"""SQL is reached only through the stores."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SERVICES = ["gateway", "dispatcher", "notifier"]


def uses_sql(module: Path) -> bool:
    """Return whether a module loads named queries, or refers to those of another module."""
    nodes = list(ast.walk(ast.parse(module.read_text())))
    imported = {alias.name for node in nodes if isinstance(node, ast.Import | ast.ImportFrom) for alias in node.names}
    loads = any(isinstance(node, ast.ImportFrom) and node.module == "common.postgres" for node in nodes)
    reads = any(isinstance(node, ast.Attribute) and node.attr == "QUERIES" for node in nodes)
    return (loads and "sql" in imported) or "common.postgres.sql" in imported or "QUERIES" in imported or reads


@pytest.mark.parametrize("service", SERVICES)
def test_only_stores_use_sql(service: str) -> None:
    modules = sorted((ROOT / "services" / service).rglob("*.py"))
    users = [module for module in modules if uses_sql(module)]
    assert users
    stores = {module for module in users if module.stem.endswith("store") or module.parent.name == "store"}
    assert [str(module) for module in users if module not in stores] == []
