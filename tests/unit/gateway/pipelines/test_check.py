"""The faults of a pipeline, each with its pointer, and what a pipeline declares."""

from typing import Any

import msgspec
import pytest

from common.pipelines.definition import PipelineDefinition
from common.tensors import Datatype, Signature
from services.gateway.http.problems import MAX_ERRORS
from services.gateway.models.store import ModelVersion
from services.gateway.pipelines.check import CheckedPipeline, check_pipeline

TEXTS = Signature("text", Datatype.BYTES, [-1])
TEXT = Signature("text", Datatype.BYTES, [1])
SCORE = Signature("score", Datatype.FP32, [-1, 2])


def model(name: str, inputs: list[Signature], outputs: list[Signature], batch: int = 0, **fields: Any) -> ModelVersion:
    found = ModelVersion(name, "1", True, False, batch, inputs, outputs)
    return msgspec.structs.replace(found, **fields)


MODELS = [
    model("ocr", [Signature("image", Datatype.BYTES, [1])], [TEXTS, Signature("boxes", Datatype.INT32, [-1, 4])]),
    model(
        "tokens",
        [TEXT, Signature("lang", Datatype.BYTES, [1], optional=True)],
        [Signature("ids", Datatype.INT64, [-1, 8])],
    ),
    model("judge", [Signature("ids", Datatype.INT64, [-1, 8])], [SCORE], batch=4),
    model("judge-small", [Signature("ids", Datatype.INT64, [-1, -1])], [SCORE]),
    model("judge-wide", [Signature("ids", Datatype.INT64, [-1, 8])], [Signature("score", Datatype.FP32, [-1, 3])]),
    model(
        "judge-two", [Signature("ids", Datatype.INT64, [-1, 8]), TEXT], [Signature("score", Datatype.FP32, [-1, -1])]
    ),
    model("judge-float", [Signature("ids", Datatype.FP32, [-1, 8])], [SCORE]),
    model("pair", [Signature("a", Datatype.INT64, [-1, 8]), Signature("b", Datatype.INT64, [-1, 8])], [], batch=4),
    model("whisper", [Signature("audio", Datatype.BYTES, [1], reference=True)], [TEXTS]),
    model("flat", [TEXT], [Signature("count", Datatype.INT32, [])]),
    model("llm", [TEXT], [TEXT], decoupled=True),
    model("broken", [], [], ready=False, declared=False, reason="Triton could not load it"),
]
CATALOGUE = {each.name: [each] for each in MODELS}
READ = {"model": "ocr", "inputs": {"image": "$inputs.image"}}
WORDS = {"model": "tokens", "inputs": {"text": "$read.text"}, "for_each": "text"}
CHECK = {"model": "judge", "inputs": {"ids": "$words.ids"}, "fallback_model": "judge-small"}
PIPELINE: dict[str, Any] = {
    "inputs": {"image": {"datatype": "BYTES", "shape": [1]}},
    "steps": {"read": READ, "words": WORDS, "check": CHECK},
    "outputs": {"text": "$read.text", "verdict": "$check.score"},
}


def check(definition: dict[str, Any], **options: Any) -> CheckedPipeline:
    return check_pipeline(msgspec.convert(definition, PipelineDefinition), CATALOGUE, **options)


def find_faults(definition: dict[str, Any], **options: Any) -> list[tuple[str, str]]:
    return [(error.pointer, error.detail) for error in check(definition, **options).errors]


def with_inputs(**inputs: Any) -> dict[str, Any]:
    return PIPELINE | {"inputs": PIPELINE["inputs"] | inputs}


def with_steps(**steps: Any) -> dict[str, Any]:
    return PIPELINE | {"steps": PIPELINE["steps"] | steps}


def test_a_pipeline_declares_what_its_steps_make() -> None:
    checked = check(PIPELINE)
    assert checked.errors == []
    assert checked.inputs == [Signature("image", Datatype.BYTES, [1])]
    assert checked.outputs == [TEXTS, Signature("verdict", Datatype.FP32, [-1, 2])]


def test_outputs_of_for_each_and_of_a_fallback_have_any_size_where_it_may_differ() -> None:
    one = [model("one", [TEXT], [Signature("y", Datatype.FP32, [1, 2, 3])])]
    other = [model("other", [TEXT], [Signature("y", Datatype.FP32, [1, -1, 3])])]
    step = {"model": "one", "inputs": {"text": "$inputs.text"}, "for_each": "text", "fallback_model": "other"}
    definition = {
        "inputs": {"text": {"datatype": "BYTES", "shape": [5]}},
        "steps": {"a": step},
        "outputs": {"y": "$a.y"},
    }
    checked = check_pipeline(msgspec.convert(definition, PipelineDefinition), {"one": one, "other": other})
    made = [Signature("y", Datatype.FP32, [-1, -1, 3])]
    assert checked == ([Signature("text", Datatype.BYTES, [5])], made, {"a": made}, [])


