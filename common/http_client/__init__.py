"""HTTP to servers that clients name: connections to checked addresses, limits on responses, names for errors."""
