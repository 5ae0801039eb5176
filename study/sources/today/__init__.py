"""What the benchmarks of today say (data/published/claims-2026.csv)."""
