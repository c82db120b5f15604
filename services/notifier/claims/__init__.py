"""Claims on due deliveries, and how many each tenant may have."""
