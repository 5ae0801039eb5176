"""What stores keep after the crash of a process or a power failure."""
