"""Ends deliveries that waited a whole schedule behind an open circuit."""