def test_an_input_that_a_model_reads_itself_is_a_file() -> None:
    definition = with_inputs(audio={"datatype": "BYTES", "shape": [1]})
    definition["steps"] = definition["steps"] | {"hear": {"model": "whisper", "inputs": {"audio": "$inputs.audio"}}}
    assert check(definition).errors == []
    assert [each.reference for each in check(definition).inputs] == [False, True]


@pytest.mark.parametrize(
    ("step", "pointer", "text"),
    [
        (READ | {"model": "ocrr"}, "/model", "model 'ocrr' not found; did you mean 'ocr'? known models: 'ocr', "),
        (READ | {"version": "3"}, "/version", "model 'ocr' has no version '3'; known versions: '1'"),
        (READ | {"model": "broken"}, "/model", "model 'broken' does not run. Triton could not load it"),
        (READ | {"fallback_model": "ocrr"}, "/fallback_model", "model 'ocrr' not found; did you mean 'ocr'?"),
        (READ | {"model": "llm"}, "/model", "model 'llm' is decoupled; a step needs a model that sends one response"),
        (READ | {"inputs": {"image": "image"}}, "/inputs/image", "invalid reference 'image'; expected `$inputs.NAME`"),
        (READ | {"inputs": {"image": "$inputs.imag"}}, "/inputs/image", "unknown input `imag`; did you mean `image`?"),
        (READ | {"inputs": {"image": "$word.ids"}}, "/inputs/image", "unknown step `word`; did you mean `words`?"),
        (READ | {"inputs": {"image": "$words.y"}}, "/inputs/image", "unknown output `y`; known outputs: ids"),
        (READ | {"inputs": {"image": "$step.text"}}, "/inputs/image", "step 'step' refers to itself"),
        (READ | {"inputs": {}}, "/inputs", "input 'image' (BYTES [1]) of model 'ocr' is missing"),
        (
            READ | {"inputs": READ["inputs"] | {"a/b": "$inputs.image"}},  # type: ignore[operator]
            "/inputs/a~1b",
            "model 'ocr' has no input 'a/b'; it has 'image' (BYTES [1])",
        ),
        (
            READ | {"inputs": {"image": "$read.boxes"}},
            "/inputs/image",
            "$read.boxes is INT32; model 'ocr' expects BYTES",
        ),
        (
            CHECK | {"inputs": {"ids": "$inputs.row"}},
            "/inputs/ids",
            "$inputs.row has shape [8]; model 'judge' expects [-1, 8] (-1 is any size)",
        ),
        (
            CHECK | {"inputs": {"ids": "$inputs.rows9"}},
            "/inputs/ids",
            "$inputs.rows9 has shape [5, 9]; model 'judge' expects [-1, 8] (-1 is any size)",
        ),
        (CHECK | {"inputs": {"ids": "$inputs.rows"}}, "/inputs", "the batch has 5 items; the model accepts 1 to 4"),
        (
            {"model": "pair", "inputs": {"a": "$words.ids", "b": "$inputs.three"}, "for_each": "a"},
            "/inputs",
            "the batch, the first dimension, differs between inputs: [1, 3]",
        ),
        (
            READ | {"inputs": {"image": "$inputs.maybe"}},
            "/inputs/image",
            "$inputs.maybe is optional; model 'ocr' always needs it, so declare it without `optional`",
        ),
        (
            {"model": "whisper", "inputs": {"audio": "$read.text"}},
            "/inputs/audio",
            "model 'whisper' reads a file itself here; only an input of the pipeline can be a file, not $read.text",
        ),
        (
            READ | {"inputs": {"image": "$inputs.audio"}},
            "/inputs/image",
            "$inputs.audio is a file that the model of another step reads itself; give model 'ocr' an input of its own",
        ),
        (WORDS | {"for_each": "tex"}, "/for_each", "unknown input `tex`; did you mean `text`?"),
        (
            WORDS | {"inputs": {"text": "$inputs.scalar"}},
            "/for_each",
            "$inputs.scalar has shape [], and so no elements; for_each needs at least one dimension",
        ),
        (
            WORDS | {"inputs": {"text": "$inputs.maybe"}},
            "/for_each",
            "$inputs.maybe is optional; for_each always needs",
        ),
        (
            {"model": "whisper", "inputs": {"audio": "$inputs.audio"}, "for_each": "audio"},
            "/for_each",
            "$inputs.audio is a file that the model reads itself, and so has no elements",
        ),
        (
            WORDS | {"inputs": {"text": "$read.boxes"}},
            "/inputs/text",
            "an element of $read.boxes is INT32; model 'tokens' expects BYTES",
        ),
        (
            WORDS | {"inputs": {"text": "$inputs.table"}},
            "/inputs/text",
            "an element of $inputs.table has shape [1, 2]; model 'tokens' expects [1]",
        ),
        (
            CHECK | {"fallback_model": "judge-float"},
            "/fallback_model",
            "'judge-float' cannot replace 'judge': $words.ids is INT64; model 'judge-float' expects FP32",
        ),
        (
            CHECK | {"fallback_model": "judge-two"},
            "/fallback_model",
            "'judge-two' cannot replace 'judge': input 'text' ",
        ),
        (READ | {"retry": {"initial_delay": 2, "max_delay": 1}}, "/retry/max_delay", "must be at least initial_delay"),
        (
            READ | {"parameters": {"triton_a": 1}},
            "/parameters/triton_a",
            "names that begin with 'triton_' are reserved",
        ),
    ],
)
def test_a_fault_of_a_step_has_a_pointer_and_a_text(step: dict[str, Any], pointer: str, text: str) -> None:
    definition = with_inputs(
        row={"datatype": "INT64", "shape": [8]},
        rows={"datatype": "INT64", "shape": [5, 8]},
        rows9={"datatype": "INT64", "shape": [5, 9]},
        three={"datatype": "INT64", "shape": [3, 8]},
        table={"datatype": "BYTES", "shape": [-1, 2]},
        scalar={"datatype": "BYTES", "shape": []},
        maybe={"datatype": "BYTES", "shape": [1], "optional": True},
        audio={"datatype": "BYTES", "shape": [1]},
    )
    hear = {"model": "whisper", "inputs": {"audio": "$inputs.audio"}}
    definition["steps"] = PIPELINE["steps"] | {"hear": hear, "step": step}
    ((found, detail),) = [fault for fault in find_faults(definition) if fault[0].startswith("/steps/")]
    assert (found, detail[: len(text)]) == (f"/steps/step{pointer}", text)


