"""Settings: what config files and the environment say, and what a file that came with the notes may decide."""
