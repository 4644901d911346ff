"""Upkeep of a memory: what is due to retire, what nobody asks for, what folders there are. Pure."""
