"""A storm: minutes of load while everything is killed, frozen and restarted, then proof that no promise was broken."""
