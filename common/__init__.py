"""What two or more services share; imports no service."""
