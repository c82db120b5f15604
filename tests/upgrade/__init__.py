"""An upgrade from the last release under load, one service after the other."""
