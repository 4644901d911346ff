"""The curator: it proposes changes to long-term memory, and a person accepts them."""
