"""A Triton in virtual time, for tests of the rule that decides what it holds."""
