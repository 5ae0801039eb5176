"""Messages, whole files, processes: what every room uses and no result depends on."""
