"""The graph of a pipeline's steps. Each function takes, for every step, the steps that it refers to."""

from collections.abc import Collection, Mapping

from common.pipelines.definition import StepDefinition
from common.pipelines.references import parse_reference


def find_needs(steps: Mapping[str, StepDefinition]) -> dict[str, list[str]]:
    """Return for every step the steps that it refers to, each once. Raises InvalidReference."""
    return {name: list_needs(step) for name, step in steps.items()}


def list_needs(step: StepDefinition) -> list[str]:
    """Return the steps that a step refers to, each once, in the order of its inputs. Raises InvalidReference."""
    needs = (parse_reference(text).step for text in step.inputs.values())
    return list(dict.fromkeys(need for need in needs if need is not None))


def find_divided_inputs(steps: Mapping[str, StepDefinition]) -> set[str]:
    """Return the inputs of the pipeline that steps divide. Raises InvalidReference."""
    divided = (parse_reference(step.inputs[step.for_each]) for step in steps.values() if step.for_each is not None)
    return {reference.name for reference in divided if reference.step is None}


def order_steps(needs: Mapping[str, Collection[str]]) -> list[str]:
    """Return the steps in an order in which each comes after those it refers to. The given order breaks ties.

    Steps of a cycle are left out, and so are those that refer to them.
    """
    ordered: dict[str, None] = {}
    while ready := next((each for each in needs if each not in ordered and ordered.keys() >= set(needs[each])), None):
        ordered[ready] = None
    return list(ordered)


def find_cycle(needs: Mapping[str, Collection[str]]) -> list[str]:
    """Return the steps of one cycle, in which each refers to the next, and the last to the first.

    It is empty if there is no cycle. Every step that is referred to must be in `needs`.
    """
    left = needs.keys() - set(order_steps(needs))
    path: list[str] = []
    step = next((each for each in needs if each in left), None)
    while step is not None and step not in path:
        path.append(step)
        step = next(each for each in needs[step] if each in left)
    return path[path.index(step) :] if step is not None else []
