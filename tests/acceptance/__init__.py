"""The promises, each proved on real processes, driven as a client, a receiver and an operator would."""
