"""Running a program through time and back."""
