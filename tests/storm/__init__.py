"""The storm: minutes of load while processes are killed, frozen and restarted. Then a checker verifies all promises."""
