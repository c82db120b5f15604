"""A plain Celery + FastAPI stack that does the same job, as a team would write it in a week."""
