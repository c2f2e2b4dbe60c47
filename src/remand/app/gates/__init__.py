"""The use cases of gates: measuring done claims, judging them, and letting sessions stop."""