def test_a_fallback_model_needs_only_the_outputs_that_others_use() -> None:
    wide = with_steps(check=CHECK | {"fallback_model": "judge-wide"})
    assert find_faults(wide) == [
        (
            "/steps/check/fallback_model",
            "'judge-wide' cannot replace 'judge': its output 'score' is FP32 [-1, 3]; FP32 [-1, 2] is expected",
        )
    ]
    assert find_faults(wide | {"outputs": {"text": "$read.text"}}) == []


def test_a_used_output_without_an_axis_cannot_be_joined() -> None:
    definition = with_steps(count={"model": "flat", "inputs": {"text": "$read.text"}, "for_each": "text"})
    assert find_faults(definition) == []
    assert find_faults(definition | {"outputs": {"count": "$count.count"}}) == [
        ("/steps/count/for_each", "output 'count' has shape [], so those of the elements cannot be joined")
    ]


def test_a_cycle_names_its_steps_in_order() -> None:
    read, words = WORDS | {"inputs": {"text": "$b.ids"}}, WORDS | {"inputs": {"text": "$a.ids", "lang": "$read.text"}}
    faults = find_faults(with_steps(a=read, b=words))
    assert [fault for fault in faults if "cycle" in fault[1]] == [
        (
            "/steps/a/inputs/text",
            "the steps refer to each other in a cycle, so none of them can start: a → b → a; remove one reference",
        )
    ]


@pytest.mark.parametrize(
    ("outputs", "text"),
    [
        ({"a/b": "$inputs.image"}, "$inputs.image is an input of the pipeline; an output must be that of a step"),
        ({"a/b": "$red.text"}, "unknown step `red`; did you mean `read`?"),
        ({"a/b": "$read.txt"}, "unknown output `txt`; did you mean `text`?"),
        ({"a/b": "text"}, "invalid reference 'text'"),
    ],
)
def test_an_output_that_no_step_makes_is_a_fault(outputs: dict[str, str], text: str) -> None:
    ((pointer, detail),) = find_faults(PIPELINE | {"outputs": outputs})
    assert (pointer, detail[: len(text)]) == ("/outputs/a~1b", text)


def test_an_input_that_no_step_uses_is_a_fault() -> None:
    assert find_faults(with_inputs(page={"datatype": "INT32", "shape": [1]})) == [
        ("/inputs/page", "no step uses this input; remove it, or refer to it as `$inputs.page`")
    ]


def test_an_unknown_model_hides_no_other_fault_and_makes_none() -> None:
    definition = with_steps(read=READ | {"model": "nothing"}, check=CHECK | {"model": "nothing"})
    assert [pointer for pointer, _ in find_faults(definition)] == ["/steps/read/model", "/steps/check/model"]


def test_a_key_may_use_only_the_models_that_it_may_run() -> None:
    faults = find_faults(with_steps(read=READ | {"fallback_model": "secret"}), allowed=["ocr", "judge*"])
    assert [pointer for pointer, _ in faults] == ["/steps/read/fallback_model", "/steps/words/model"]
    assert faults[1][1] == "this call needs a key for the model 'tokens'; the key has 'ocr', 'judge*'"


def test_only_so_many_faults_are_reported() -> None:
    steps = {f"s{index}": READ | {"model": f"m{index}", "fallback_model": "no"} for index in range(30)}
    assert len(find_faults(PIPELINE | {"steps": steps})) == MAX_ERRORS
