"""Evaluation: ask a memory questions with known answers, and measure its hits."""
