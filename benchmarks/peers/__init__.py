"""Plain stacks that do the same jobs, as a team would write them in a week: of threads, and of coroutines."""
