"""What an author wants to know at once of a unit or an exercise, each finding as a sentence."""
