"""The peer of coroutines: Taskiq and Litestar."""
