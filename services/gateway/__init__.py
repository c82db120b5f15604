"""HTTP request → job → message."""
