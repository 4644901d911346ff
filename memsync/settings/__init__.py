"""Settings from config files and the environment, and which of them a file that came with notes may set."""
