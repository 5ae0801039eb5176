"""What other benchmarks printed, their experiments run again, and their claims judged."""
