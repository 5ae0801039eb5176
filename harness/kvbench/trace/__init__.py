"""What a program does to its records: recorded, read from other formats, and put as a question."""
