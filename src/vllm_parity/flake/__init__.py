"""How often a cell comes out otherwise: a rate with its interval, in place of a rerun."""
