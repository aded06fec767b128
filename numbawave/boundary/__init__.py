"""What happens at the edges of the grid."""
