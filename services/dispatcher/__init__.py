"""Message → inference → result → event."""
