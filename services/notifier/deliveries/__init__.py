"""Claims due deliveries and sends them."""
