"""How Charonia is run: without containers (local), with them (compose), and the models it is shown with."""
