"""HTTP to receivers: connections to checked addresses, limits on responses, names for errors."""
