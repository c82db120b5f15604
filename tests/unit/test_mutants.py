"""The table of seeded bugs fits the code, so that `make mutants` can run it."""

import ast

import pytest

from tests.mutants.table import PAGE, ROOT, Mutant, read_mutants, render_page

MUTANTS = read_mutants()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.bug)
def test_each_bug_can_be_put_into_the_code(mutant: Mutant) -> None:
    source = (ROOT / mutant.path).read_text()
    assert mutant.apply(source) != source


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.bug)
def test_each_named_test_exists(mutant: Mutant) -> None:
    path, _, rest = mutant.test.partition("::")
    name = rest.partition("[")[0]
    tree = ast.parse((ROOT / path).read_text())
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_the_page_lists_them() -> None:
    assert PAGE.read_text() == render_page(MUTANTS)
