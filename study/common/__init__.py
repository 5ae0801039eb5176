"""What all notebooks share: reading results, statistics of fields, figures, text formats and
publishing."""
