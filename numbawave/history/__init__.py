"""Where the past of a run is kept, and how it is coded."""
