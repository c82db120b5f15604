"""Jobs that ask what another job has asked: they take its result, or wait for it."""
