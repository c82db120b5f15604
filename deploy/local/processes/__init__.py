"""Child processes: their start, output, ports, clock and end."""
