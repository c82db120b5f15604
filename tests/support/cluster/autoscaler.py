"""What KEDA and the HorizontalPodAutoscaler do with a ScaledObject, without a cluster.

KEDA turns a pool on and off: more than the activation threshold starts the first pod, and no more than that for the
cooldown ends the last one. The HorizontalPodAutoscaler sets the number of pods of a pool that is on. Without a value
neither of them changes anything.
"""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

TOLERANCE = 0.1  # the HorizontalPodAutoscaler ignores a smaller difference


class NoValue(Exception):
    """KEDA takes the answer of Prometheus for an error."""


@dataclass
class Autoscaler:
    """Decides how many pods there are. Times are in seconds."""

    specification: Mapping[str, Any]  # of the ScaledObject
    active_at: float = -math.inf
    _recommended: deque[tuple[float, int]] = field(default_factory=deque)  # with when

    @property
    def trigger(self) -> Mapping[str, str]:
        (trigger,) = self.specification["triggers"]
        assert (trigger["type"], trigger["metricType"]) == ("prometheus", "AverageValue")
        metadata: Mapping[str, str] = trigger["metadata"]
        return metadata

    def decide(self, answer: Sequence[Any], pods: int, now: float) -> int:
        """Return the number of pods for a vector of Prometheus and the present number."""
        try:
            value = self._read(answer)
        except NoValue:
            return pods
        lowest, highest = int(self.specification["minReplicaCount"]), int(self.specification["maxReplicaCount"])
        if value > float(self.trigger["activationThreshold"]):
            self.active_at = now
            if pods == 0:
                return max(1, lowest)
        elif pods > 0 and lowest == 0 and now - self.active_at > self.specification["cooldownPeriod"]:
            self._recommended.clear()
            return 0
        if pods == 0:
            return lowest
        return min(highest, max(1, lowest, self._stabilize(value, pods, now)))

    def _read(self, answer: Sequence[Any]) -> float:
        assert len(answer) <= 1, "KEDA wants one element"
        value = float(answer[0]["value"][1]) if answer else math.nan
        if math.isfinite(value):
            return value
        assert self.trigger["ignoreNullValues"] == "false", "KEDA would take it for 0"
        raise NoValue

    def _stabilize(self, value: float, pods: int, now: float) -> int:
        """Return the most that was recommended within the window, as scaling in wants it."""
        threshold = float(self.trigger["threshold"])
        near = abs(value / (threshold * pods) - 1) <= TOLERANCE
        self._recommended.append((now, pods if near else math.ceil(value / threshold)))
        advanced = self.specification["advanced"]["horizontalPodAutoscalerConfig"]
        window = advanced["behavior"]["scaleDown"]["stabilizationWindowSeconds"]
        while self._recommended[0][0] < now - window:
            self._recommended.popleft()
        newest = self._recommended[-1][1]
        return newest if newest >= pods else max(count for _, count in self._recommended)
