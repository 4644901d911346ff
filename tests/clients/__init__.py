"""`make clients`: the real programs of agents, each in a home of its own, with a scripted model on loopback."""
