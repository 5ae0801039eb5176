"""Tables and folders of results."""
