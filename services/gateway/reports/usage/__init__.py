"""What a tenant used, by day and model."""
