"""Loses answers of PostgreSQL, one for each named statement of the services, and makes every statement run."""
