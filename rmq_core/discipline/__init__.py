"""A folder for each discipline: how its messages are kept, held and given back."""
