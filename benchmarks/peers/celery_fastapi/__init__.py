"""The peer of threads: Celery and FastAPI."""
