"""What happens to jobs, as it happens: history, SSE, WebSocket, waiting, and the feed of all events."""
