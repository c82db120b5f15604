"""Which models speak OpenAI's API, and how."""
