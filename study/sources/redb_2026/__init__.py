"""redb's benchmark."""
