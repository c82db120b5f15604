"""Modules become one, with the names that each of them imports and exports."""

from pathlib import Path

import pytest

from console.join import JoinError, join_modules


def join(folder: Path, **modules: str) -> str:
    for name, text in modules.items():
        (folder / f"{name}.js").write_text(text)
    library = folder / "library.js"
    library.write_text("const a = 1, b = 2;export{a as html,b};\n")
    return join_modules(folder, "main.js", library)


def test_module_comes_after_what_it_imports(tmp_path: Path) -> None:
    main = 'import { shout as say } from "./words.js";\nimport { html } from "./library.js";\nhtml(say("a"));\n'
    joined = join(tmp_path, main=main, words="export function shout(word) {\n  return word + '!';\n}\n")
    assert "return { html: a, b: b };" in joined
    assert 'const { html } = modules["library.js"];' in joined
    assert joined.index('modules["words.js"] = { shout };') < joined.index(
        'const { shout: say } = modules["words.js"];'
    )


def test_module_that_two_import_is_there_once(tmp_path: Path) -> None:
    main = 'import { a } from "./one.js";\nimport { b } from "./two.js";\n'
    one, two = ('import { LIMIT } from "./limit.js";\n' + f"export const {name} = LIMIT;\n" for name in "ab")
    joined = join(tmp_path, main=main, one=one, two=two, limit="export const LIMIT = 3;\n")
    assert joined.count("const LIMIT = 3;") == 1


def test_two_modules_may_have_the_same_names(tmp_path: Path) -> None:
    main = 'import { a } from "./one.js";\nconst SIZE = 1;\n'
    joined = join(tmp_path, main=main, one="const SIZE = 2;\nexport const a = SIZE;\n")
    assert joined.count("{\n") >= joined.count("const SIZE") == 2  # each in its block


@pytest.mark.parametrize(
    "text",
    [
        'import * as all from "./one.js";',
        'import "./one.js";',
        "export default 1;",
        "export { a };",
        'import a from "x";',
    ],
)
def test_other_forms_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(JoinError, match="expected"):
        join(tmp_path, main=f"{text}\n", one="export const a = 1;\n")


def test_circle_is_refused(tmp_path: Path) -> None:
    with pytest.raises(JoinError, match="imports itself"):
        join(
            tmp_path,
            main='import { a } from "./one.js";\n',
            one='import { b } from "./main.js";\nexport const a = 1;\n',
        )


def test_library_without_exports_is_refused(tmp_path: Path) -> None:
    (tmp_path / "main.js").write_text("")
    (tmp_path / "library.js").write_text("const a = 1;")
    with pytest.raises(JoinError, match="expected `export"):
        join_modules(tmp_path, "main.js", tmp_path / "library.js")
