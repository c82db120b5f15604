"""Shows which dispatchers live, by session locks in PostgreSQL."""
