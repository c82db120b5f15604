"""The whole stack on one machine without containers: private servers on loopback, and the services."""
