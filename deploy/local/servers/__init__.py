"""The servers of the stack: PostgreSQL, RabbitMQ and Triton."""
