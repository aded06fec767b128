"""What surrounds the wave: time step, resampling, wavelets, locations, model checks and batches of shots."""
