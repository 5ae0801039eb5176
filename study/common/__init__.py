"""What all notebooks share: results, fields, figures, words and what is published."""
