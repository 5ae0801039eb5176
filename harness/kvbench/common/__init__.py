"""Messages, whole files and processes, which all rooms use and no result depends on."""
