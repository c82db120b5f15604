"""The storm on a cluster: single nodes of RabbitMQ and PostgreSQL are killed, frozen and partitioned, too."""
