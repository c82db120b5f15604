"""Time as a test says it is."""


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now
