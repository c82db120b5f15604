"""The console: a page that uses the public API, as any other client of it."""
