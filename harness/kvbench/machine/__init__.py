"""This computer: its description, folders, file systems and noise."""
