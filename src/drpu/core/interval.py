"""How far a prior may be trusted."""
