"""What stores keep when a disk fails: power failures, failed calls, full disks, damaged files."""
