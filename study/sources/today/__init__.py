"""The claims of today's benchmarks (data/published/claims-2026.csv)."""
