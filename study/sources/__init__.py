"""What others published: of each source its claims, its re-run, and the audit of its figures."""
