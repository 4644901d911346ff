"""How well a memory answers: questions with known answers, asked of it, and what is measured of the hits."""
