"""Time as a test says it is, and how long it waits for what must happen."""

# Seconds. What takes longer hangs: a machine without free cores has stood still for five.
LATE = 20.0


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now
