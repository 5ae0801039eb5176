"""What the notebooks share: results, statistics of fields, figures, claims and verdicts."""
