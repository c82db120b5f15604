"""What people see and press: tables, prompts, keys, the state line and the screen of `top`."""
