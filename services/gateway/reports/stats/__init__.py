"""What a tenant's jobs do now, and did in the last hour."""
