"""Takes the deliveries that come with an event."""
