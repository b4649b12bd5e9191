"""What people read of a run: the table in the terminal, and why a cell is not green."""
