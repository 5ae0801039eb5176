"""The computer that measures: its description, folders, file systems and noise."""
