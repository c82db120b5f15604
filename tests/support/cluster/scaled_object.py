"""The ScaledObjects of the chart, as Helm renders them."""

from collections.abc import Sequence

from tests.support.cluster.helm import Object, parse, render_text

NAMESPACE = "inference"  # of the release


def render_scaled_objects(*pools: Object) -> list[Object]:
    """Return the ScaledObjects of these pools, in their order."""
    objects = parse(render_text("everything", {"pools": list(pools)}))
    found = {each["metadata"]["name"]: each for each in objects if each["kind"] == "ScaledObject"}
    return [found[f"charonia-pool-{pool['name']}"] for pool in pools]


def make_pool(name: str, models: Sequence[str], **autoscaling: object) -> Object:
    """Return the values of a pool that scales."""
    return {"name": name, "models": list(models), "autoscaling": {"enabled": True, "slots": 4, **autoscaling}}
